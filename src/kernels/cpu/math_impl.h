// exp and log of 16 lanes in one stated order of operations, so that every instruction set gives the same bits.
// Include after a simd_*.h. Coefficients: minimax fits of our own (Lawson iteration in double, relative error).
#pragma once

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e43p-1f;   // float(ln 2)
inline constexpr float kLn2Low = -0x1.05c61p-29f;  // ln 2 - kLn2High

inline constexpr float kLowestExponent = -0x1.5d589ep+6f;  // ln 2^-126, rounded towards zero
inline constexpr float kHighestExponent = 0x1.62e42ep+6f;  // ln 2^128, rounded towards zero

/// e^x within 1 ulp for x between those two; anything for others.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + (r + r^2 P(r)); times 2^n by adding n to the exponent's bits.
BASS_SIMD_INLINE F32x16 exp_inside(F32x16 x) {
  const F32x16 rounder = broadcast(0x1.8p+23f);  // adding it rounds to an integer, held in the lowest bits
  const F32x16 shifted = fma(x, broadcast(kLog2E), rounder);
  const F32x16 n = sub(shifted, rounder);
  const F32x16 r = fma(n, broadcast(-kLn2Low), fma(n, broadcast(-kLn2High), x));
  F32x16 p = broadcast(0x1.6a2352p-10f);
  p = fma(p, r, broadcast(0x1.123a6cp-7f));
  p = fma(p, r, broadcast(0x1.5558f4p-5f));
  p = fma(p, r, broadcast(0x1.555490p-3f));
  p = fma(p, r, broadcast(0x1.fffffcp-2f));
  const F32x16 e_r = add(fma(p, mul(r, r), r), broadcast(1.0f));
  return float_of(add(bits_of(e_r), shift_left<23>(bits_of(shifted))));
}

/// exp_f32 of what is not above kHighestExponent, with fewer instructions.
BASS_SIMD_INLINE F32x16 exp_of_low(F32x16 x) {
  return select(gt(broadcast(kLowestExponent), x), zero_f32(), exp_inside(x));
}

/// e^x within 1 ulp. 0 where the result is below the smallest normal number (x < -87.33654; exp(-inf) = 0), infinity
/// above the largest (x > 88.72283). A NaN gives an unspecified value.
BASS_SIMD_INLINE F32x16 exp_f32(F32x16 x) {
  const F32x16 lowest = broadcast(kLowestExponent);
  const F32x16 highest = broadcast(kHighestExponent);
  const F32x16 result = exp_inside(max(min(x, highest), lowest));
  const F32x16 no_underflow = select(gt(lowest, x), zero_f32(), result);
  return select(gt(x, highest), broadcast(__builtin_inff()), no_underflow);
}

/// 2^x within 3 x 2^-24 (relative) for x <= 0; 2^-60 below -60, where it makes no difference to what it is added to,
/// and for a NaN. For the weights of a softmax. 2^0 is 1.
///
/// x = n + f with |f| <= 1/2; 2^f = 1 + f P(f); times 2^n by adding n to the exponent's bits.
BASS_SIMD_INLINE F32x16 exp2_f32(F32x16 x) {
  const F32x16 rounder = broadcast(0x1.8p+23f);
  const F32x16 inside = max(x, broadcast(-60.0f));
  const F32x16 shifted = add(inside, rounder);
  const F32x16 f = sub(inside, sub(shifted, rounder));
  F32x16 p = broadcast(0x1.5bba14p-10f);
  p = fma(p, f, broadcast(0x1.3cea88p-7f));
  p = fma(p, f, broadcast(0x1.c6b752p-5f));
  p = fma(p, f, broadcast(0x1.ebf9bcp-3f));
  p = fma(p, f, broadcast(0x1.62e42ap-1f));
  p = fma(p, f, broadcast(1.0f));
  return float_of(add(bits_of(p), shift_left<23>(bits_of(shifted))));
}

/// P of log(1 + f) = f - f^2 / 2 + f^3 P(f), for sqrt(1/2) - 1 <= f < sqrt(2) - 1.
BASS_SIMD_INLINE F32x16 log_polynomial(F32x16 f) {
  F32x16 p = broadcast(-0.07634493f);
  p = fma(p, f, broadcast(0.12761575f));
  p = fma(p, f, broadcast(-0.13160183f));
  p = fma(p, f, broadcast(0.14201759f));
  p = fma(p, f, broadcast(-0.16623357f));
  p = fma(p, f, broadcast(0.20001227f));
  p = fma(p, f, broadcast(-0.2500082f));
  p = fma(p, f, broadcast(0.3333333f));
  return p;
}

/// Natural logarithm of a positive normal number within 1 ulp; -inf for zero and subnormal numbers, infinity for
/// infinity. Negative numbers and NaN give unspecified values.
///
/// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2 / 2 + f^3 P(f).
BASS_SIMD_INLINE F32x16 log_f32(F32x16 x) {
  const I32x16 sqrt_half_bits = broadcast_i32(0x3F3504F3);
  const I32x16 offset = sub(bits_of(x), sqrt_half_bits);
  const F32x16 e = to_f32(shift_right<23>(offset));
  const I32x16 mantissa = bit_and(offset, broadcast_i32(0x7FFFFF));
  const F32x16 f = sub(float_of(add(mantissa, sqrt_half_bits)), broadcast(1.0f));

  const F32x16 p = log_polynomial(f);
  const F32x16 f2 = mul(f, f);
  F32x16 tail = mul(mul(f2, f), p);
  tail = fma(e, broadcast(kLn2Low), tail);
  tail = fma(f2, broadcast(-0.5f), tail);
  const F32x16 result = fma(e, broadcast(kLn2High), add(f, tail));

  const F32x16 infinity = broadcast(__builtin_inff());
  const F32x16 bounded = select(gt(broadcast(0x1p-126f), x), neg(infinity), result);
  return select(eq(x, infinity), infinity, bounded);
}

/// The standard normal distribution's tail beyond x >= 0, erfc(x / sqrt 2) / 2, within 1e-7 and x^2 2^-24 (relative).
///
/// e^(-x^2 / 2) t P(t) with t = 1 / (1 + .35 x).
BASS_SIMD_INLINE F32x16 normal_tail(F32x16 x) {
  const F32x16 t = div(broadcast(1.0f), fma(x, broadcast(0.35f), broadcast(1.0f)));
  F32x16 p = broadcast(-0x1.dcb0a4p-6f);
  p = fma(p, t, broadcast(0x1.2655e0p-3f));
  p = fma(p, t, broadcast(-0x1.054e00p-2f));
  p = fma(p, t, broadcast(0x1.44b620p-3f));
  p = fma(p, t, broadcast(-0x1.736bccp-6f));
  p = fma(p, t, broadcast(0x1.af6068p-4f));
  p = fma(p, t, broadcast(0x1.eb0a44p-4f));
  p = fma(p, t, broadcast(0x1.1e6c2ap-3f));
  p = fma(p, t, broadcast(0x1.1df20cp-3f));
  return mul(exp_f32(mul(mul(x, x), broadcast(-0.5f))), mul(t, p));
}

/// Of Activation::kGeluTanh: 2 sqrt(2 / pi), and that times .044715.
inline constexpr float kGeluLinear = 1.5957691f;
inline constexpr float kGeluCubic = 0.0713548f;

/// cap tanh(x / cap); a NaN stays one.
BASS_SIMD_INLINE F32x16 soft_cap_f32(F32x16 x, float cap) {
  const F32x16 e = exp_f32(mul(x, broadcast(2.0f / cap)));
  const F32x16 capped = sub(broadcast(cap), div(broadcast(2.0f * cap), add(broadcast(1.0f), e)));
  return select(eq(x, x), capped, x);
}

/// The same arithmetic for one number.
BASS_SIMD_INLINE float exp_scalar(float x) { return first_lane(exp_f32(broadcast(x))); }
BASS_SIMD_INLINE float log_scalar(float x) { return first_lane(log_f32(broadcast(x))); }

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
