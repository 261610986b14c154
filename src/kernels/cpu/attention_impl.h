// Scaled dot-product attention over pages of 32 positions (the arithmetic: kernels.h).
// Include after a simd_*.h and math_impl.h.
//
// A row is one query head of one token. A unit walks its chunks once, all rows together, so that K and V are read once.
// Many rows go 16 to a block with a row in each lane ("wide"); few, and those that remain, are computed one by one in
// blocks of up to kMaxNarrowRows, with positions or columns of head_dim in the lanes ("narrow"). The bits are the same:
// the sums of integers are exact, and everything else is done for each row by itself in one order.
#pragma once

#include "kernels/cpu/attention_rows_impl.h"
#include "kernels/cpu/read_ahead.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

template <int kRows, int kColumns>
BASS_SIMD_INLINE void clear(I32x16 (&sums)[kRows][kColumns]) {
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll kUnrolled
    for (int c = 0; c < kColumns; ++c) sums[r][c] = zero_i32();
  }
}

// Of int16, in the innermost loops. They count from 0 to a constant and add where they begin, as GCC 12 then finds the
// addresses from few registers.
inline constexpr int kPairsAtOnce = 4;

/// What is read after the chunk in work. Asking for all of it at once would keep the kernel waiting for free buffers,
/// so the loops ask for a few cache lines at a time; pages lie apart, so the processor does not foresee them.
struct Ahead {
  const std::byte* next;
  const std::byte* end;
  bool is_staged;  // into the second level (ReadAhead::stages_keys); the loops are regular enough for the first level's
                   // prefetch

  /// n_lines is known where this is inlined. Up to n_lines - 1 lines behind the end are asked for, which does no harm.
  BASS_SIMD_INLINE void ask(int n_lines) {
    if (next >= end) return;
    if (is_staged) {
#pragma GCC unroll kUnrolled
      for (int i = 0; i < n_lines; ++i) prefetch_l2(next + i * 64);
    } else {
#pragma GCC unroll kUnrolled
      for (int i = 0; i < n_lines; ++i) prefetch(next + i * 64);
    }
    next += n_lines * 64;
  }
};

/// What the kernels know of the chunk in work.
struct Chunk {
  KvHead<const std::byte, int16_t> head;
  int begin;          // its first position
  bool is_past;       // every row sees all of it
  bool is_windowed;   // some row's window begins in it or behind it
  bool leaves_state;  // it is not merged: o becomes the unscaled sum, m, l and u the chunk's own
  float score_cap;    // in units of scores; 0: none
};

/// x in the rows of a block that see the chunk's position j, else `unseen`.
BASS_SIMD_INLINE F32x16 where_seen(const RowBlock& block, const Chunk& chunk, int j, F32x16 x, F32x16 unseen) {
  const F32x16 at = broadcast(static_cast<float>(chunk.begin + j));
  x = select(ge(to_f32(load_i32(block.position)), at), x, unseen);
  if (chunk.is_windowed) x = select(ge(at, to_f32(load_i32(block.first_seen))), x, unseen);
  return x;
}

/// Caps n scores; those of unseen positions (-inf) stay.
inline void cap_scores(float* scores, int n, float cap) {
  const F32x16 unseen = broadcast(-__builtin_inff());
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 s = load(scores + i);
    store(scores + i, select(eq(s, unseen), s, soft_cap_f32(s, cap)));
  }
}

/// Merges a chunk's (m_c, l_c) of 16 rows into m and l; returns the factors of o and of the chunk's sum.
struct MergeFactors {
  F32x16 old_o;
  F32x16 new_sum;
};
BASS_SIMD_INLINE MergeFactors merge_chunk(RowBlock& block, const Chunk& chunk, F32x16 m_chunk, F32x16 l_chunk,
                                          F32x16 weight_sum) {
  const F32x16 u = mul(weight_sum, broadcast(1.0f / kInt16Steps));
  if (chunk.leaves_state) {
    store(block.m, m_chunk);
    store(block.l, l_chunk);
    store(block.u, u);
    return {zero_f32(), broadcast(1.0f)};
  }
  const F32x16 m_old = load(block.m);
  const F32x16 m_new = max(m_old, m_chunk);
  const F32x16 a = exp2_f32(sub(m_old, m_new));
  const F32x16 seen = broadcast(-__builtin_inff());
  const F32x16 b = select(gt(m_chunk, seen), exp2_f32(sub(m_chunk, m_new)), zero_f32());
  store(block.m, m_new);
  store(block.l, fma(l_chunk, b, mul(load(block.l), a)));
  return {a, mul(u, b)};
}

BASS_SIMD_INLINE F32x16 weight_factor(F32x16 weight_sum) {
  return select(gt(weight_sum, broadcast(kSmallestScaled)), div(broadcast(kInt16Steps), weight_sum), zero_f32());
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows in lanes

/// Adds up lanes[0..15] by the fixed tree, each of them a vector.
BASS_SIMD_INLINE F32x16 tree_sum(F32x16 (&lanes)[kLanes]) {
#pragma GCC unroll kUnrolled
  for (int half = kLanes / 2; half >= 1; half /= 2) {
#pragma GCC unroll kUnrolled
    for (int i = 0; i < half; ++i) lanes[i] = add(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

/// scores [kKvPageLen] of 16 rows -> int16 pairs of weights; merges m and l.
BASS_SIMD_INLINE MergeFactors wide_softmax(RowBlock& block, const Chunk& chunk, F32x16 m_chunk, float* scores,
                                           int32_t* weights) {
  const auto weigh = [&](int j, F32x16* p) {
    F32x16 w;
    *p = exp2_f32(sub(load(scores + j * kLanes), m_chunk));
    w = mul(*p, broadcast(chunk.head.v_scale[j]));
    if (!chunk.is_past) {
      *p = where_seen(block, chunk, j, *p, zero_f32());
      w = where_seen(block, chunk, j, w, zero_f32());
    }
    store(scores + j * kLanes, w);
    return w;
  };
  F32x16 l_lanes[kLanes];
  F32x16 w_lanes[kLanes];
#pragma GCC unroll kUnrolled
  for (int i = 0; i < kLanes; ++i) {
    F32x16 p0;
    F32x16 p1;
    const F32x16 w0 = weigh(i, &p0);
    const F32x16 w1 = weigh(i + kLanes, &p1);
    l_lanes[i] = add(p0, p1);
    w_lanes[i] = add(w0, w1);
  }
  const F32x16 l_chunk = tree_sum(l_lanes);
  const F32x16 weight_sum = tree_sum(w_lanes);
  const F32x16 factor = weight_factor(weight_sum);
  for (int pair = 0; pair < kKvPageLen / 2; ++pair) {
    const float* w = scores + 2 * pair * kLanes;
    const I32x16 low = round_to_i32(mul(load(w), factor));  // not negative
    const I32x16 high = round_to_i32(mul(load(w + kLanes), factor));
    store_i32(weights + pair * kLanes, bit_or(low, shift_left<16>(high)));
  }
  return merge_chunk(block, chunk, m_chunk, l_chunk, weight_sum);
}

/// One chunk for kVectors blocks of 16 rows. Not inlined: beside others of them the sums would not stay in registers.
template <int kVectors>
__attribute__((noinline)) void wide_chunk(RowBlock* blocks, const Chunk& chunk, int head_dim, Ahead& ahead) {
  alignas(64) float scores[kVectors][kKvPageLen * kLanes];
  alignas(64) int32_t weights[kVectors][kKvPageLen / 2 * kLanes];
  F32x16 m_chunk[kVectors];
  for (auto& m : m_chunk) m = broadcast(-__builtin_inff());
  for (int j = 0; j < kKvPageLen; j += kWideTile) {
    I32x16 sums[kWideTile][kVectors];
    clear(sums);
    for (int pairs = 0; pairs < head_dim / 2; pairs += kPairsAtOnce) {
      ahead.ask(kPairsAtOnce / 2);
#pragma GCC unroll kUnrolled
      for (int i_pair = 0; i_pair < kPairsAtOnce; ++i_pair) {
        const int pair = pairs + i_pair;
        I32x16 q[kVectors];
#pragma GCC unroll kUnrolled
        for (int v = 0; v < kVectors; ++v) q[v] = load_i32(blocks[v].q + pair * kLanes);
        const int16_t* k = chunk.head.k + (pair * kKvPageLen + j) * 2;
#pragma GCC unroll kUnrolled
        for (int i = 0; i < kWideTile; ++i) {
          const I32x16 keys = broadcast_pair(k + 2 * i);
#pragma GCC unroll kUnrolled
          for (int v = 0; v < kVectors; ++v) add_dot_i16(&sums[i][v], keys, q[v]);
        }
      }
    }
#pragma GCC unroll kUnrolled
    for (int i = 0; i < kWideTile; ++i) {
#pragma GCC unroll kUnrolled
      for (int v = 0; v < kVectors; ++v) {
        F32x16 s = mul(mul(to_f32(sums[i][v]), broadcast(chunk.head.k_scale[j + i])), load(blocks[v].q_scale));
        if (!chunk.is_past) s = where_seen(blocks[v], chunk, j + i, s, broadcast(-__builtin_inff()));
        m_chunk[v] = max(m_chunk[v], s);
        store(scores[v] + (j + i) * kLanes, s);
      }
    }
  }
  if (chunk.score_cap > 0) {
    for (int v = 0; v < kVectors; ++v) {
      cap_scores(scores[v], kKvPageLen * kLanes, chunk.score_cap);
      m_chunk[v] = load(scores[v]);
      for (int j = 1; j < kKvPageLen; ++j) m_chunk[v] = max(m_chunk[v], load(scores[v] + j * kLanes));
    }
  }
  MergeFactors factors[kVectors];
#pragma GCC unroll kUnrolled
  for (int v = 0; v < kVectors; ++v) factors[v] = wide_softmax(blocks[v], chunk, m_chunk[v], scores[v], weights[v]);
  ahead.ask(4);
  for (int d = 0; d < head_dim; d += kWideTile) {
    I32x16 sums[kWideTile][kVectors];
    clear(sums);
    for (int pairs = 0; pairs < kKvPageLen / 2; pairs += kPairsAtOnce) {
      ahead.ask(kPairsAtOnce / 2);
#pragma GCC unroll kUnrolled
      for (int i_pair = 0; i_pair < kPairsAtOnce; ++i_pair) {
        const int pair = pairs + i_pair;
        I32x16 w[kVectors];
#pragma GCC unroll kUnrolled
        for (int v = 0; v < kVectors; ++v) w[v] = load_i32(weights[v] + pair * kLanes);
        const int16_t* values = chunk.head.v + (pair * head_dim + d) * 2;
#pragma GCC unroll kUnrolled
        for (int i = 0; i < kWideTile; ++i) {
          const I32x16 value = broadcast_pair(values + 2 * i);
#pragma GCC unroll kUnrolled
          for (int v = 0; v < kVectors; ++v) add_dot_i16(&sums[i][v], value, w[v]);
        }
      }
    }
#pragma GCC unroll kUnrolled
    for (int i = 0; i < kWideTile; ++i) {
#pragma GCC unroll kUnrolled
      for (int v = 0; v < kVectors; ++v) {
        float* o = blocks[v].o + (d + i) * kLanes;
        store(o, fma(to_f32(sums[i][v]), factors[v].new_sum, mul(load(o), factors[v].old_o)));
      }
    }
  }
}

/// One chunk for the first of n_blocks blocks; returns of how many, kMost at most. Of kMost > 1 there are two blocks at
/// least, and none is left to go by itself (kMinWideRows).
template <int kMost>
int wide_chunks(RowBlock* blocks, int n_blocks, const Chunk& chunk, int head_dim, Ahead& ahead) {
  static_assert(kMost == 1 || kMost == 3);
  if constexpr (kMost > 1) {
    if (n_blocks == 2 || n_blocks == kMost + 1) {
      wide_chunk<2>(blocks, chunk, head_dim, ahead);
      return 2;
    }
  }
  wide_chunk<kMost>(blocks, chunk, head_dim, ahead);
  return kMost;
}

// ---------------------------------------------------------------------------------------------------------------------
// Row by row

// A page's lines are spread over all of a block's work (the first one's where there are several), as evenly as the
// loops allow: a line for each pair of a key (in AVX-512's registers), two for each of a value's, and what is left, a
// quarter, beside the softmax. Up to kPairsAtOnce pairs ask together: the loops would else be half about that. Not
// inlined, as narrow_values is not: the constants of the softmax between them would take their registers.
template <int kRows>
__attribute__((noinline)) Ahead narrow_scores(const RowBlock& block, const Chunk& chunk, int head_dim,
                                              float (&scores)[kRows][kKvPageLen], Ahead ahead) {
  for (int first = 0; first < kKvPageLen; first += kScoreVectors * kLanes) {
    I32x16 sums[kRows][kScoreVectors];
    clear(sums);
    for (int pairs = 0; pairs < head_dim / 2; pairs += kPairsAtOnce) {
      ahead.ask(kPairsAtOnce);
#pragma GCC unroll kUnrolled
      for (int i_pair = 0; i_pair < kPairsAtOnce; ++i_pair) {
        const int pair = pairs + i_pair;
        I32x16 keys[kScoreVectors];
#pragma GCC unroll kUnrolled
        for (int v = 0; v < kScoreVectors; ++v) {
          keys[v] = load_i32(chunk.head.k + (pair * kKvPageLen + first + v * kLanes) * 2);
          keep_in_register(&keys[v]);
        }
#pragma GCC unroll kUnrolled
        for (int r = 0; r < kRows; ++r) {
          const I32x16 q = broadcast_i32(block.q[r * kNarrowPairs + pair]);
#pragma GCC unroll kUnrolled
          for (int v = 0; v < kScoreVectors; ++v) add_dot_i16(&sums[r][v], keys[v], q);
        }
      }
    }
#pragma GCC unroll kUnrolled
    for (int v = 0; v < kScoreVectors; ++v) {
      const F32x16 scale = load(chunk.head.k_scale + first + v * kLanes);
#pragma GCC unroll kUnrolled
      for (int r = 0; r < kRows; ++r) {
        store(scores[r] + first + v * kLanes, mul(mul(to_f32(sums[r][v]), scale), broadcast(block.q_scale[r])));
      }
    }
  }
  return ahead;
}

/// The positions from the chunk's `first` on that a row sees.
BASS_SIMD_INLINE Mask16 seen_lanes(const RowBlock& block, const Chunk& chunk, int r, int first) {
  const int begin = chunk.begin + first;
  Mask16 sees = first_lanes(block.position[r] - begin + 1);
  if (chunk.is_windowed) sees = mask_and(sees, mask_not(first_lanes(block.first_seen[r] - begin)));
  return sees;
}

/// Row r's number in all lanes.
template <int kRows>
BASS_SIMD_INLINE F32x16 of_row(F32x16 rows, int r) {
  return kRows == 1 ? rows : broadcast_lane(rows, r);
}

/// scores -> int16 weights; merges m and l. kIsPast: the chunk's is_past. ahead_lines: asked for beside each row
///
/// All rows take each step together: one row's is a chain of latencies that the processor cannot hide behind the next
/// row's while that is as far away as a whole softmax.
template <int kRows, bool kIsPast>
BASS_SIMD_INLINE MergeFactors narrow_softmax(RowBlock& block, const Chunk& chunk, float (&scores)[kRows][kKvPageLen],
                                             int16_t (&weights)[kRows][kKvPageLen], int ahead_lines, Ahead& ahead) {
  F32x16 highest[kRows];
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
    F32x16 s[2] = {load(scores[r]), load(scores[r] + kLanes)};
    if constexpr (!kIsPast) {
      for (int v = 0; v < 2; ++v) {
        s[v] = select(seen_lanes(block, chunk, r, v * kLanes), s[v], broadcast(-__builtin_inff()));
      }
    }
    highest[r] = max(s[0], s[1]);
  }
  const F32x16 m_chunk = reduce_max(highest);
  const F32x16 v_scale[2] = {load(chunk.head.v_scale), load(chunk.head.v_scale + kLanes)};
  F32x16 l_lanes[kRows];
  F32x16 w_lanes[kRows];
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < ahead_lines; i += kPairsAtOnce) ahead.ask(kPairsAtOnce);
    const F32x16 m = of_row<kRows>(m_chunk, r);
    F32x16 p[2];
    F32x16 w[2];
#pragma GCC unroll kUnrolled
    for (int v = 0; v < 2; ++v) {
      p[v] = exp2_f32(sub(load(scores[r] + v * kLanes), m));
      w[v] = mul(p[v], v_scale[v]);
      if constexpr (!kIsPast) {
        const Mask16 sees = seen_lanes(block, chunk, r, v * kLanes);
        p[v] = select(sees, p[v], zero_f32());
        w[v] = select(sees, w[v], zero_f32());
      }
      store(scores[r] + v * kLanes, w[v]);
    }
    l_lanes[r] = add(p[0], p[1]);
    w_lanes[r] = add(w[0], w[1]);
  }
  const F32x16 weight_sum = reduce_add(w_lanes);
  const F32x16 factors = weight_factor(weight_sum);
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
    const F32x16 factor = of_row<kRows>(factors, r);
    for (int v = 0; v < kKvPageLen; v += kLanes) {
      store_i16(weights[r] + v, round_to_i32(mul(load(scores[r] + v), factor)));
    }
  }
  return merge_chunk(block, chunk, m_chunk, reduce_add(l_lanes), weight_sum);
}

/// kVectors vectors of columns from `d` on: o = o old_o + weights v new_sum.
template <int kRows, int kVectors>
BASS_SIMD_INLINE void narrow_columns(RowBlock& block, const Chunk& chunk, int head_dim,
                                     const int16_t (&weights)[kRows][kKvPageLen], const float* old_o,
                                     const float* new_sum, int d, Ahead& ahead) {
  I32x16 sums[kRows][kVectors];
  clear(sums);
  constexpr int kPairs = kVectors > 2 ? kPairsAtOnce / 2 : kPairsAtOnce;
  for (int pairs = 0; pairs < kKvPageLen / 2; pairs += kPairs) {
    ahead.ask(kPairs * kVectors);
#pragma GCC unroll kUnrolled
    for (int i_pair = 0; i_pair < kPairs; ++i_pair) {
      const int pair = pairs + i_pair;
      I32x16 values[kVectors];
#pragma GCC unroll kUnrolled
      for (int v = 0; v < kVectors; ++v) {
        values[v] = load_i32(chunk.head.v + (pair * head_dim + d + v * kLanes) * 2);
        keep_in_register(&values[v]);
      }
#pragma GCC unroll kUnrolled
      for (int r = 0; r < kRows; ++r) {
        const I32x16 w = broadcast_pair(weights[r] + 2 * pair);
#pragma GCC unroll kUnrolled
        for (int v = 0; v < kVectors; ++v) add_dot_i16(&sums[r][v], values[v], w);
      }
    }
  }
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll kUnrolled
    for (int v = 0; v < kVectors; ++v) {
      float* o = block.o + (d + v * kLanes + r) * kLanes;
      store(o, fma(to_f32(sums[r][v]), broadcast(new_sum[r]), mul(load(o), broadcast(old_o[r]))));
    }
  }
}

template <int kRows>
__attribute__((noinline)) Ahead narrow_values(RowBlock& block, const Chunk& chunk, int head_dim,
                                              const int16_t (&weights)[kRows][kKvPageLen], const MergeFactors& factors,
                                              Ahead ahead) {
  alignas(64) float old_o[kLanes];
  alignas(64) float new_sum[kLanes];
  store(old_o, factors.old_o);
  store(new_sum, factors.new_sum);
  constexpr int kVectors = value_vectors(kRows);
  int d = 0;
  for (; d + kVectors * kLanes <= head_dim; d += kVectors * kLanes) {
    narrow_columns<kRows, kVectors>(block, chunk, head_dim, weights, old_o, new_sum, d, ahead);
  }
  for (; d < head_dim; d += kLanes) {
    narrow_columns<kRows, 1>(block, chunk, head_dim, weights, old_o, new_sum, d, ahead);
  }
  return ahead;
}

/// One chunk for the kRows rows of a block; returns what is left to be asked for. Not inlined: all of them in one
/// function take the compiler longer, and save nothing.
template <int kRows>
__attribute__((noinline)) Ahead narrow_chunk(RowBlock& block, const Chunk& chunk, int head_dim, Ahead ahead) {
  alignas(64) float scores[kRows][kKvPageLen];
  alignas(64) int16_t weights[kRows][kKvPageLen];
  ahead = narrow_scores<kRows>(block, chunk, head_dim, scores, ahead);
  if (chunk.score_cap > 0) cap_scores(scores[0], kRows * kKvPageLen, chunk.score_cap);
  const int softmax_lines = (head_dim / 2 + 4 + kRows - 1) / kRows;
  const MergeFactors factors = chunk.is_past
                                   ? narrow_softmax<kRows, true>(block, chunk, scores, weights, softmax_lines, ahead)
                                   : narrow_softmax<kRows, false>(block, chunk, scores, weights, softmax_lines, ahead);
  return narrow_values<kRows>(block, chunk, head_dim, weights, factors, ahead);
}

template <int kRows>
BASS_SIMD_INLINE Ahead narrow_chunk_rows(int n_rows, RowBlock& block, const Chunk& chunk, int head_dim,
                                         const Ahead& ahead) {
  if constexpr (kRows == 1) {
    return narrow_chunk<1>(block, chunk, head_dim, ahead);
  } else if (n_rows == kRows) {
    return narrow_chunk<kRows>(block, chunk, head_dim, ahead);
  } else {
    return narrow_chunk_rows<kRows - 1>(n_rows, block, chunk, head_dim, ahead);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

/// A chunk of int8 as one of int16, so that both meet the same arithmetic. Its numbers lie in `wide`, its scales in the
/// page.
inline KvHead<const std::byte, int16_t> widen(const std::byte* page_head, int head_dim, int32_t* wide) {
  const KvHead<const std::byte, int8_t> narrow(page_head, head_dim);
  const int n_pairs = head_dim * kKvPageLen;  // V follows K
  for (int i = 0; i < n_pairs; i += kLanes) store_i32(wide + i, widen_i8(narrow.k + 2 * i));
  KvHead<const std::byte, int16_t> head(reinterpret_cast<const std::byte*>(wide), head_dim);
  head.k_scale = narrow.k_scale;
  head.v_scale = narrow.v_scale;
  return head;
}

/// Up to kMaxAttentionRows rows of a unit, from `first_row` on.
inline void attend_rows(const KvShape& shape, const AttentionUnit& unit, int first_row, int n_rows) {
  UnitRows rows(shape, unit, first_row, n_rows);
  alignas(64) int32_t wide[kMaxHeadDim * kKvPageLen];  // pairs of int16
  const int head_dim = shape.head_dim;
  for (int c = unit.first_chunk; c < unit.end_chunk; ++c) {
    const std::byte* page_head = unit.pages[c] + unit.head_offset;
    const std::byte* next = c + 1 < unit.end_chunk ? unit.pages[c + 1] + unit.head_offset : unit.next_head;
    const int begin = c * kKvPageLen;
    const bool is_windowed = begin < rows.last_first_seen();
    const Chunk chunk{shape.number_bytes == 1 ? widen(page_head, head_dim, wide)
                                              : KvHead<const std::byte, int16_t>(page_head, head_dim),
                      begin,
                      begin + kKvPageLen <= rows.first_position() + 1 && !is_windowed,
                      is_windowed,
                      unit.chunk_states != nullptr,
                      shape.score_cap * kLog2E};
    if (chunk.leaves_state) rows.clear_sums();
    Ahead ahead{next, next == nullptr ? nullptr : next + shape.head_bytes(), read_ahead().stages_keys};
    for (int b = 0; b < rows.n_wide();)
      b += wide_chunks<kWideVectors>(rows.block(b), rows.n_wide() - b, chunk, head_dim, ahead);
    for (int b = rows.n_wide(); b < rows.n_blocks(); ++b) {
      RowBlock* block = rows.block(b);
      ahead = narrow_chunk_rows<kMaxNarrowRows>(block->n_rows, *block, chunk, head_dim, ahead);
    }
    if (!chunk.leaves_state) continue;
    rows.store_states(unit.chunk_states + (c - unit.first_chunk) * unit.chunk_stride);
  }
  if (unit.chunk_states != nullptr) return;
  if (unit.state != nullptr) {
    rows.store_states(unit.state);
  } else {
    rows.store_results();
  }
}

}  // namespace detail

inline void attend(const KvShape& shape, const AttentionUnit& unit) {
  const int n_rows = unit.n_tokens * shape.group_size();
  for (int first = 0; first < n_rows; first += kMaxAttentionRows) {
    const int n_left = n_rows - first;
    detail::attend_rows(shape, unit, first, n_left < kMaxAttentionRows ? n_left : kMaxAttentionRows);
  }
}

namespace detail {

/// o, m and l of a row's state, with n_rest chunks' merged into them.
BASS_SIMD_INLINE void merge_rest(int head_dim, const float* rest, size_t stride, int n_rest, float* o, F32x16* m,
                                 F32x16* l) {
  for (int i = 0; i < n_rest; ++i) {
    const float* chunk = rest + static_cast<size_t>(i) * stride;
    const F32x16 m_chunk = broadcast(chunk[head_dim]);
    if (first_lane(m_chunk) == -__builtin_inff()) continue;  // the row sees nothing of it
    const F32x16 m_new = max(*m, m_chunk);
    const F32x16 a = exp2_f32(sub(*m, m_new));
    const F32x16 b = exp2_f32(sub(m_chunk, m_new));
    const F32x16 new_sum = mul(broadcast(chunk[head_dim + 2]), b);
    *m = m_new;
    *l = fma(broadcast(chunk[head_dim + 1]), b, mul(*l, a));
    for (int d = 0; d < head_dim; d += kLanes) store(o + d, fma(load(chunk + d), new_sum, mul(load(o + d), a)));
  }
}

}  // namespace detail

inline void merge_chunks(int head_dim, float* state, const float* rest, size_t stride, int n_rest) {
  F32x16 m = broadcast(state[head_dim]);
  F32x16 l = broadcast(state[head_dim + 1]);
  detail::merge_rest(head_dim, rest, stride, n_rest, state, &m, &l);
  state[head_dim] = first_lane(m);
  state[head_dim + 1] = first_lane(l);
}

inline void finish_attention(int head_dim, const float* first, const float* rest, size_t stride, int n_rest,
                             float* out) {
  alignas(64) float o[kMaxHeadDim];
  for (int d = 0; d < head_dim; d += kLanes) store(o + d, load(first + d));
  F32x16 m = broadcast(first[head_dim]);
  F32x16 l = broadcast(first[head_dim + 1]);
  detail::merge_rest(head_dim, rest, stride, n_rest, o, &m, &l);
  detail::store_result(o, first_lane(l), head_dim, out);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
