// Rounding whole row blocks of activations with AVX-512: the bits of quantise_impl.h, for numbers. Include after it.
//
// A group by itself is a chain: the largest magnitude of its 32 numbers, a division, a product, a sum of integers. Here
// the 16 groups of four records run beside one another: their divisions are one, and each field of a record is one
// store.
#pragma once

#include "kernels/cpu/quantise_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// One group of the kRowBlock rows of a row block.
struct Cell {
  const float* x;     // row r at x + r * stride
  std::byte* record;  // one plane
};
inline constexpr int kCells = 4;

/// The 32-bit element 4 i + k goes to 4 k + i.
BASS_SIMD_INLINE __m512i transposed_quads() {
  return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/// Element 4 row + cell: the largest magnitude of that row's 32 numbers, by the tree of reduce_max.
BASS_SIMD_INLINE F32x16 magnitudes_of(const Cell* cells, ptrdiff_t stride) {
  F32x16 quads[kCells];  // quarter r: four candidates of row r
#pragma GCC unroll 4
  for (int c = 0; c < kCells; ++c) {
    F32x16 rows[kRowBlock];
#pragma GCC unroll 4
    for (int r = 0; r < kRowBlock; ++r) {
      rows[r] = max(abs(load(cells[c].x + r * stride)), abs(load(cells[c].x + r * stride + kLanes)));
    }
    const __m512 halves01 = _mm512_max_ps(_mm512_shuffle_f32x4(rows[0].v, rows[1].v, 0x44),
                                          _mm512_shuffle_f32x4(rows[0].v, rows[1].v, 0xEE));
    const __m512 halves23 = _mm512_max_ps(_mm512_shuffle_f32x4(rows[2].v, rows[3].v, 0x44),
                                          _mm512_shuffle_f32x4(rows[2].v, rows[3].v, 0xEE));
    quads[c].v =
        _mm512_max_ps(_mm512_shuffle_f32x4(halves01, halves23, 0x88), _mm512_shuffle_f32x4(halves01, halves23, 0xDD));
  }
  const auto pairs = [&](int c) __attribute__((always_inline)) {
    return _mm512_castps_pd(
        _mm512_max_ps(_mm512_unpacklo_ps(quads[c].v, quads[c + 1].v), _mm512_unpackhi_ps(quads[c].v, quads[c + 1].v)));
  };
  const __m512d pairs01 = pairs(0), pairs23 = pairs(2);
  return {_mm512_max_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(pairs01, pairs23)),
                        _mm512_castpd_ps(_mm512_unpackhi_pd(pairs01, pairs23)))};
}

/// Two rows of a record, of which q holds the numbers, as bytes; returns in quarter k the sums of elements 4 k .. 4 k +
/// 3 of both halves of the first row, and of both of the second.
BASS_SIMD_INLINE I32x16 store_two_rows(std::byte* out, const I32x16 (&q)[4]) {
  const __m512i first = _mm512_packs_epi32(q[0].v, q[1].v), second = _mm512_packs_epi32(q[2].v, q[3].v);
  const __m512i bytes = _mm512_packs_epi16(first, second);
  _mm512_storeu_si512(out, _mm512_permutexvar_epi32(transposed_quads(), bytes));
  return {_mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), bytes)};
}

/// Rounds a cell's numbers and stores them; returns in quarters 0, 1 (of its rows 0 and 1) and 2, 3 (of 2 and 3) what
/// still has to be added up: neighbouring quarters.
BASS_SIMD_INLINE I32x16 store_quants(const Cell& cell, ptrdiff_t stride, const float* inverses) {
  I32x16 sums[2];
#pragma GCC unroll 2
  for (int pair = 0; pair < 2; ++pair) {
    I32x16 q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int r = 2 * pair + i / 2;
      q[i] = round_to_i32(mul(load(cell.x + r * stride + i % 2 * kLanes), broadcast(inverses[r * kCells])));
    }
    sums[pair] = store_two_rows(cell.record + activation_quants_offset(0, 2 * pair), q);
  }
  return {_mm512_add_epi32(_mm512_shuffle_i32x4(sums[0].v, sums[1].v, 0x44),
                           _mm512_shuffle_i32x4(sums[0].v, sums[1].v, 0xEE))};
}

/// values: element 4 cell + row
BASS_SIMD_INLINE void store_fields(const Cell* cells, ActivationField field, I32x16 values) {
  const auto put = [&]<int kCell>() __attribute__((always_inline)) {
    auto* out = reinterpret_cast<__m128i*>(cells[kCell].record + activation_field_offset(1, field, 0));
    _mm_storeu_si128(out, _mm512_extracti32x4_epi32(values.v, kCell));
  };
  put.template operator()<0>();
  put.template operator()<1>();
  put.template operator()<2>();
  put.template operator()<3>();
}

/// Of four cells, element 4 row + cell.
struct CellScales {
  alignas(64) float inverse[kLanes];  // what a row's numbers are multiplied by
  alignas(64) float scale[kLanes];
};

BASS_SIMD_INLINE void find_scales(const Cell* cells, ptrdiff_t stride, CellScales* scales) {
  const F32x16 amax = magnitudes_of(cells, stride);
  const F32x16 q_max = broadcast(127.0f);
  const F32x16 quotient = div(q_max, amax);
  const Mask16 has_inverse = ge(broadcast(__FLT_MAX__), quotient);
  const F32x16 scale = float_of(bit_and(bits_of(div(amax, q_max)), broadcast_i32(~3)));
  store(scales->inverse, select(has_inverse, quotient, zero_f32()));
  store(scales->scale, select(has_inverse, scale, zero_f32()));
}

BASS_SIMD_INLINE void store_records(const Cell* cells, ptrdiff_t stride, const CellScales& scales) {
  static_assert(kRowBlock == 4 && kGroupLen == 2 * kLanes);
  I32x16 sums[kCells];
#pragma GCC unroll 4
  for (int c = 0; c < kCells; ++c) sums[c] = store_quants(cells[c], stride, scales.inverse + c);
  const auto whole = [&](int c) __attribute__((always_inline)) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(sums[c].v, sums[c + 1].v, 0x88),
                            _mm512_shuffle_i32x4(sums[c].v, sums[c + 1].v, 0xDD));
  };
  const __m512i cells01 = whole(0), cells23 = whole(2);  // element 8 cell + 2 row + half
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const I32x16 first_sums{_mm512_permutex2var_epi32(cells01, even, cells23)};
  const I32x16 second_sums{_mm512_permutex2var_epi32(cells01, _mm512_add_epi32(even, _mm512_set1_epi32(1)), cells23)};
  const F32x16 scale{_mm512_permutexvar_ps(transposed_quads(), load(scales.scale).v)};
  const I32x16 sum = add(first_sums, second_sums);
  const I32x16 bias_bits = broadcast_i32(kDotBiasBits);
  store_fields(cells, ActivationField::kScale, bits_of(scale));
  store_fields(cells, ActivationField::kBias, bits_of(mul(broadcast(-kDotBias), scale)));
  store_fields(cells, ActivationField::kScaledSum, bits_of(mul(scale, to_f32(sum))));
  store_fields(cells, ActivationField::kStart8, sub(bias_bits, shift_left<3>(sum)));
  store_fields(cells, ActivationField::kStart128, sub(bias_bits, shift_left<7>(sum)));
  store_fields(cells, ActivationField::kHalfSum0, first_sums);
  store_fields(cells, ActivationField::kHalfSum1, second_sums);
}

inline constexpr int kMaxCells = 32;
/// quantise_group<1> of all rows of cells [0, n), n <= kMaxCells; cells has room for whole fours.
inline void quantise_cells(Cell* cells, int n, ptrdiff_t stride) {
  CellScales scales[kMaxCells / kCells];
  for (; n % kCells != 0; ++n) cells[n] = cells[n - 1];
  for (int i = 0; i < n; i += kCells) find_scales(cells + i, stride, &scales[i / kCells]);
  for (int i = 0; i < n; i += kCells) store_records(cells + i, stride, scales[i / kCells]);
}

/// Groups `groups` of the row blocks `blocks`.
inline void quantise_blocks(const float* x, ptrdiff_t stride, WorkRange blocks, WorkRange groups,
                            const ActivationRows& rows) {
  Cell cells[kMaxCells];
  int n = 0;
  for (int block = blocks.begin; block < blocks.end; ++block) {
    const float* first = x + static_cast<ptrdiff_t>(block - blocks.begin) * kRowBlock * stride;
    for (int g = groups.begin; g < groups.end; ++g) {
      cells[n++] = {first + static_cast<ptrdiff_t>(g - groups.begin) * kGroupLen, rows.record(block * kRowBlock, g)};
      if (n < kMaxCells) continue;
      quantise_cells(cells, n, stride);
      n = 0;
    }
  }
  if (n > 0) quantise_cells(cells, n, stride);
}

}  // namespace detail

inline void quantise_by_blocks(const float* x, ptrdiff_t stride, WorkRange rows, WorkRange cols,
                               const ActivationRows& out) {
  const WorkRange blocks{(rows.begin + kRowBlock - 1) / kRowBlock, rows.end / kRowBlock};
  if (out.n_planes != 1 || blocks.begin >= blocks.end) return quantise(x, stride, rows, cols, out);
  const int first = blocks.begin * kRowBlock, end = blocks.end * kRowBlock;
  const auto row = [&](int r) { return x + static_cast<ptrdiff_t>(r - rows.begin) * stride; };
  if (out.f32 != nullptr) detail::copy_rows(row(first), stride, {first, end}, cols, out);
  detail::quantise_blocks(row(first), stride, blocks, {cols.begin / kGroupLen, cols.end / kGroupLen}, out);
  quantise(x, stride, {rows.begin, first}, cols, out);
  quantise(row(end), stride, {end, rows.end}, cols, out);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
