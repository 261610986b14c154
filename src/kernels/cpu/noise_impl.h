// Random numbers of vocabulary rows, lane by lane: Philox, and the exponential and Gumbel noise made of its bits.
// Include after a simd_*.h and math_impl.h; every instruction set and every device gets the same bits.
#pragma once

#include "base/philox.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

/// More than any Gumbel number that 32 random bits can give (33 ln 2 = 22.874).
inline constexpr float kMaxGumbel = 22.9f;

struct NoiseBlock {
  I32x16 bits[4];  // the words of 16 counters, or 64 consecutive tokens
};

/// Philox4x32-10 of 16 counters {first[i], and the stream's other words}: the four words of each.
BASS_SIMD_INLINE NoiseBlock philox_words(const RandomStream& stream, I32x16 first) {
  const auto word = [](uint32_t x) { return broadcast_i32(static_cast<int32_t>(x)); };
  I32x16 c0 = first;
  I32x16 c1 = word(stream.position);
  I32x16 c2 = word(stream.round_start);
  I32x16 c3 = word(static_cast<uint32_t>(stream.purpose) | stream.sample_idx << 8);
  auto k0 = static_cast<uint32_t>(stream.seed);
  auto k1 = static_cast<uint32_t>(stream.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const I32x16 high0 = mul_hi_u32(c0, word(kPhiloxMultiplier0)), low0 = mul_lo(c0, word(kPhiloxMultiplier0));
    const I32x16 high1 = mul_hi_u32(c2, word(kPhiloxMultiplier1)), low1 = mul_lo(c2, word(kPhiloxMultiplier1));
    c0 = bit_xor(bit_xor(high1, c1), word(k0));
    c1 = low1;
    c2 = bit_xor(bit_xor(high0, c3), word(k1));
    c3 = low0;
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

/// The random bits of 16 tokens.
BASS_SIMD_INLINE I32x16 noise_bits_of(const RandomStream& stream, I32x16 ids) {
  const NoiseBlock words = philox_words(stream, shift_right_logical<2>(ids));
  const I32x16 place = bit_and(ids, broadcast_i32(3));
  const auto is_behind = [&](int word) { return gt(place, broadcast_i32(word)); };
  const I32x16 high = select(is_behind(2), words.bits[3], words.bits[2]);
  return select(is_behind(1), high, select(is_behind(0), words.bits[1], words.bits[0]));
}

/// fl((x + .5) 2^-32) for an unsigned x, rounded once.
BASS_SIMD_INLINE F32x16 unit_interval(I32x16 x) {
  const F32x16 high = to_f32(shift_right_logical<16>(x));
  const F32x16 low = add(to_f32(bit_and(x, broadcast_i32(0xFFFF))), broadcast(0.5f));  // exact
  return mul(fma(high, broadcast(65536.0f), low), broadcast(0x1p-32f));
}

/// log(1 + f) for sqrt(1/2) - 1 <= f < sqrt(2) - 1: the polynomial of log_f32, relative error below 2e-7 down to f = 0.
BASS_SIMD_INLINE F32x16 log1p_polynomial(F32x16 f) {
  const F32x16 f2 = mul(f, f);
  return add(f, fma(f2, broadcast(-0.5f), mul(mul(f2, f), log_polynomial(f))));
}

/// E = -log(u), u = (x + .5) 2^-32: a standard exponential number, with a relative error below 3e-7 everywhere.
///
/// u is never rounded to 1: from u = 46341 / 65536 (just above sqrt(1/2)) upward the polynomial of log_f32 gets the
/// argument f = -(1 - u) = -((~x) + .5) 2^-32, computed from the complement of the bits, with exponent 0:
/// log(u) = f - f^2 / 2 + f^3 P(f). Below, u = 2^e (1 + f) is taken apart as in log_f32.
BASS_SIMD_INLINE F32x16 exponential_of(I32x16 x) {
  const Mask16 is_high = gt(shift_right_logical<16>(x), broadcast_i32(46340));
  const F32x16 u = unit_interval(select(is_high, bit_xor(x, broadcast_i32(-1)), x));  // 1 - u where it is high
  return neg(select(is_high, log1p_polynomial(neg(u)), log_f32(u)));
}

/// G = -log(E), a standard Gumbel number: at most kMaxGumbel.
BASS_SIMD_INLINE F32x16 gumbel_of(I32x16 x) { return neg(log_f32(exponential_of(x))); }

/// A cheap lower bound of 1 - u (so of E): the complement's lowest bit is dropped, and 1e-6 taken off for rounding.
BASS_SIMD_INLINE F32x16 exponential_lower_bound(I32x16 x) {
  const F32x16 half = to_f32(shift_right_logical<1>(bit_xor(x, broadcast_i32(-1))));
  return fma(half, broadcast(0x1p-31f * (1 - 1e-6f)), broadcast(0x1p-33f * (1 - 1e-6f)));
}

/// A cheap upper bound of gumbel_of: -log of the lower bound of E, with log2 replaced by the straight line between
/// powers of two that the bits of a float are (never above log2), and 1e-4 for the roundings.
BASS_SIMD_INLINE F32x16 gumbel_upper_bound(I32x16 x) {
  const F32x16 line = to_f32(bits_of(exponential_lower_bound(x)));
  return fma(line, broadcast(-0x1.62e43p-1f * 0x1p-23f), broadcast(127 * 0x1.62e43p-1f + 1e-4f));
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
