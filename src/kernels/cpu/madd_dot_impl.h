// Dot products of quantised weights and activations on AVX2, which multiplies bytes in pairs: vpmaddubsw adds two
// products of an unsigned and a signed byte, with saturation at 16 bits, and vpmaddwd adds two such sums to 32.
// Include after simd_avx2.h. byte_dot_impl.h says what QuantDot is.
#pragma once

#include <cstdint>
#include <type_traits>

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// Neighbouring int16 added.
BASS_SIMD_INLINE __m256i pair_sums(__m256i pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

/// A use of the sum as it is now, for the reason that add_madd has. (All of it in assembly takes 1.03 to 1.07 times as
/// long in the products: the compiler then cannot order what it does not know.)
BASS_SIMD_INLINE void use_now(I32x16 sum) { asm volatile("" : : "x"(sum.lo), "x"(sum.hi)); }

/// What weights, start and finish of QuantDot are where they are nothing special.
struct MaddDot {
  using Weights = I32x16;
  static constexpr int kOffset = 0;
  BASS_SIMD_INLINE static Weights weights(I32x16 quants) { return quants; }
  BASS_SIMD_INLINE static I32x16 start(int32_t x) { return broadcast_i32(x); }
  BASS_SIMD_INLINE static I32x16 finish(I32x16 sum, int32_t /*start*/) { return sum; }
};

/// The sum is 2 x 16 bits a lane: eight steps of at most 2 * 15 * 128 = 3840 each stay below 2^15.
struct NibbleDot : MaddDot {
  BASS_SIMD_INLINE static I32x16 start(int32_t /*x*/) { return zero_i32(); }
  BASS_SIMD_INLINE static void add(I32x16* sum, const Weights& w, I32x16 x) {
    *sum = {_mm256_add_epi16(sum->lo, _mm256_maddubs_epi16(w.lo, x.lo)),
            _mm256_add_epi16(sum->hi, _mm256_maddubs_epi16(w.hi, x.hi))};
    use_now(*sum);
  }
  BASS_SIMD_INLINE static I32x16 finish(I32x16 sum, int32_t start) {
    return bass::cpu::BASS_SIMD_NAMESPACE::add({pair_sums(sum.lo), pair_sums(sum.hi)}, broadcast_i32(start));
  }
};

/// 2 * 127 * 128 = 32512 fits into 16 bits.
struct SevenBitDot : MaddDot {
  BASS_SIMD_INLINE static void add(I32x16* sum, const Weights& w, I32x16 x) {
    *sum = {_mm256_add_epi32(sum->lo, pair_sums(_mm256_maddubs_epi16(w.lo, x.lo))),
            _mm256_add_epi32(sum->hi, pair_sums(_mm256_maddubs_epi16(w.hi, x.hi)))};
    use_now(*sum);
  }
};

/// (w - 128) x = |w - 128| (x with the sign of w - 128): at most 2 * 128 * 127, as no number becomes an x of -128,
/// which has no opposite.
struct SignedByteDot : MaddDot {
  struct Weights {
    I32x16 with_sign;
    I32x16 magnitude;
  };
  static constexpr int kOffset = 128;
  BASS_SIMD_INLINE static Weights weights(I32x16 quants) {
    const I32x16 w = bit_xor(quants, broadcast_i32(static_cast<int32_t>(0x80808080)));
    return {w, {_mm256_abs_epi8(w.lo), _mm256_abs_epi8(w.hi)}};
  }
  BASS_SIMD_INLINE static void add(I32x16* sum, const Weights& w, I32x16 x) {
    const I32x16 signed_x = {_mm256_sign_epi8(x.lo, w.with_sign.lo), _mm256_sign_epi8(x.hi, w.with_sign.hi)};
    SevenBitDot::add(sum, w.magnitude, signed_x);
  }
};

/// The low seven bits and the top bit of a quant taken apart: 2 * 128 * -128 = -32768 fits too.
struct SplitByteDot : MaddDot {
  BASS_SIMD_INLINE static void add(I32x16* sum, const Weights& w, I32x16 x) {
    SevenBitDot::add(sum, bit_and(w, broadcast_i32(0x7F7F7F7F)), x);
    SevenBitDot::add(sum, bit_and(w, broadcast_i32(static_cast<int32_t>(0x80808080))), x);
  }
};

template <int kBits, int kPlanes>
using QuantDotOf = std::conditional_t<
    kBits <= 4, NibbleDot,
    std::conditional_t<kBits <= 7, SevenBitDot, std::conditional_t<kPlanes == 1, SignedByteDot, SplitByteDot>>>;

}  // namespace detail

/// All in assembly, as GCC 12 copies sums of use_now from register to register here: a fifth of the time.
BASS_SIMD_INLINE void peak_step(I32x16* sum, I32x16 w, const int8_t* x) {
  const auto add = [](__m256i * half, __m256i weights, __m256i quads) __attribute__((always_inline)) {
    __m256i products;
    asm("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(*half), "=&x"(products) : "x"(weights), "x"(quads));
  };
  const I32x16 quads = broadcast_quad(x);
  add(&sum->lo, w.lo, quads.lo);
  add(&sum->hi, w.hi, quads.hi);
}

template <int kBits, int kPlanes>
struct QuantDot : detail::QuantDotOf<kBits, kPlanes> {
  using Base = detail::QuantDotOf<kBits, kPlanes>;
  using Base::add;
  BASS_SIMD_INLINE static void add(I32x16* sum, const typename Base::Weights& w, const int8_t* x) {
    Base::add(sum, w, broadcast_quad(x));
  }
};

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
