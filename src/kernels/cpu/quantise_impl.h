// Rounding rows of activations to the groups that quantised weights meet (the arithmetic and the layout:
// activations.h). Include after a simd_*.h and elementwise_impl.h.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// One group of one row: 32 values to their place in the group's record.
template <int kPlanes>
BASS_SIMD_INLINE void quantise_group(const float* x, std::byte* record, int row_in_block) {
  constexpr float kQMax = kPlanes == 1 ? 127.0f : 32512.0f;
  const F32x16 x0 = load(x);
  const F32x16 x1 = load(x + kLanes);
  const float amax = reduce_max(max(abs(x0), abs(x1)));
  float inverse = kQMax / amax;
  float scale = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, amax / kQMax) & ~3u);
  if (!(inverse <= __FLT_MAX__)) {  // zero, or so small that the inverse is infinite
    inverse = 0;
    scale = 0;
  }
  const I32x16 q[2] = {round_to_i32(mul(x0, broadcast(inverse))), round_to_i32(mul(x1, broadcast(inverse)))};
  auto* quants = reinterpret_cast<int8_t*>(record + activation_quants_offset(0, row_in_block));
  for (int i = 0; i < 2; ++i) {
    if constexpr (kPlanes == 1) {
      store_i8(quants + i * kLanes, q[i]);
    } else {
      const I32x16 hi = shift_right<8>(add(q[i], broadcast_i32(128)));
      store_i8(quants + i * kLanes, hi);
      store_i8(quants + activation_quants_offset(1, 0) + i * kLanes, sub(q[i], shift_left<8>(hi)));
    }
  }
  const int32_t half_sums[2] = {reduce_add(q[0]), reduce_add(q[1])};
  // Unsigned: an infinite value is rounded to the least integer, and the sums of such may wrap around.
  const uint32_t sum = static_cast<uint32_t>(half_sums[0]) + static_cast<uint32_t>(half_sums[1]);
  constexpr uint32_t kStart = kPlanes == 1 ? kDotBiasBits : 0;
  const auto put = [&](ActivationField field, auto value) __attribute__((always_inline)) {
    __builtin_memcpy(record + activation_field_offset(kPlanes, field, row_in_block), &value, 4);
  };
  put(ActivationField::kScale, scale);
  put(ActivationField::kBias, -kDotBias * scale);
  put(ActivationField::kScaledSum, scale * static_cast<float>(static_cast<int32_t>(sum)));
  put(ActivationField::kStart8, kStart - 8 * sum);
  put(ActivationField::kStart128, kStart - 128 * sum);
  put(ActivationField::kHalfSum0, half_sums[0]);
  put(ActivationField::kHalfSum1, half_sums[1]);
}

inline void quantise_row(const float* x, int row_idx, int begin, int end, const ActivationRows& rows) {
  for (int g = begin / kGroupLen; g < end / kGroupLen; ++g) {
    const float* group = x + (g * kGroupLen - begin);
    std::byte* record = rows.record(row_idx, g);
    if (rows.n_planes == 1) {
      quantise_group<1>(group, record, row_idx % kRowBlock);
    } else {
      quantise_group<2>(group, record, row_idx % kRowBlock);
    }
  }
}

inline void copy_rows(const float* x, ptrdiff_t stride, WorkRange rows, WorkRange cols, const ActivationRows& out) {
  const int n = cols.end - cols.begin;
  for (int r = rows.begin; r < rows.end; ++r, x += stride) {
    float* copy = out.f32 + static_cast<ptrdiff_t>(r) * out.n_cols + cols.begin;
    for (int i = 0; i < n; i += kLanes) store_at(copy, i, n, load_at(x, i, n));
  }
}

}  // namespace detail

inline void quantise(const float* x, ptrdiff_t stride, WorkRange rows, WorkRange cols, const ActivationRows& out) {
  if (out.f32 != nullptr) detail::copy_rows(x, stride, rows, cols, out);
  if (out.n_planes == 0) return;
  for (int r = rows.begin; r < rows.end; ++r, x += stride) detail::quantise_row(x, r, cols.begin, cols.end, out);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
