// One lane of the CPU kernels' vectors, for the threads of a GPU: the names of simd_scalar.h with the same meaning and
// the same bits, so that the CPU's own source of exp, log and of random numbers (math_impl.h, noise_impl.h) is the
// device's source too. F32x16 keeps its name and has one lane here.
//
// Sums over lanes are not here: a kernel that adds up says itself which threads hold the 16 lanes.
// nvcc must be told -fmad=false: an FMA is one because the source says so.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/host_device.h"

#define BASS_SIMD_NAMESPACE lane
#define BASS_SIMD_INLINE BASS_HD

namespace bass::cpu::lane {

struct F32x16 {
  float v;
};
struct I32x16 {
  int32_t v;
};
struct Mask16 {
  bool v;
};

BASS_HD F32x16 broadcast(float x) { return {x}; }
BASS_HD I32x16 broadcast_i32(int32_t x) { return {x}; }
BASS_HD F32x16 zero_f32() { return {0.0f}; }

BASS_HD F32x16 add(F32x16 a, F32x16 b) { return {a.v + b.v}; }
BASS_HD F32x16 sub(F32x16 a, F32x16 b) { return {a.v - b.v}; }
BASS_HD F32x16 mul(F32x16 a, F32x16 b) { return {a.v * b.v}; }
BASS_HD F32x16 div(F32x16 a, F32x16 b) { return {a.v / b.v}; }
/// a b + c, rounded once
BASS_HD F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {::fmaf(a.v, b.v, c.v)}; }
/// a > b ? a : b: b where one is NaN or where both are zeros.
BASS_HD F32x16 max(F32x16 a, F32x16 b) { return {a.v > b.v ? a.v : b.v}; }
BASS_HD F32x16 min(F32x16 a, F32x16 b) { return {a.v < b.v ? a.v : b.v}; }
BASS_HD F32x16 neg(F32x16 x) { return {-x.v}; }
BASS_HD F32x16 abs(F32x16 x) { return {::fabsf(x.v)}; }

// Integers wrap: unsigned arithmetic, which says so.
BASS_HD uint32_t u32(I32x16 x) { return static_cast<uint32_t>(x.v); }
BASS_HD I32x16 wrap(uint32_t x) { return {static_cast<int32_t>(x)}; }
BASS_HD I32x16 add(I32x16 a, I32x16 b) { return wrap(u32(a) + u32(b)); }
BASS_HD I32x16 sub(I32x16 a, I32x16 b) { return wrap(u32(a) - u32(b)); }
BASS_HD I32x16 mul_lo(I32x16 a, I32x16 b) { return wrap(u32(a) * u32(b)); }
BASS_HD I32x16 mul_hi_u32(I32x16 a, I32x16 b) { return wrap(static_cast<uint32_t>(uint64_t{u32(a)} * u32(b) >> 32)); }
BASS_HD I32x16 bit_and(I32x16 a, I32x16 b) { return {a.v & b.v}; }
BASS_HD I32x16 bit_or(I32x16 a, I32x16 b) { return {a.v | b.v}; }
BASS_HD I32x16 bit_xor(I32x16 a, I32x16 b) { return {a.v ^ b.v}; }
template <int kBits>
BASS_HD I32x16 shift_left(I32x16 x) {
  return wrap(u32(x) << kBits);
}
template <int kBits>
BASS_HD I32x16 shift_right(I32x16 x) {
  return {x.v >> kBits};
}
template <int kBits>
BASS_HD I32x16 shift_right_logical(I32x16 x) {
  return wrap(u32(x) >> kBits);
}

BASS_HD F32x16 to_f32(I32x16 x) { return {static_cast<float>(x.v)}; }
BASS_HD I32x16 bits_of(F32x16 x) {
  I32x16 bits;
  memcpy(&bits.v, &x.v, sizeof(bits.v));
  return bits;
}
BASS_HD F32x16 float_of(I32x16 x) {
  F32x16 value;
  memcpy(&value.v, &x.v, sizeof(value.v));
  return value;
}

BASS_HD Mask16 gt(F32x16 a, F32x16 b) { return {a.v > b.v}; }
BASS_HD Mask16 ge(F32x16 a, F32x16 b) { return {a.v >= b.v}; }
BASS_HD Mask16 eq(F32x16 a, F32x16 b) { return {a.v == b.v}; }
BASS_HD Mask16 gt(I32x16 a, I32x16 b) { return {a.v > b.v}; }
BASS_HD Mask16 eq(I32x16 a, I32x16 b) { return {a.v == b.v}; }
BASS_HD F32x16 select(Mask16 m, F32x16 a, F32x16 b) { return m.v ? a : b; }
BASS_HD I32x16 select(Mask16 m, I32x16 a, I32x16 b) { return m.v ? a : b; }
BASS_HD float first_lane(F32x16 x) { return x.v; }

/// Nearest integer, ties to even. For |x| < 2^31; otherwise unspecified.
BASS_HD int32_t round_to_i32(float x) { return static_cast<int32_t>(::rintf(x)); }

}  // namespace bass::cpu::lane

// clang-format off
#include "kernels/cpu/math_impl.h"
#include "kernels/cpu/noise_impl.h"
// clang-format on

#undef BASS_SIMD_NAMESPACE
#undef BASS_SIMD_INLINE

namespace bass::cuda {
namespace lane = cpu::lane;
}  // namespace bass::cuda
