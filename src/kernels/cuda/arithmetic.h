// The CPU backend's arithmetic for one number (lane.h: the CPU's own source) and for lanes of a warp: the same bits.
// cuda/arithmetic_test.cc compares.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

inline constexpr float kLog2E = lane::kLog2E;
inline constexpr float kInf = __builtin_inff();
inline constexpr float kFloatMax = 0x1.fffffep+127f;

/// Zeros above the highest one; 64 of 0. (nvcc 13 makes constants of std::countl_zero and std::countr_zero, and says
/// nothing.)
BASS_HD int leading_zeros(uint64_t x) {
  int n = x == 0 ? 1 : 0;
  for (int step = 32; step >= 1; step /= 2) {
    if (x >> (64 - step) != 0) continue;
    n += step;
    x <<= step;
  }
  return n;
}
/// Zeros below the lowest one. x: not 0
BASS_HD int trailing_zeros(uint32_t x) { return 63 - leading_zeros(x & (0u - x)); }

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

/// To nearest even. What is not a number stays so: a GPU's own NaN, all ones behind the sign, would round up to -0.
BASS_HD uint16_t to_bf16(float value) {
  if (!(value == value)) return 0x7FC0;
  const uint32_t bits = bits_of(value);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
BASS_HD float from_bf16(uint16_t value) { return float_of(static_cast<uint32_t>(value) << 16); }

/// FP8 as "E4M3" of the Open Compute Project's 8-bit specification: no infinities, largest 448, which what is larger
/// becomes; a NaN stays one. To nearest even.
inline constexpr float kE4m3Max = 448.0f;
BASS_HD uint8_t to_e4m3(float value) {
  constexpr uint32_t kNan = 0x7F, kMax = 0x7E;
  const uint32_t sign = bits_of(value) >> 31 << 7;
  const float size = fabsf(value);
  uint32_t rest = kMax;
  if (!(size == size)) {
    rest = kNan;
  } else if (size < 0x1p-6f) {  // in steps of 2^-9; eight of them are the smallest number with an exponent
    rest = static_cast<uint32_t>(round_to_int(size * 0x1p9f));
  } else if (size < kE4m3Max) {
    const uint32_t bits = bits_of(size);
    rest = ((bits + 0x7FFFFu + (bits >> 20 & 1u)) >> 20) - ((127u - 7u) << 3);
  }
  return static_cast<uint8_t>(sign | rest);
}
BASS_HD float from_e4m3(uint8_t value) {
  const uint32_t exponent = value >> 3 & 15u;
  const uint32_t mantissa = value & 7u;
  float size = static_cast<float>(mantissa) * 0x1p-9f;
  if (exponent > 0) size = float_of((exponent + 127u - 7u) << 23 | mantissa << 20);
  if ((value & 0x7Fu) == 0x7Fu) size = float_of(0x7FC00000u);
  return (value & 0x80u) != 0 ? -size : size;
}

BASS_HD float exp_f32(float x) { return lane::exp_f32({x}).v; }
/// The same for x <= 0.
BASS_HD float exp_of_low(float x) { return lane::exp_of_low({x}).v; }
/// 2^max(x, -60) for x <= 0
BASS_HD float exp2_f32(float x) { return lane::exp2_f32({x}).v; }
BASS_HD float log_f32(float x) { return lane::log_f32({x}).v; }
BASS_HD float normal_tail(float x) { return lane::normal_tail({x}).v; }
BASS_HD float soft_cap(float x, float cap) { return lane::soft_cap_f32({x}, cap).v; }

/// product f(gate): kernels.h, `activate`.
BASS_HD float silu(float gate, float product) { return product / (1.0f + exp_f32(-gate)); }
BASS_HD float gelu_tanh(float gate, float product) {
  const float inner = fmaf(gate * gate, lane::kGeluCubic, lane::kGeluLinear);
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
// Random numbers (noise_impl.h)

/// -log((x + .5) 2^-32)
BASS_HD float exponential_of(uint32_t x) { return lane::exponential_of({static_cast<int32_t>(x)}).v; }
BASS_HD float gumbel_of(uint32_t x) { return lane::gumbel_of({static_cast<int32_t>(x)}).v; }

}  // namespace bass::cuda
