// The 16-lane vectors of the CPU kernels on AVX-512 (F, BW, DQ, VL, VNNI): one 512-bit register each.
// simd_scalar.h documents the functions; all three simd_*.h define the same ones with the same bits, but for
// dot_u8s8, which AVX2 alone does without (madd_dot_impl.h).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#ifndef BASS_SIMD_NAMESPACE
#error "define BASS_SIMD_NAMESPACE (see kernels_avx512vnni.cc)"
#endif
#define BASS_SIMD_INLINE inline __attribute__((always_inline))

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline constexpr int kLanes = 16;
// Loops over registers are unrolled up to so many times, which is whole: GCC would keep arrays of vectors in memory.
inline constexpr int kUnrolled = 32;
// Register blocking of the kernels, for 32 registers.
// Tiles and rows that share quads in registers: 16 int sums stay, of the 16 fp32 sums some wait in the first-level
// cache.
inline constexpr int kMatmulTiles = 2;
inline constexpr int kMatmulRows = 8;
inline constexpr int kFloatMatmulRows = 8;  // of float weights
// masks_are_free() counts: where it says so, no unpacked copy of quants of four bits is made for many rows.
inline constexpr bool kMasksMayBeFree = true;
// Attention, rows in lanes: kWideVectors vectors of rows and kWideTile positions (or columns of head_dim) in flight.
inline constexpr int kWideVectors = 3;
inline constexpr int kWideTile = 8;
// Attention, one row after the other: vectors of positions, or of head_dim, in flight for each row.
inline constexpr int kScoreVectors = 2;
constexpr int value_vectors(int n_rows) { return n_rows <= 6 ? 4 : 2; }  // sums and values have registers
// Rows of such a block, at most: 24 sums, and registers for what they are of.
inline constexpr int kMaxNarrowRows = 12;
// So many rows are faster one behind the other, in blocks of up to kMaxNarrowRows, than in lanes, most of them idle.
inline constexpr int kMaxRowsInTurn = 12;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};
/// Four neighbouring bytes at any address.
struct Quad {
  int8_t v[4];
};

// --- making and moving

BASS_SIMD_INLINE F32x16 zero_f32() { return {_mm512_setzero_ps()}; }
BASS_SIMD_INLINE I32x16 zero_i32() { return {_mm512_setzero_si512()}; }
BASS_SIMD_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
BASS_SIMD_INLINE I32x16 broadcast_i32(int32_t x) { return {_mm512_set1_epi32(x)}; }
BASS_SIMD_INLINE I32x16 iota_i32() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
BASS_SIMD_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
BASS_SIMD_INLINE void store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
BASS_SIMD_INLINE I32x16 load_i32(const void* p) { return {_mm512_loadu_si512(p)}; }
BASS_SIMD_INLINE void store_i32(void* p, I32x16 x) { _mm512_storeu_si512(p, x.v); }
BASS_SIMD_INLINE Mask16 first_lanes(int n) {
  return {static_cast<__mmask16>(n >= kLanes ? 0xFFFFu : n <= 0 ? 0u : (1u << n) - 1u)};
}
BASS_SIMD_INLINE F32x16 load_partial(const float* p, int n, float fill) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n).v, p)};
}
BASS_SIMD_INLINE void store_partial(float* p, int n, F32x16 x) { _mm512_mask_storeu_ps(p, first_lanes(n).v, x.v); }
BASS_SIMD_INLINE F32x16 load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
BASS_SIMD_INLINE void store_f16(uint16_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
BASS_SIMD_INLINE F32x16 load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
BASS_SIMD_INLINE I32x16 load_i8(const void* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
/// 32 int8 as pairs of int16.
BASS_SIMD_INLINE I32x16 widen_i8(const int8_t* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
BASS_SIMD_INLINE void store_i8(int8_t* p, I32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
BASS_SIMD_INLINE void store_i16(int16_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x.v));
}
/// The compiler, which takes loads for free, would load x again for each use.
BASS_SIMD_INLINE void keep_in_register(I32x16* x) { asm("" : "+v"(x->v)); }
BASS_SIMD_INLINE void hide(I32x16* x) { asm volatile("" : "+v"(x->v)); }
BASS_SIMD_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
BASS_SIMD_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// --- fp32

BASS_SIMD_INLINE F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
BASS_SIMD_INLINE F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
BASS_SIMD_INLINE F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
BASS_SIMD_INLINE F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
BASS_SIMD_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
BASS_SIMD_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
BASS_SIMD_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
BASS_SIMD_INLINE F32x16 abs(F32x16 x) {
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x7FFFFFFF)))};
}
BASS_SIMD_INLINE F32x16 neg(F32x16 x) {
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x.v), _mm512_set1_epi32(INT32_MIN)))};
}
BASS_SIMD_INLINE F32x16 swap_pairs(F32x16 x) { return {_mm512_permute_ps(x.v, 0xB1)}; }
inline void transpose(F32x16 (&x)[kLanes]) {
  // First 4 x 4 inside the quarters of vectors: quads[4 g + c] has column 4 q + c of the rows 4 g .. in its quarter q.
  __m512 quads[kLanes];
#pragma GCC unroll 4
  for (int g = 0; g < kLanes; g += 4) {
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(x[g].v, x[g + 1].v));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(x[g].v, x[g + 1].v));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(x[g + 2].v, x[g + 3].v));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(x[g + 2].v, x[g + 3].v));
    quads[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    quads[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    quads[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    quads[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
  }
  // Then the quarters: 0x88 takes the even ones of both vectors, 0xDD the odd ones.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even01 = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0x88);
    const __m512 odd01 = _mm512_shuffle_f32x4(quads[c], quads[4 + c], 0xDD);
    const __m512 even23 = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0x88);
    const __m512 odd23 = _mm512_shuffle_f32x4(quads[8 + c], quads[12 + c], 0xDD);
    x[c].v = _mm512_shuffle_f32x4(even01, even23, 0x88);
    x[8 + c].v = _mm512_shuffle_f32x4(even01, even23, 0xDD);
    x[4 + c].v = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
    x[12 + c].v = _mm512_shuffle_f32x4(odd01, odd23, 0xDD);
  }
}

// --- int32

BASS_SIMD_INLINE I32x16 add(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
BASS_SIMD_INLINE I32x16 sub(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
BASS_SIMD_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
BASS_SIMD_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a.v, b.v), 32);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  return {_mm512_mask_blend_epi32(0xAAAA, even, odd)};
}
BASS_SIMD_INLINE I32x16 bit_and(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
BASS_SIMD_INLINE I32x16 bit_or(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
BASS_SIMD_INLINE I32x16 bit_xor(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm512_slli_epi32(x.v, kBits)};
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_right(I32x16 x) {
  return {_mm512_srai_epi32(x.v, kBits)};
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_right_logical(I32x16 x) {
  return {_mm512_srli_epi32(x.v, kBits)};
}

// --- conversions

BASS_SIMD_INLINE I32x16 round_to_i32(F32x16 x) { return {_mm512_cvtps_epi32(x.v)}; }
BASS_SIMD_INLINE F32x16 to_f32(I32x16 x) { return {_mm512_cvtepi32_ps(x.v)}; }
BASS_SIMD_INLINE I32x16 bits_of(F32x16 x) { return {_mm512_castps_si512(x.v)}; }
BASS_SIMD_INLINE F32x16 float_of(I32x16 x) { return {_mm512_castsi512_ps(x.v)}; }

// --- masks

BASS_SIMD_INLINE Mask16 gt(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
BASS_SIMD_INLINE Mask16 ge(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
BASS_SIMD_INLINE Mask16 eq(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
BASS_SIMD_INLINE Mask16 gt(I32x16 a, I32x16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
BASS_SIMD_INLINE Mask16 eq(I32x16 a, I32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
BASS_SIMD_INLINE Mask16 mask_and(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.v & b.v)}; }
BASS_SIMD_INLINE Mask16 mask_or(Mask16 a, Mask16 b) { return {static_cast<__mmask16>(a.v | b.v)}; }
BASS_SIMD_INLINE Mask16 mask_not(Mask16 a) { return {static_cast<__mmask16>(~a.v)}; }
BASS_SIMD_INLINE uint32_t mask_bits(Mask16 m) { return m.v; }
BASS_SIMD_INLINE bool any(Mask16 m) { return m.v != 0; }
BASS_SIMD_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
BASS_SIMD_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }

// --- reductions

BASS_SIMD_INLINE float reduce_add(F32x16 x) {
  const __m256 x8 = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_movehdup_ps(x2)));
}
BASS_SIMD_INLINE float reduce_max(F32x16 x) {
  const __m256 x8 = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_movehdup_ps(x2)));
}
BASS_SIMD_INLINE int32_t reduce_add(I32x16 x) {
  const __m256i x8 = _mm256_add_epi32(_mm512_castsi512_si256(x.v), _mm512_extracti64x4_epi64(x.v, 1));
  const __m128i x4 = _mm_add_epi32(_mm256_castsi256_si128(x8), _mm256_extracti128_si256(x8, 1));
  const __m128i x2 = _mm_add_epi32(x4, _mm_shuffle_epi32(x4, 0xEE));
  return _mm_cvtsi128_si32(_mm_add_epi32(x2, _mm_shuffle_epi32(x2, 0x55)));
}
BASS_SIMD_INLINE float first_lane(F32x16 x) { return _mm512_cvtss_f32(x.v); }
BASS_SIMD_INLINE F32x16 broadcast_lane(F32x16 x, int lane) {
  return {_mm512_permutexvar_ps(_mm512_set1_epi32(lane), x.v)};
}
namespace detail {

/// Each step of the tree takes two vectors (the last one twice where their number is odd) and leaves both in one.
template <int kRows, class Combine>
BASS_SIMD_INLINE F32x16 fold_rows(const F32x16 (&rows)[kRows], Combine combine) {
  static_assert(kRows <= kLanes);
  constexpr int kHalves = (kRows + 1) / 2;
  constexpr int kQuarters = (kHalves + 1) / 2;
  constexpr int kPairs = (kQuarters + 1) / 2;
  const auto other = [](int i, int n) { return 2 * i + 1 < n ? 2 * i + 1 : 2 * i; };
  __m512 halves[kHalves];  // row 2 i in the lower half, row 2 i + 1 in the upper
#pragma GCC unroll 8
  for (int i = 0; i < kHalves; ++i) {
    const __m512 a = rows[2 * i].v;
    const __m512 b = rows[other(i, kRows)].v;
    halves[i] = combine(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  }
  __m512 quarters[kQuarters];  // row 4 i + q in quarter q
#pragma GCC unroll 4
  for (int i = 0; i < kQuarters; ++i) {
    const __m512 a = halves[2 * i];
    const __m512 b = halves[other(i, kHalves)];
    quarters[i] = combine(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  }
  __m512 pairs[kPairs];  // two numbers of row 8 i + q, then two of row 8 i + 4 + q
#pragma GCC unroll 2
  for (int i = 0; i < kPairs; ++i) {
    const __m512d a = _mm512_castps_pd(quarters[2 * i]);
    const __m512d b = _mm512_castps_pd(quarters[other(i, kQuarters)]);
    pairs[i] = combine(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  const __m512 a = pairs[0];
  const __m512 b = pairs[kPairs - 1];
  const __m512 all =
      combine(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));  // row 4 c + q in lane 4 q + c
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return {_mm512_permutexvar_ps(in_order, all)};
}

}  // namespace detail
template <int kRows>
BASS_SIMD_INLINE F32x16 reduce_add(const F32x16 (&rows)[kRows]) {
  if constexpr (kRows == 1) return broadcast(reduce_add(rows[0]));
  return detail::fold_rows(rows, [](__m512 a, __m512 b) { return _mm512_add_ps(a, b); });
}
template <int kRows>
BASS_SIMD_INLINE F32x16 reduce_max(const F32x16 (&rows)[kRows]) {
  if constexpr (kRows == 1) return broadcast(reduce_max(rows[0]));
  return detail::fold_rows(rows, [](__m512 a, __m512 b) { return _mm512_max_ps(a, b); });
}

// --- dot products of int16 pairs

// In assembly, and with the sum in its place, because GCC 12 copies the sums of an unrolled loop from register to
// register, and some to memory.
BASS_SIMD_INLINE void add_dot_i16(I32x16* acc, I32x16 a, I32x16 b) {
  asm("vpdpwssd %2, %1, %0" : "+v"(acc->v) : "v"(a.v), "v"(b.v));
}

// --- byte dot products

// Written in assembly because GCC 12 does not fold the broadcast of four bytes into vpdpbusd's memory operand; as an
// instruction of its own it would cost an issue slot each.
BASS_SIMD_INLINE I32x16 dot_u8s8(I32x16 acc, I32x16 u8, const int8_t* quad) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc.v) : "v"(u8.v), "m"(*reinterpret_cast<const Quad*>(quad)));
  return acc;
}
BASS_SIMD_INLINE I32x16 dot_u8s8(I32x16 acc, I32x16 u8, I32x16 s8) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc.v) : "v"(u8.v), "v"(s8.v));
  return acc;
}
BASS_SIMD_INLINE I32x16 broadcast_quad(const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, sizeof(bits));
  return broadcast_i32(bits);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
