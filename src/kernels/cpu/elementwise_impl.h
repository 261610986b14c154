// The operations between the matrix products: normalisation, quantisation, activation, rotation, KV write.
// Include after a simd_*.h and math_impl.h.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/kv_head_impl.h"
#include "kernels/cpu/read_ahead.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

// A vector at i of an array of n; lanes past the end read 0 and are not written.
BASS_SIMD_INLINE F32x16 load_at(const float* p, int i, int n) {
  return i + kLanes <= n ? load(p + i) : load_partial(p + i, n - i, 0.0f);
}
BASS_SIMD_INLINE void store_at(float* p, int i, int n, F32x16 x) {
  if (i + kLanes <= n) {
    store(p + i, x);
  } else {
    store_partial(p + i, n - i, x);
  }
}

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
  const int32_t sum = half_sums[0] + half_sums[1];
  constexpr int32_t kStart = kPlanes == 1 ? kDotBiasBits : 0;
  const auto put = [&](ActivationField field, auto value) __attribute__((always_inline)) {
    __builtin_memcpy(record + activation_field_offset(kPlanes, field, row_in_block), &value, 4);
  };
  put(ActivationField::kScale, scale);
  put(ActivationField::kBias, -kDotBias * scale);
  put(ActivationField::kScaledSum, scale * static_cast<float>(sum));
  put(ActivationField::kStart8, kStart - 8 * sum);
  put(ActivationField::kStart128, kStart - 128 * sum);
  put(ActivationField::kHalfSum0, half_sums[0]);
  put(ActivationField::kHalfSum1, half_sums[1]);
}

}  // namespace detail

inline void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  F32x16 squares = zero_f32();
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 v = detail::load_at(x, i, n);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const F32x16 factor = broadcast(1.0f / __builtin_sqrtf(mean + eps));
  for (int i = 0; i < n; i += kLanes) {
    detail::store_at(out, i, n, mul(mul(detail::load_at(x, i, n), factor), detail::load_at(weight, i, n)));
  }
}

inline void layer_norm(const float* x, const float* weight, const float* bias, int n, float eps, float* out) {
  F32x16 sums = zero_f32();
  for (int i = 0; i < n; i += kLanes) sums = add(sums, detail::load_at(x, i, n));
  const F32x16 mean = broadcast(reduce_add(sums) / static_cast<float>(n));
  F32x16 squares = zero_f32();
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 v = select(first_lanes(n - i), sub(detail::load_at(x, i, n), mean), zero_f32());
    squares = fma(v, v, squares);
  }
  const float variance = reduce_add(squares) / static_cast<float>(n);
  const F32x16 factor = broadcast(1.0f / __builtin_sqrtf(variance + eps));
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 scaled = mul(sub(detail::load_at(x, i, n), mean), factor);
    detail::store_at(out, i, n, fma(scaled, detail::load_at(weight, i, n), detail::load_at(bias, i, n)));
  }
}

inline void quantise(const float* x, int row_idx, int begin, int end, const ActivationRows& rows) {
  const auto row = static_cast<size_t>(row_idx);
  const auto n_cols = static_cast<size_t>(rows.n_cols);
  const auto first = static_cast<size_t>(begin);
  const int n = end - begin;
  if (rows.f32 != nullptr) {
    float* copy = rows.f32 + row * n_cols + first;
    for (int i = 0; i < n; i += kLanes) detail::store_at(copy, i, n, detail::load_at(x, i, n));
  }
  if (rows.n_planes == 0) return;
  for (int g = begin / kGroupLen; g < end / kGroupLen; ++g) {
    const float* group = x + (g * kGroupLen - begin);
    std::byte* record = rows.record(row_idx, g);
    if (rows.n_planes == 1) {
      detail::quantise_group<1>(group, record, row_idx % kRowBlock);
    } else {
      detail::quantise_group<2>(group, record, row_idx % kRowBlock);
    }
  }
}

namespace detail {

/// product f(gate), product being gate or gate * up.
template <Activation kKind>
BASS_SIMD_INLINE F32x16 activated(F32x16 gate, F32x16 product) {
  const F32x16 one = broadcast(1.0f);
  if constexpr (kKind == Activation::kSilu) return div(product, add(one, exp_f32(neg(gate))));
  if constexpr (kKind == Activation::kGeluTanh) {
    const F32x16 inner = fma(mul(gate, gate), broadcast(kGeluCubic), broadcast(kGeluLinear));
    return div(product, add(one, exp_f32(neg(mul(gate, inner)))));
  }
  if constexpr (kKind == Activation::kGelu) {
    const F32x16 tail = normal_tail(abs(gate));
    return select(gt(gate, zero_f32()), fma(neg(product), tail, product), mul(product, tail));
  }
  return select(ge(zero_f32(), gate), zero_f32(), product);  // of a NaN: a NaN
}

}  // namespace detail

template <Activation kKind>
inline void activate(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 g = detail::load_at(gate, i, n);
    const F32x16 product = up == nullptr ? g : mul(detail::load_at(up, i, n), g);
    detail::store_at(out, i, n, detail::activated<kKind>(g, product));
  }
}

inline void soft_cap(float* x, int n, float cap) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(x, i, n, soft_cap_f32(detail::load_at(x, i, n), cap));
}

inline void rope(float* head, int rope_dim, const float* cos_pairs, const float* sin_pairs) {
  for (int i = 0; i < rope_dim; i += kLanes) {
    const F32x16 x = detail::load_at(head, i, rope_dim);
    const F32x16 straight = mul(x, detail::load_at(cos_pairs, i, rope_dim));
    detail::store_at(head, i, rope_dim, fma(swap_pairs(x), detail::load_at(sin_pairs, i, rope_dim), straight));
  }
}

namespace detail {

/// A token's numbers lie in as many cache lines as a head has pairs, and stores leave the processor in their order: one
/// missing line after the other where nobody has asked for them.
template <class Int>
BASS_SIMD_INLINE void ask_for_token(const KvHead<std::byte, Int>& head, int head_dim, int token_in_page) {
  constexpr int kLineLen = 64 / static_cast<int>(sizeof(Int));
  const Int* column = head.v + static_cast<ptrdiff_t>(token_in_page / 2) * head_dim * 2;
  for (int i = 0; i < head_dim / 2; ++i) prefetch_l2(head.k + (i * kKvPageLen + token_in_page) * 2);
  for (int i = 0; i < 2 * head_dim; i += kLineLen) prefetch_l2(column + i);
}

template <class Int>
inline void write_kv(const float* k, const float* v, int head_dim, int token_in_page, std::byte* page_head) {
  constexpr bool kIsInt8 = sizeof(Int) == 1;
  const KvHead<std::byte, Int> head(page_head, head_dim);
  if (read_ahead().is_staged()) ask_for_token(head, head_dim, token_in_page);
  int16_t row[kMaxHeadDim];
  head.k_scale[token_in_page] =
      kIsInt8 ? quantise_by_maximum(k, head_dim, kInt8Steps, row) : quantise_by_norm(k, head_dim, row);
  for (int d = 0; d < head_dim; ++d) {
    head.k[(d / 2 * kKvPageLen + token_in_page) * 2 + d % 2] = static_cast<Int>(row[d]);
  }
  head.v_scale[token_in_page] = quantise_by_maximum(v, head_dim, kIsInt8 ? kInt8Steps : kInt16Steps, row);
  Int* column = head.v + static_cast<ptrdiff_t>(token_in_page / 2) * head_dim * 2 + token_in_page % 2;
  for (int d = 0; d < head_dim; ++d) column[2 * d] = static_cast<Int>(row[d]);
}

}  // namespace detail

inline void write_kv(const KvShape& shape, const float* k, const float* v, int token_in_page, std::byte* page_head) {
  if (shape.number_bytes == 1) {
    detail::write_kv<int8_t>(k, v, shape.head_dim, token_in_page, page_head);
  } else {
    detail::write_kv<int16_t>(k, v, shape.head_dim, token_in_page, page_head);
  }
}

inline void exp2_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(out, i, n, exp2_f32(detail::load_at(x, i, n)));
}

inline void exp_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(out, i, n, exp_f32(detail::load_at(x, i, n)));
}

inline void log_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(out, i, n, log_f32(detail::load_at(x, i, n)));
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
