// The CPU backend's arithmetic for one number and for lanes of a warp: the same order of operations as
// kernels/cpu/math_impl.h (whose comments derive the polynomials), so the same bits. cuda/arithmetic_test.cc compares.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

inline constexpr float kLog2E = 0x1.715476p+0f;
inline constexpr float kLn2High = 0x1.62e43p-1f;
inline constexpr float kLn2Low = -0x1.05c61p-29f;
inline constexpr float kInf = __builtin_inff();
inline constexpr float kFloatMax = 0x1.fffffep+127f;

BASS_HD uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
BASS_HD float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

/// a > b ? a : b, and a < b ? a : b: with a NaN as `a` they give b.
BASS_HD float max_of(float a, float b) { return a > b ? a : b; }
BASS_HD float min_of(float a, float b) { return a < b ? a : b; }

/// Round to nearest even. What is not within +-2^22 (only of NaNs and broken inputs) gives 0.
BASS_HD int32_t round_to_int(float x) {
  if (!(x >= -0x1p22f && x <= 0x1p22f)) return 0;
  return static_cast<int32_t>(bits_of(x + 0x1.8p+23f) - bits_of(0x1.8p+23f));
}

BASS_HD float exp_f32(float x) {
  const float lowest = -0x1.5d589ep+6f;
  const float highest = 0x1.62e42ep+6f;
  const float rounder = 0x1.8p+23f;
  const float inside = max_of(min_of(x, highest), lowest);
  const float shifted = fmaf(inside, kLog2E, rounder);
  const float n = shifted - rounder;
  const float r = fmaf(n, -kLn2Low, fmaf(n, -kLn2High, inside));
  float p = 0x1.6a2352p-10f;
  p = fmaf(p, r, 0x1.123a6cp-7f);
  p = fmaf(p, r, 0x1.5558f4p-5f);
  p = fmaf(p, r, 0x1.555490p-3f);
  p = fmaf(p, r, 0x1.fffffcp-2f);
  const float e_r = fmaf(p, r * r, r) + 1.0f;
  const float result = float_of(bits_of(e_r) + (bits_of(shifted) << 23));
  const float no_underflow = lowest > x ? 0.0f : result;
  return x > highest ? kInf : no_underflow;
}

/// 2^max(x, -60) for x <= 0
BASS_HD float exp2_f32(float x) {
  const float rounder = 0x1.8p+23f;
  const float inside = max_of(x, -60.0f);
  const float shifted = inside + rounder;
  const float f = inside - (shifted - rounder);
  float p = 0x1.5bba14p-10f;
  p = fmaf(p, f, 0x1.3cea88p-7f);
  p = fmaf(p, f, 0x1.c6b752p-5f);
  p = fmaf(p, f, 0x1.ebf9bcp-3f);
  p = fmaf(p, f, 0x1.62e42ap-1f);
  p = fmaf(p, f, 1.0f);
  return float_of(bits_of(p) + (bits_of(shifted) << 23));
}

BASS_HD float log_polynomial(float f) {
  float p = -0.07634493f;
  p = fmaf(p, f, 0.12761575f);
  p = fmaf(p, f, -0.13160183f);
  p = fmaf(p, f, 0.14201759f);
  p = fmaf(p, f, -0.16623357f);
  p = fmaf(p, f, 0.20001227f);
  p = fmaf(p, f, -0.2500082f);
  p = fmaf(p, f, 0.3333333f);
  return p;
}

BASS_HD float log_f32(float x) {
  const uint32_t sqrt_half_bits = 0x3F3504F3u;
  const uint32_t offset = bits_of(x) - sqrt_half_bits;
  const auto e = static_cast<float>(static_cast<int32_t>(offset) >> 23);
  const float f = float_of((offset & 0x7FFFFFu) + sqrt_half_bits) - 1.0f;
  const float p = log_polynomial(f);
  const float f2 = f * f;
  float tail = (f2 * f) * p;
  tail = fmaf(e, kLn2Low, tail);
  tail = fmaf(f2, -0.5f, tail);
  const float result = fmaf(e, kLn2High, f + tail);
  const float bounded = 0x1p-126f > x ? -kInf : result;
  return x == kInf ? kInf : bounded;
}

BASS_HD float normal_tail(float x) {
  const float t = 1.0f / fmaf(x, 0.35f, 1.0f);
  float p = -0x1.dcb0a4p-6f;
  p = fmaf(p, t, 0x1.2655e0p-3f);
  p = fmaf(p, t, -0x1.054e00p-2f);
  p = fmaf(p, t, 0x1.44b620p-3f);
  p = fmaf(p, t, -0x1.736bccp-6f);
  p = fmaf(p, t, 0x1.af6068p-4f);
  p = fmaf(p, t, 0x1.eb0a44p-4f);
  p = fmaf(p, t, 0x1.1e6c2ap-3f);
  p = fmaf(p, t, 0x1.1df20cp-3f);
  return exp_f32((x * x) * -0.5f) * (t * p);
}

BASS_HD float soft_cap(float x, float cap) {
  const float e = exp_f32(x * (2.0f / cap));
  const float capped = cap - (2.0f * cap) / (1.0f + e);
  return x == x ? capped : x;
}

/// product f(gate): kernels.h, `activate`.
BASS_HD float silu(float gate, float product) { return product / (1.0f + exp_f32(-gate)); }
BASS_HD float gelu_tanh(float gate, float product) {
  const float inner = fmaf(gate * gate, 0.0713548f, 1.5957691f);
  return product / (1.0f + exp_f32(-(gate * inner)));
}
BASS_HD float gelu(float gate, float product) {
  const float tail = normal_tail(fabsf(gate));
  return gate > 0.0f ? fmaf(-product, tail, product) : product * tail;
}
BASS_HD float relu(float gate, float product) { return 0.0f >= gate ? 0.0f : product; }

// ---------------------------------------------------------------------------------------------------------------------
// Sums of lanes: lane i of the CPU's vectors holds the elements i, i + 16, ...; here it is lane i of a half warp.

inline constexpr int kLanes = 16;

/// The fixed tree over 16 lanes: i with i + 8, then + 4, + 2, + 1. Each half of the warp adds up its own; all of its
/// lanes get the sum (a + b and b + a have the same bits).
template <class Context>
BASS_HD float sum_16_lanes(Context& context, float x) {
  for (int half = kLanes / 2; half >= 1; half /= 2) x = x + context.shuffle_xor(x, half);
  return x;
}
template <class Context>
BASS_HD float max_16_lanes(Context& context, float x) {
  for (int half = kLanes / 2; half >= 1; half /= 2) x = max_of(x, context.shuffle_xor(x, half));
  return x;
}
/// Of the whole warp; exact, so that the order does not matter.
template <class Context>
BASS_HD float max_of_warp(Context& context, float x) {
  x = max_16_lanes(context, x);
  return max_of(x, context.shuffle_xor(x, kLanes));
}
template <class Context>
BASS_HD int32_t sum_of_warp(Context& context, int32_t x) {
  for (int half = kWarpLen / 2; half >= 1; half /= 2) x += context.shuffle_xor(x, half);
  return x;
}

// ---------------------------------------------------------------------------------------------------------------------
// Random numbers (vocab_impl.h)

BASS_HD float unit_interval(uint32_t x) {
  const auto high = static_cast<float>(static_cast<int32_t>(x >> 16));
  const float low = static_cast<float>(static_cast<int32_t>(x & 0xFFFFu)) + 0.5f;
  return fmaf(high, 65536.0f, low) * 0x1p-32f;
}

BASS_HD float log1p_polynomial(float f) {
  const float f2 = f * f;
  return f + fmaf(f2, -0.5f, (f2 * f) * log_polynomial(f));
}

/// -log((x + .5) 2^-32)
BASS_HD float exponential_of(uint32_t x) {
  const bool is_high = (x >> 16) > 46340u;
  const float u = unit_interval(is_high ? ~x : x);
  return -(is_high ? log1p_polynomial(-u) : log_f32(u));
}

BASS_HD float gumbel_of(uint32_t x) { return -log_f32(exponential_of(x)); }

}  // namespace bass::cuda
