// Dot products of quantised weights and activations where one instruction adds four products of bytes to an int32.
// Include after a simd_*.h that has dot_u8s8; madd_dot_impl.h is for the one that lacks it.
#pragma once

#include <cstdint>

namespace bass::cpu::BASS_SIMD_NAMESPACE {

/// Adds the products of weights that are unsigned quants below 2^kBits with activations of kPlanes planes. With one
/// plane no number becomes the activation -128. finish(sum, s) behind start(s) and at most eight calls of add is s +
/// the exact sum of (w - kOffset) x; the sum between them is the instruction set's own.
template <int kBits, int kPlanes>
struct QuantDot {
  using Weights = I32x16;
  static constexpr int kOffset = 0;

  /// quants: four of each of 16 channels
  BASS_SIMD_INLINE static Weights weights(I32x16 quants) { return quants; }
  BASS_SIMD_INLINE static I32x16 start(int32_t x) { return broadcast_i32(x); }
  /// x: from broadcast_quad, or the quad itself
  template <class Quad>
  BASS_SIMD_INLINE static void add(I32x16* sum, const Weights& w, Quad x) {
    *sum = dot_u8s8(*sum, w, x);
  }
  BASS_SIMD_INLINE static I32x16 finish(I32x16 sum, int32_t /*start*/) { return sum; }
};

/// For machine_impl.h: what QuantDot<4, 1>::add does, in as few instructions as it takes.
BASS_SIMD_INLINE void peak_step(I32x16* sum, I32x16 w, const int8_t* x) { QuantDot<4, 1>::add(sum, w, x); }

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
