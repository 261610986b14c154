// The 16-lane vectors of the CPU kernels on AVX2, FMA and F16C: two 256-bit registers each. With AVX-VNNI (the compiler
// defines __AVXVNNI__) the byte dot products are one instruction.
// simd_scalar.h documents the functions; all three simd_*.h define the same ones with the same bits, but for dot_u8s8,
// which AVX2 alone does without (madd_dot_impl.h).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#ifndef BASS_SIMD_NAMESPACE
#error "define BASS_SIMD_NAMESPACE (see kernels_avx2.cc)"
#endif
#define BASS_SIMD_INLINE inline __attribute__((always_inline))

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline constexpr int kLanes = 16;
// Loops over registers are unrolled up to so many times, which is whole: GCC would keep arrays of vectors in memory.
inline constexpr int kUnrolled = 32;
// Register blocking of the kernels, for 16 registers (simd_avx512.h says what each counts).
inline constexpr int kMatmulTiles = 1;
inline constexpr int kMatmulRows = 4;           // 8 registers of int sums; the fp32 sums live in the first cache
inline constexpr bool kMasksMayBeFree = false;  // AMD too multiplies, masks and shifts on four pipes in all
inline constexpr int kFloatMatmulRows = 6;      // 12 sums hide the latency of two FMAs a cycle
inline constexpr int kWideVectors = 1;
inline constexpr int kWideTile = 4;
inline constexpr int kScoreVectors = 1;
constexpr int value_vectors(int /*n_rows*/) { return 1; }
inline constexpr int kMaxNarrowRows = 6;
inline constexpr int kMaxRowsInTurn = 12;  // measured without AVX-VNNI

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
/// All bits of a lane set or clear.
struct Mask16 {
  __m256 lo, hi;
};

// --- making and moving

BASS_SIMD_INLINE F32x16 zero_f32() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
BASS_SIMD_INLINE I32x16 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
BASS_SIMD_INLINE F32x16 broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
BASS_SIMD_INLINE I32x16 broadcast_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
BASS_SIMD_INLINE I32x16 iota_i32() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
BASS_SIMD_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
BASS_SIMD_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
BASS_SIMD_INLINE I32x16 load_i32(const void* p) {
  const auto* q = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
BASS_SIMD_INLINE void store_i32(void* p, I32x16 x) {
  auto* q = static_cast<__m256i*>(p);
  _mm256_storeu_si256(q, x.lo);
  _mm256_storeu_si256(q + 1, x.hi);
}
BASS_SIMD_INLINE Mask16 first_lanes(int n) {
  const I32x16 lane = iota_i32();
  const __m256i count = _mm256_set1_epi32(n);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, lane.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, lane.hi))};
}
BASS_SIMD_INLINE F32x16 load_partial(const float* p, int n, float fill) {
  const Mask16 m = first_lanes(n);
  const __m256 other = _mm256_set1_ps(fill);
  return {_mm256_blendv_ps(other, _mm256_maskload_ps(p, _mm256_castps_si256(m.lo)), m.lo),
          _mm256_blendv_ps(other, _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi)), m.hi)};
}
BASS_SIMD_INLINE void store_partial(float* p, int n, F32x16 x) {
  const Mask16 m = first_lanes(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), x.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), x.hi);
}
BASS_SIMD_INLINE F32x16 load_f16(const uint16_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
BASS_SIMD_INLINE void store_f16(uint16_t* p, F32x16 x) {
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
BASS_SIMD_INLINE F32x16 load_bf16(const uint16_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16))};
}
BASS_SIMD_INLINE I32x16 load_i8(const void* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
}
/// 32 int8 as pairs of int16.
BASS_SIMD_INLINE I32x16 widen_i8(const int8_t* p) {
  const auto* bytes = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(bytes)), _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes + 1))};
}
BASS_SIMD_INLINE void store_i8(int8_t* p, I32x16 x) {
  // Byte 0 of the four int32 of each 128-bit half, gathered into its lowest 32 bits.
  const __m256i low_bytes = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                             0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i lo = _mm256_shuffle_epi8(x.lo, low_bytes);
  const __m256i hi = _mm256_shuffle_epi8(x.hi, low_bytes);
  const __m128i lo8 = _mm_unpacklo_epi32(_mm256_castsi256_si128(lo), _mm256_extracti128_si256(lo, 1));
  const __m128i hi8 = _mm_unpacklo_epi32(_mm256_castsi256_si128(hi), _mm256_extracti128_si256(hi, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi64(lo8, hi8));
}
BASS_SIMD_INLINE void store_i16(int16_t* p, I32x16 x) {
  // The low halves of the four int32 of each 128-bit half, gathered into its lowest 64 bits.
  const __m256i low_halves = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                              0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i lo = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x.lo, low_halves), 0x08);
  const __m256i hi = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x.hi, low_halves), 0x08);
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_castsi256_si128(lo));
  _mm_storeu_si128(q + 1, _mm256_castsi256_si128(hi));
}
BASS_SIMD_INLINE void hide(I32x16* x) { asm volatile("" : "+x"(x->lo), "+x"(x->hi)); }
BASS_SIMD_INLINE void keep_in_register(I32x16* /*x*/) {}  // there are not enough of them

BASS_SIMD_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
BASS_SIMD_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// --- fp32

BASS_SIMD_INLINE F32x16 add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE F32x16 sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE F32x16 mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE F32x16 div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
BASS_SIMD_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE F32x16 abs(F32x16 x) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  return {_mm256_and_ps(x.lo, magnitude), _mm256_and_ps(x.hi, magnitude)};
}
BASS_SIMD_INLINE F32x16 neg(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(x.lo, sign), _mm256_xor_ps(x.hi, sign)};
}
BASS_SIMD_INLINE F32x16 swap_pairs(F32x16 x) { return {_mm256_permute_ps(x.lo, 0xB1), _mm256_permute_ps(x.hi, 0xB1)}; }
inline void transpose(F32x16 (&x)[kLanes]) {
  alignas(64) float rows[kLanes][kLanes];
  alignas(64) float columns[kLanes][kLanes];
  for (int i = 0; i < kLanes; ++i) store(rows[i], x[i]);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) columns[i][j] = rows[j][i];
  }
  for (int i = 0; i < kLanes; ++i) x[i] = load(columns[i]);
}

// --- int32

BASS_SIMD_INLINE I32x16 add(I32x16 a, I32x16 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
BASS_SIMD_INLINE I32x16 sub(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
BASS_SIMD_INLINE I32x16 mul_lo(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
namespace detail {
BASS_SIMD_INLINE __m256i mul_hi_u32(__m256i a, __m256i b) {
  const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(even, odd, 0xAA);
}
}  // namespace detail
BASS_SIMD_INLINE I32x16 mul_hi_u32(I32x16 a, I32x16 b) {
  return {detail::mul_hi_u32(a.lo, b.lo), detail::mul_hi_u32(a.hi, b.hi)};
}
BASS_SIMD_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
BASS_SIMD_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
BASS_SIMD_INLINE I32x16 bit_xor(I32x16 a, I32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_left(I32x16 x) {
  return {_mm256_slli_epi32(x.lo, kBits), _mm256_slli_epi32(x.hi, kBits)};
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_right(I32x16 x) {
  return {_mm256_srai_epi32(x.lo, kBits), _mm256_srai_epi32(x.hi, kBits)};
}
template <int kBits>
BASS_SIMD_INLINE I32x16 shift_right_logical(I32x16 x) {
  return {_mm256_srli_epi32(x.lo, kBits), _mm256_srli_epi32(x.hi, kBits)};
}

// --- conversions

BASS_SIMD_INLINE I32x16 round_to_i32(F32x16 x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }
BASS_SIMD_INLINE F32x16 to_f32(I32x16 x) { return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)}; }
BASS_SIMD_INLINE I32x16 bits_of(F32x16 x) { return {_mm256_castps_si256(x.lo), _mm256_castps_si256(x.hi)}; }
BASS_SIMD_INLINE F32x16 float_of(I32x16 x) { return {_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)}; }

// --- masks

BASS_SIMD_INLINE Mask16 gt(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)};
}
BASS_SIMD_INLINE Mask16 ge(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
BASS_SIMD_INLINE Mask16 eq(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
BASS_SIMD_INLINE Mask16 gt(I32x16 a, I32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.lo, b.lo)), _mm256_castsi256_ps(_mm256_cmpgt_epi32(a.hi, b.hi))};
}
BASS_SIMD_INLINE Mask16 eq(I32x16 a, I32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.lo, b.lo)), _mm256_castsi256_ps(_mm256_cmpeq_epi32(a.hi, b.hi))};
}
BASS_SIMD_INLINE Mask16 mask_and(Mask16 a, Mask16 b) { return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE Mask16 mask_or(Mask16 a, Mask16 b) { return {_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)}; }
BASS_SIMD_INLINE Mask16 mask_not(Mask16 a) {
  const __m256 ones = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  return {_mm256_xor_ps(a.lo, ones), _mm256_xor_ps(a.hi, ones)};
}
BASS_SIMD_INLINE uint32_t mask_bits(Mask16 m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(m.lo)) | static_cast<uint32_t>(_mm256_movemask_ps(m.hi)) << 8;
}
BASS_SIMD_INLINE bool any(Mask16 m) { return _mm256_movemask_ps(_mm256_or_ps(m.lo, m.hi)) != 0; }
BASS_SIMD_INLINE F32x16 select(Mask16 m, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}
BASS_SIMD_INLINE I32x16 select(Mask16 m, I32x16 a, I32x16 b) { return bits_of(select(m, float_of(a), float_of(b))); }

// --- reductions

BASS_SIMD_INLINE float reduce_add(F32x16 x) {
  const __m256 x8 = _mm256_add_ps(x.lo, x.hi);
  const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_add_ss(x2, _mm_movehdup_ps(x2)));
}
BASS_SIMD_INLINE float reduce_max(F32x16 x) {
  const __m256 x8 = _mm256_max_ps(x.lo, x.hi);
  const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
  const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
  return _mm_cvtss_f32(_mm_max_ss(x2, _mm_movehdup_ps(x2)));
}
BASS_SIMD_INLINE int32_t reduce_add(I32x16 x) {
  const __m256i x8 = _mm256_add_epi32(x.lo, x.hi);
  const __m128i x4 = _mm_add_epi32(_mm256_castsi256_si128(x8), _mm256_extracti128_si256(x8, 1));
  const __m128i x2 = _mm_add_epi32(x4, _mm_shuffle_epi32(x4, 0xEE));
  return _mm_cvtsi128_si32(_mm_add_epi32(x2, _mm_shuffle_epi32(x2, 0x55)));
}
BASS_SIMD_INLINE float first_lane(F32x16 x) { return _mm256_cvtss_f32(x.lo); }
BASS_SIMD_INLINE F32x16 broadcast_lane(F32x16 x, int lane) {
  const __m256 all = _mm256_permutevar8x32_ps(lane < 8 ? x.lo : x.hi, _mm256_set1_epi32(lane % 8));
  return {all, all};
}
namespace detail {

/// Up to eight rows, kMaxNarrowRows being fewer (the last one again where there are fewer); each step of the tree takes
/// two vectors and leaves both in one.
template <int kRows, class Combine>
BASS_SIMD_INLINE F32x16 fold_rows(const F32x16 (&rows)[kRows], Combine combine) {
  static_assert(kRows <= 8);
  const auto row = [&](int r) { return rows[r < kRows ? r : kRows - 1]; };
  __m256 fours[4];  // row i in the lower half, row 4 + i in the upper
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256 low = combine(row(i).lo, row(i).hi);
    const __m256 high = combine(row(4 + i).lo, row(4 + i).hi);
    fours[i] = combine(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
  }
  __m256 twos[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m256d even = _mm256_castps_pd(fours[2 * i]);
    const __m256d odd = _mm256_castps_pd(fours[2 * i + 1]);
    twos[i] = combine(_mm256_castpd_ps(_mm256_unpacklo_pd(even, odd)), _mm256_castpd_ps(_mm256_unpackhi_pd(even, odd)));
  }
  const __m256 all = combine(_mm256_shuffle_ps(twos[0], twos[1], 0x88), _mm256_shuffle_ps(twos[0], twos[1], 0xDD));
  return {all, all};
}

}  // namespace detail
template <int kRows>
BASS_SIMD_INLINE F32x16 reduce_add(const F32x16 (&rows)[kRows]) {
  if constexpr (kRows == 1) return broadcast(reduce_add(rows[0]));
  return detail::fold_rows(rows, [](__m256 a, __m256 b) { return _mm256_add_ps(a, b); });
}
template <int kRows>
BASS_SIMD_INLINE F32x16 reduce_max(const F32x16 (&rows)[kRows]) {
  if constexpr (kRows == 1) return broadcast(reduce_max(rows[0]));
  return detail::fold_rows(rows, [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); });
}

// --- dot products of int16 pairs

#ifdef __AVXVNNI__

// In assembly, and with the sum in its place, because GCC 12 copies the sums of an unrolled loop from register to
// register, and some to memory.
BASS_SIMD_INLINE void add_dot_i16(I32x16* acc, I32x16 a, I32x16 b) {
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc->lo) : "x"(a.lo), "x"(b.lo));
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc->hi) : "x"(a.hi), "x"(b.hi));
}

#else

namespace detail {
// In assembly, because GCC 12 else computes all products of an unrolled loop first and adds them later: no register is
// left for them, and they go through memory.
BASS_SIMD_INLINE void add_madd(__m256i* sum, __m256i a, __m256i b) {
  __m256i products;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(*sum), "=&x"(products) : "x"(a), "x"(b));
}
}  // namespace detail

BASS_SIMD_INLINE void add_dot_i16(I32x16* acc, I32x16 a, I32x16 b) {
  detail::add_madd(&acc->lo, a.lo, b.lo);
  detail::add_madd(&acc->hi, a.hi, b.hi);
}

#endif

// --- byte dot products

BASS_SIMD_INLINE I32x16 broadcast_quad(const int8_t* quad) {
  int32_t bytes;
  __builtin_memcpy(&bytes, quad, sizeof(bytes));
  return broadcast_i32(bytes);
}

#ifdef __AVXVNNI__  // madd_dot_impl.h where it is not

BASS_SIMD_INLINE I32x16 dot_u8s8(I32x16 acc, I32x16 u8, I32x16 s8) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc.lo) : "x"(u8.lo), "x"(s8.lo));
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc.hi) : "x"(u8.hi), "x"(s8.hi));
  return acc;
}
BASS_SIMD_INLINE I32x16 dot_u8s8(I32x16 acc, I32x16 u8, const int8_t* quad) {
  return dot_u8s8(acc, u8, broadcast_quad(quad));
}

#endif

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
