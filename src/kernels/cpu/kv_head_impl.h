// How K and V of one head lie in a page, and how heads are rounded to int16 and int8 (kernels.h, "Attention").
// Include after a simd_*.h.
#pragma once

#include <type_traits>

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

/// The parts of a page's head; Byte is std::byte or const std::byte, Int the type of the numbers. Owns nothing.
template <class Byte, class Int>
struct KvHead {
  template <class T>
  using Part = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  KvHead(Byte* page_head, int head_dim)
      : k(reinterpret_cast<Part<Int>*>(page_head)),
        v(k + static_cast<ptrdiff_t>(head_dim) * kKvPageLen),
        k_scale(reinterpret_cast<Part<float>*>(v + static_cast<ptrdiff_t>(head_dim) * kKvPageLen)),
        v_scale(k_scale + kKvPageLen) {}

  Part<Int>* k;          // [head_dim / 2, kKvPageLen, 2]
  Part<Int>* v;          // [kKvPageLen / 2, head_dim, 2]
  Part<float>* k_scale;  // [kKvPageLen]
  Part<float>* v_scale;  // [kKvPageLen]
};

inline constexpr float kInt16Steps = 32512.0f;
inline constexpr float kInt8Steps = 127.0f;
inline constexpr float kSmallestScaled = 1e-30f;  // what is not above it counts as zero: its inverse would be infinite
inline constexpr float kLargestCached = 65504.0f;

namespace detail {

/// q = round(x * (steps / size)); returns the scale, size / steps.
BASS_SIMD_INLINE float round_head(const float* x, int n, float size, float steps, int16_t* q) {
  const bool is_zero = !(size > kSmallestScaled);
  const F32x16 inverse = broadcast(is_zero ? 0.0f : steps / size);
  for (int i = 0; i < n; i += kLanes) store_i16(q + i, round_to_i32(mul(load(x + i), inverse)));
  return is_zero ? 0.0f : size * (1.0f / steps);
}

BASS_SIMD_INLINE F32x16 clamp_cached(F32x16 x) {
  return max(min(x, broadcast(kLargestCached)), broadcast(-kLargestCached));
}

}  // namespace detail

/// x, q: [n], n a multiple of kLanes
inline float quantise_by_norm(const float* x, int n, int16_t* q) {
  F32x16 squares = zero_f32();
  alignas(64) float clamped[kMaxHeadDim];
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 values = detail::clamp_cached(load(x + i));
    store(clamped + i, values);
    squares = fma(values, values, squares);
  }
  return detail::round_head(clamped, n, __builtin_sqrtf(reduce_add(squares)), kInt16Steps, q);
}

inline float quantise_by_maximum(const float* x, int n, float steps, int16_t* q) {
  F32x16 largest = zero_f32();
  alignas(64) float clamped[kMaxHeadDim];
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 values = detail::clamp_cached(load(x + i));
    store(clamped + i, values);
    largest = max(largest, abs(values));
  }
  return detail::round_head(clamped, n, reduce_max(largest), steps, q);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
