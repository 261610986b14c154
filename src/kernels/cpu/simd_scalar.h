// The 16-lane vectors of the CPU kernels as plain loops: the meaning of every function that simd_avx2.h and
// simd_avx512.h give too. Each is defined in the namespace of its instruction set (BASS_SIMD_NAMESPACE), so that the
// linker can never exchange code of one for code of another. All lanes are independent unless it says otherwise, and
// every function returns the same bits in all three headers (AVX2 alone has no dot_u8s8: madd_dot_impl.h).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"  // only here: this file is compiled without flags of an instruction set

#ifndef BASS_SIMD_NAMESPACE
#error "define BASS_SIMD_NAMESPACE (see kernels_scalar.cc)"
#endif
// The compiler decides: with everything inlined these loops would be minutes of its time, and hardly faster.
#define BASS_SIMD_INLINE inline

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline constexpr int kLanes = 16;
// Loops over what other sets keep in registers stay loops.
inline constexpr int kUnrolled = 1;
// Blocking of the kernels (simd_avx512.h says what each counts).
inline constexpr int kMatmulTiles = 1;
inline constexpr int kMatmulRows = 4;
inline constexpr bool kMasksMayBeFree = false;
inline constexpr int kFloatMatmulRows = 4;
inline constexpr int kWideVectors = 1;
inline constexpr int kWideTile = 4;
inline constexpr int kScoreVectors = 1;
/// Vectors of columns that are summed up at a time, row by row.
constexpr int value_vectors(int /*n_rows*/) { return 1; }
inline constexpr int kMaxNarrowRows = 6;
inline constexpr int kMaxRowsInTurn = 12;

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct Mask16 {
  bool v[16];
};

namespace detail {
template <class Out, class Fn>
BASS_SIMD_INLINE Out each_lane(Fn fn) {
  Out out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = fn(i);
  return out;
}
BASS_SIMD_INLINE int32_t wrap(uint32_t x) { return static_cast<int32_t>(x); }
BASS_SIMD_INLINE uint32_t u32(int32_t x) { return static_cast<uint32_t>(x); }
}  // namespace detail

// --- making and moving. Pointers need no alignment.

BASS_SIMD_INLINE F32x16 broadcast(float x) {
  return detail::each_lane<F32x16>([=](int) { return x; });
}
BASS_SIMD_INLINE I32x16 broadcast_i32(int32_t x) {
  return detail::each_lane<I32x16>([=](int) { return x; });
}
BASS_SIMD_INLINE F32x16 zero_f32() { return broadcast(0.0f); }
BASS_SIMD_INLINE I32x16 zero_i32() { return broadcast_i32(0); }
/// 0, 1, ..., 15
BASS_SIMD_INLINE I32x16 iota_i32() {
  return detail::each_lane<I32x16>([](int i) { return i; });
}
BASS_SIMD_INLINE F32x16 load(const float* p) {
  F32x16 x;
  std::memcpy(x.v, p, sizeof(x.v));
  return x;
}
BASS_SIMD_INLINE void store(float* p, F32x16 x) { std::memcpy(p, x.v, sizeof(x.v)); }
BASS_SIMD_INLINE I32x16 load_i32(const void* p) {
  I32x16 x;
  std::memcpy(x.v, p, sizeof(x.v));
  return x;
}
BASS_SIMD_INLINE void store_i32(void* p, I32x16 x) { std::memcpy(p, x.v, sizeof(x.v)); }
/// Lanes 0 .. n - 1; any n (none below 1, all from 16).
BASS_SIMD_INLINE Mask16 first_lanes(int n) {
  return detail::each_lane<Mask16>([=](int i) { return i < n; });
}
/// Lanes 0 .. n - 1 from memory, `fill` in the others, whose memory is not touched.
BASS_SIMD_INLINE F32x16 load_partial(const float* p, int n, float fill) {
  return detail::each_lane<F32x16>([=](int i) { return i < n ? p[i] : fill; });
}
BASS_SIMD_INLINE void store_partial(float* p, int n, F32x16 x) {
  for (int i = 0; i < kLanes && i < n; ++i) p[i] = x.v[i];
}
/// IEEE halves; store rounds to nearest even.
BASS_SIMD_INLINE F32x16 load_f16(const uint16_t* p) {
  return detail::each_lane<F32x16>([=](int i) { return f16_to_f32(p[i]); });
}
BASS_SIMD_INLINE void store_f16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < kLanes; ++i) p[i] = f32_to_f16(x.v[i]);
}
BASS_SIMD_INLINE F32x16 load_bf16(const uint16_t* p) {
  return detail::each_lane<F32x16>([=](int i) { return bf16_to_f32(p[i]); });
}
/// 16 signed bytes.
BASS_SIMD_INLINE I32x16 load_i8(const void* p) {
  int8_t bytes[16];
  std::memcpy(bytes, p, sizeof(bytes));
  return detail::each_lane<I32x16>([&](int i) { return bytes[i]; });
}
/// 32 int8 as pairs of int16.
BASS_SIMD_INLINE I32x16 widen_i8(const int8_t* p) {
  return detail::each_lane<I32x16>([&](int i) {
    const auto low = static_cast<uint32_t>(p[2 * i]) & 0xFFFF;
    return static_cast<int32_t>(low | static_cast<uint32_t>(p[2 * i + 1]) << 16);
  });
}
/// The low byte of every lane.
BASS_SIMD_INLINE void store_i8(int8_t* p, I32x16 x) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(x.v[i]);
}
/// The low halves of every lane.
BASS_SIMD_INLINE void store_i16(int16_t* p, I32x16 x) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int16_t>(x.v[i]);
}
/// So that a loaded vector is not loaded again for each use (AVX-512).
BASS_SIMD_INLINE void keep_in_register(I32x16* /*x*/) {}
/// From here on the compiler knows nothing of its lanes, not even which are equal.
BASS_SIMD_INLINE void hide(I32x16* x) { asm volatile("" : "+m"(*x)); }
BASS_SIMD_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
BASS_SIMD_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

// --- fp32, IEEE round to nearest even

BASS_SIMD_INLINE F32x16 add(F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
BASS_SIMD_INLINE F32x16 sub(F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
BASS_SIMD_INLINE F32x16 mul(F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return a.v[i] * b.v[i]; });
}
BASS_SIMD_INLINE F32x16 div(F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return a.v[i] / b.v[i]; });
}
/// a b + c, rounded once
BASS_SIMD_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return detail::each_lane<F32x16>([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
/// a > b ? a : b: b where one is NaN or where both are zeros.
BASS_SIMD_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
/// a < b ? a : b
BASS_SIMD_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
BASS_SIMD_INLINE F32x16 abs(F32x16 x) {
  return detail::each_lane<F32x16>([&](int i) { return __builtin_fabsf(x.v[i]); });
}
BASS_SIMD_INLINE F32x16 neg(F32x16 x) {
  return detail::each_lane<F32x16>([&](int i) { return -x.v[i]; });
}
/// Lanes 2i and 2i + 1 exchanged.
BASS_SIMD_INLINE F32x16 swap_pairs(F32x16 x) {
  return detail::each_lane<F32x16>([&](int i) { return x.v[i ^ 1]; });
}
/// Lane j of vector i and lane i of vector j change places.
inline void transpose(F32x16 (&x)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float kept = x[i].v[j];
      x[i].v[j] = x[j].v[i];
      x[j].v[i] = kept;
    }
  }
}

// --- int32, wrapping

BASS_SIMD_INLINE I32x16 add(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return detail::wrap(detail::u32(a.v[i]) + detail::u32(b.v[i])); });
}
BASS_SIMD_INLINE I32x16 sub(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return detail::wrap(detail::u32(a.v[i]) - detail::u32(b.v[i])); });
}
/// The low 32 bits of the product.
BASS_SIMD_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return detail::wrap(detail::u32(a.v[i]) * detail::u32(b.v[i])); });
}
/// The high 32 bits of the unsigned product.
BASS_SIMD_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) {
    return detail::wrap(static_cast<uint32_t>(uint64_t{detail::u32(a.v[i])} * detail::u32(b.v[i]) >> 32));
  });
}
BASS_SIMD_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return a.v[i] & b.v[i]; });
}
BASS_SIMD_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return a.v[i] | b.v[i]; });
}
BASS_SIMD_INLINE I32x16 bit_xor(I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return a.v[i] ^ b.v[i]; });
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_left(I32x16 x) {
  return detail::each_lane<I32x16>([&](int i) { return detail::wrap(detail::u32(x.v[i]) << kBits); });
}
/// Arithmetic: copies of the sign bit come in.
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_right(I32x16 x) {
  return detail::each_lane<I32x16>([&](int i) { return x.v[i] >> kBits; });
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_right_logical(I32x16 x) {
  return detail::each_lane<I32x16>([&](int i) { return detail::wrap(detail::u32(x.v[i]) >> kBits); });
}

// --- conversions

/// Nearest integer, ties to even. For |x| < 2^31; otherwise unspecified.
BASS_SIMD_INLINE I32x16 round_to_i32(F32x16 x) {
  return detail::each_lane<I32x16>([&](int i) { return static_cast<int32_t>(__builtin_lrintf(x.v[i])); });
}
BASS_SIMD_INLINE F32x16 to_f32(I32x16 x) {
  return detail::each_lane<F32x16>([&](int i) { return static_cast<float>(x.v[i]); });
}
/// The same bits as another type.
BASS_SIMD_INLINE I32x16 bits_of(F32x16 x) { return load_i32(x.v); }
BASS_SIMD_INLINE F32x16 float_of(I32x16 x) {
  F32x16 out;
  std::memcpy(out.v, x.v, sizeof(out.v));
  return out;
}

// --- masks

BASS_SIMD_INLINE Mask16 gt(F32x16 a, F32x16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] > b.v[i]; });
}
BASS_SIMD_INLINE Mask16 ge(F32x16 a, F32x16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] >= b.v[i]; });
}
BASS_SIMD_INLINE Mask16 eq(F32x16 a, F32x16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] == b.v[i]; });
}
BASS_SIMD_INLINE Mask16 gt(I32x16 a, I32x16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] > b.v[i]; });
}
BASS_SIMD_INLINE Mask16 eq(I32x16 a, I32x16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] == b.v[i]; });
}
BASS_SIMD_INLINE Mask16 mask_and(Mask16 a, Mask16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] && b.v[i]; });
}
BASS_SIMD_INLINE Mask16 mask_or(Mask16 a, Mask16 b) {
  return detail::each_lane<Mask16>([&](int i) { return a.v[i] || b.v[i]; });
}
BASS_SIMD_INLINE Mask16 mask_not(Mask16 a) {
  return detail::each_lane<Mask16>([&](int i) { return !a.v[i]; });
}
/// Bit i is lane i.
BASS_SIMD_INLINE uint32_t mask_bits(Mask16 m) {
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(m.v[i]) << i;
  return bits;
}
BASS_SIMD_INLINE bool any(Mask16 m) { return mask_bits(m) != 0; }
/// m ? a : b
BASS_SIMD_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return detail::each_lane<F32x16>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
BASS_SIMD_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) {
  return detail::each_lane<I32x16>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}

// --- reductions over the lanes, by one tree: lane i with lane i + 8, then i + 4, i + 2, i + 1

BASS_SIMD_INLINE float reduce_add(F32x16 x) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] + x.v[i + half];
  }
  return x.v[0];
}
BASS_SIMD_INLINE float reduce_max(F32x16 x) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
  }
  return x.v[0];
}
BASS_SIMD_INLINE int32_t reduce_add(I32x16 x) {
  uint32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += detail::u32(x.v[i]);
  return detail::wrap(sum);
}
BASS_SIMD_INLINE float first_lane(F32x16 x) { return x.v[0]; }
BASS_SIMD_INLINE F32x16 broadcast_lane(F32x16 x, int lane) { return broadcast(x.v[lane]); }
/// Several vectors by that tree, at most 16: what rows[r] gives lies in lane r, in those behind them what another one
/// gives. Where lanes can change vectors, they share the tree's steps.
template <int kRows>
BASS_SIMD_INLINE F32x16 reduce_add(const F32x16 (&rows)[kRows]) {
  F32x16 sums = broadcast(reduce_add(rows[kRows - 1]));
  for (int r = 0; r + 1 < kRows; ++r) sums.v[r] = reduce_add(rows[r]);
  return sums;
}
template <int kRows>
BASS_SIMD_INLINE F32x16 reduce_max(const F32x16 (&rows)[kRows]) {
  F32x16 maxima = broadcast(reduce_max(rows[kRows - 1]));
  for (int r = 0; r + 1 < kRows; ++r) maxima.v[r] = reduce_max(rows[r]);
  return maxima;
}

// --- dot products of int16 pairs

/// Adds to every lane the two products of its low and of its high halves, which are signed and above -32768.
BASS_SIMD_INLINE void add_dot_i16(I32x16* acc, I32x16 a, I32x16 b) {
  *acc = detail::each_lane<I32x16>([&](int i) {
    const int32_t low = static_cast<int16_t>(a.v[i]) * static_cast<int16_t>(b.v[i]);
    const int32_t high = (a.v[i] >> 16) * (b.v[i] >> 16);
    return detail::wrap(detail::u32(acc->v[i]) + detail::u32(low) + detail::u32(high));
  });
}

// --- byte dot products of 16 lanes x 4 unsigned bytes with the same four signed bytes at `quad`

/// Four bytes in every lane.
BASS_SIMD_INLINE I32x16 broadcast_quad(const int8_t* quad) {
  int32_t bytes;
  __builtin_memcpy(&bytes, quad, sizeof(bytes));
  return broadcast_i32(bytes);
}
/// Adds to every lane the exact sum of its four products; s8 from broadcast_quad, or the quad itself.
BASS_SIMD_INLINE I32x16 dot_u8s8(I32x16 acc, I32x16 u8, I32x16 s8) {
  return detail::each_lane<I32x16>([&](int i) {
    uint32_t sum = detail::u32(acc.v[i]);
    for (int b = 0; b < 4; ++b) {
      const auto factor = static_cast<int8_t>(detail::u32(s8.v[i]) >> (8 * b));
      sum += detail::u32(static_cast<int32_t>(detail::u32(u8.v[i]) >> (8 * b) & 255u) * factor);
    }
    return detail::wrap(sum);
  });
}
BASS_SIMD_INLINE I32x16 dot_u8s8(I32x16 acc, I32x16 u8, const int8_t* quad) {
  return dot_u8s8(acc, u8, broadcast_quad(quad));
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
