// The loops that measure the machine: bytes read from memory, and each class of instructions from registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

// Independent sums: enough to hide an instruction's latency, few enough to stay in registers.
inline constexpr int kPeakChains = kMatmulRows >= 8 ? 12 : 5;             // 32 registers, or 16 and two a sum
inline constexpr double kDotOperations = 2.0 * 4 * kLanes * kPeakChains;  // of one iteration
inline constexpr double kPairDotOperations = 2.0 * 2 * kLanes * kPeakChains;
inline constexpr double kFmaOperations = 2.0 * kLanes * kPeakChains;

inline int64_t lane_sum(I32x16 x) {
  int32_t lanes[kLanes];
  store_i32(lanes, x);
  int64_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

/// Chains that start equal would stay equal, and the compiler would compute one of them.
BASS_SIMD_INLINE void start_apart(I32x16 (&sums)[kPeakChains]) {
#pragma GCC unroll 16
  for (int i = 0; i < kPeakChains; ++i) sums[i] = add(iota_i32(), broadcast_i32(i));
}

/// `n_iterations` of kPeakChains byte dot products (of nibbles, which some sets do faster than of bytes); the sum keeps
/// the compiler from leaving them out.
inline int64_t dot_peak(int64_t n_iterations) {
  using Dot = QuantDot<4, 1>;
  int8_t quad[4] = {1, 2, 3, 4};
  I32x16 nibbles = broadcast_i32(0x01020304);
  hide(&nibbles);  // equal halves, where a vector is two registers, would be computed once
  I32x16 sums[kPeakChains];
  start_apart(sums);
  asm volatile("" : "+m"(quad));  // nor is it a constant, which would be made anew each time
  for (int64_t i = 0; i < n_iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      peak_step(&sum, nibbles, quad);
      asm volatile("" : "+m"(quad));  // it may have changed: no product is redundant
    }
  }
  I32x16 total = zero_i32();
#pragma GCC unroll 16
  for (const auto& sum : sums) total = add(total, Dot::finish(sum, 0));
  return lane_sum(total);
}

/// The same of int16 pairs, as attention has them.
inline int64_t pair_dot_peak(int64_t n_iterations) {
  int32_t pair = 0x00010002;
  I32x16 factors = broadcast_i32(0x00030001);
  hide(&factors);
  I32x16 sums[kPeakChains];
  start_apart(sums);
  asm volatile("" : "+m"(pair));
  for (int64_t i = 0; i < n_iterations; ++i) {
#pragma GCC unroll 16
    for (auto& sum : sums) {
      add_dot_i16(&sum, broadcast_i32(pair), factors);
      asm volatile("" : "+m"(pair));
    }
  }
  I32x16 total = zero_i32();
#pragma GCC unroll 16
  for (const auto& sum : sums) total = add(total, sum);
  return lane_sum(total);
}

/// `n_iterations` of kPeakChains fp32 multiply-adds; every number stays between 1 and 2.
inline int64_t fma_peak(int64_t n_iterations) {
  float half = 0.5f;
  asm volatile("" : "+m"(half));  // not a constant that the compiler could simplify with
  const F32x16 factor = broadcast(half);
  const F32x16 one = broadcast(1.0f);
  F32x16 values[kPeakChains];
#pragma GCC unroll 16
  for (int i = 0; i < kPeakChains; ++i) {
    values[i] = fma(to_f32(iota_i32()), broadcast(1.0f / 64), broadcast(1.0f + static_cast<float>(i) / 64));
  }
  for (int64_t i = 0; i < n_iterations; ++i) {
#pragma GCC unroll 16
    for (auto& value : values) value = fma(value, factor, one);
  }
  F32x16 total = zero_f32();
#pragma GCC unroll 16
  for (const auto& value : values) total = add(total, value);
  return static_cast<int64_t>(reduce_add(total));  // all lanes: a register that nobody asks for is not computed
}

/// Reads n_bytes (a multiple of 512) with the widest loads. data: any alignment
inline int64_t read_bytes(const std::byte* data, size_t n_bytes) {
  I32x16 sums[8];
  for (auto& sum : sums) sum = zero_i32();
  for (size_t i = 0; i + 512 <= n_bytes; i += 512) {
    for (size_t k = 0; k < 8; ++k) sums[k] = bit_xor(sums[k], load_i32(data + i + k * 64));
  }
  I32x16 total = zero_i32();
  for (const auto& sum : sums) total = bit_xor(total, sum);
  return lane_sum(total);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
