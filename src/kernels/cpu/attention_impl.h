// Scaled dot-product attention over pages of 32 positions (the arithmetic: kernels.h).
// Include after a simd_*.h and math_impl.h.
//
// A row is one query head of one token. Blocks of up to kAttentionRows rows share the conversion of K and V to fp32; a
// row's own operations do not depend on the block: lanes and rows never mix, and a masked position adds exactly 0 (only
// the sign of a zero could tell, so the result has no negative zeros).
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kChunkVectors = kKvPageLen / kLanes;
static_assert(kChunkVectors == 2 && kAttentionRows <= kLanes);

/// A block of rows and its running softmax: lane r of m and l, row r of o.
template <int kRows>
struct AttentionBlock {
  const float* q[kRows];
  int position[kRows];          // the last position that the row attends to
  int last_position;            // the highest of them
  alignas(64) float m[kLanes];  // of the lanes, the first kRows are in use
  alignas(64) float l[kLanes];
  alignas(64) float p[kRows][kKvPageLen];  // scores, then exp(score - max), of the chunk in work
  alignas(64) float o[kRows][kMaxHeadDim];
};

/// p = fl(q.k * scale): one FMA chain over ascending d for every row and position. k: [head_dim, kKvPageLen] f16
template <int kRows>
BASS_SIMD_INLINE void chunk_scores(AttentionBlock<kRows>& block, const uint16_t* k, int head_dim, float scale) {
  for (int first = 0; first < kChunkVectors; first += kScoreVectors) {
    F32x16 acc[kRows][kScoreVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kScoreVectors; ++v) acc[r][v] = zero_f32();
    }
    for (int d = 0; d < head_dim; ++d) {
      for (int v = 0; v < kScoreVectors; ++v) {
        const F32x16 keys = load_f16(k + d * kKvPageLen + (first + v) * kLanes);
        for (int r = 0; r < kRows; ++r) acc[r][v] = fma(broadcast(block.q[r][d]), keys, acc[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kScoreVectors; ++v) {
        store(block.p[r] + (first + v) * kLanes, mul(acc[r][v], broadcast(scale)));
      }
    }
  }
}

/// How the chunk in work joins the running result: o = fma(o_c, new_weight, fl(o * old_weight)) where live.
struct ChunkMerge {
  alignas(64) float old_weight[kLanes];
  alignas(64) float new_weight[kLanes];
  bool live[kLanes];  // the row has a position in this chunk
};

/// Masks the scores of the chunk at `chunk_begin`, turns them into p and updates m and l.
template <int kRows>
BASS_SIMD_INLINE void chunk_softmax(AttentionBlock<kRows>& block, int chunk_begin, ChunkMerge& merge) {
  alignas(64) float m_chunk[kLanes] = {};
  alignas(64) float l_chunk[kLanes] = {};
  const F32x16 masked = broadcast(-__builtin_inff());
  for (int r = 0; r < kRows; ++r) {
    const int n_valid = block.position[r] - chunk_begin + 1;
    merge.live[r] = n_valid > 0;
    float* p = block.p[r];
    const F32x16 s0 = select(first_lanes(n_valid), load(p), masked);
    const F32x16 s1 = select(first_lanes(n_valid - kLanes), load(p + kLanes), masked);
    m_chunk[r] = reduce_max(max(s0, s1));
    const F32x16 p0 = exp_f32(sub(s0, broadcast(m_chunk[r])));
    const F32x16 p1 = exp_f32(sub(s1, broadcast(m_chunk[r])));
    store(p, p0);
    store(p + kLanes, p1);
    l_chunk[r] = reduce_add(add(p0, p1));
  }
  // Lane r belongs to row r from here on.
  const F32x16 m_old = load(block.m);
  const F32x16 m_new = max(m_old, load(m_chunk));
  const F32x16 old_weight = exp_f32(sub(m_old, m_new));
  const F32x16 new_weight = exp_f32(sub(load(m_chunk), m_new));
  alignas(64) float m_merged[kLanes];
  alignas(64) float l_merged[kLanes];
  store(m_merged, m_new);
  store(l_merged, fma(load(l_chunk), new_weight, mul(load(block.l), old_weight)));
  for (int r = 0; r < kRows; ++r) {
    if (!merge.live[r]) continue;
    block.m[r] = m_merged[r];
    block.l[r] = l_merged[r];
  }
  store(merge.old_weight, old_weight);
  store(merge.new_weight, new_weight);
}

/// o_c = sum of p v, one FMA chain over ascending positions, for kVectors vectors of head_dim from `column` on; merged
/// into o. v: [kKvPageLen, head_dim] f16; positions from n_positions on are not read.
template <int kRows, int kVectors>
BASS_SIMD_INLINE void chunk_values(AttentionBlock<kRows>& block, const uint16_t* v, int head_dim, int column,
                                   int n_positions, const ChunkMerge& merge) {
  F32x16 acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kVectors; ++i) acc[r][i] = zero_f32();
  }
  for (int j = 0; j < n_positions; ++j) {
    for (int i = 0; i < kVectors; ++i) {
      const F32x16 values = load_f16(v + j * head_dim + column + i * kLanes);
      for (int r = 0; r < kRows; ++r) acc[r][i] = fma(broadcast(block.p[r][j]), values, acc[r][i]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    if (!merge.live[r]) continue;
    for (int i = 0; i < kVectors; ++i) {
      float* o = block.o[r] + column + i * kLanes;
      store(o, fma(acc[r][i], broadcast(merge.new_weight[r]), mul(load(o), broadcast(merge.old_weight[r]))));
    }
  }
}

/// Rows [first_row, first_row + kRows) of the unit; row = token * group_size + head of the group.
template <int kRows>
BASS_SIMD_INLINE void open_block(AttentionBlock<kRows>& block, const KvShape& shape, const AttentionUnit& unit,
                                 int first_row) {
  block.last_position = 0;
  for (int r = 0; r < kRows; ++r) {
    const AttentionToken& token = unit.tokens[(first_row + r) / shape.group_size()];
    block.q[r] = token.q + (first_row + r) % shape.group_size() * shape.head_dim;
    block.position[r] = token.position;
    if (token.position > block.last_position) block.last_position = token.position;
  }
}

/// Nothing seen yet, or what `before` says.
template <int kRows>
BASS_SIMD_INLINE void start_states(AttentionBlock<kRows>& block, int head_dim, const float* before) {
  const F32x16 nothing = broadcast(-__builtin_inff());
  store(block.m, nothing);
  store(block.l, zero_f32());
  for (int r = 0; r < kRows; ++r) {
    const float* state = before == nullptr ? nullptr : before + r * attention_state_len(head_dim);
    for (int d = 0; d < head_dim; d += kLanes) store(block.o[r] + d, state == nullptr ? zero_f32() : load(state + d));
    if (state == nullptr) continue;
    block.m[r] = state[head_dim];
    block.l[r] = state[head_dim + 1];
  }
}

template <int kRows>
BASS_SIMD_INLINE void store_states(const AttentionBlock<kRows>& block, int head_dim, float* states) {
  for (int r = 0; r < kRows; ++r) {
    float* state = states + r * attention_state_len(head_dim);
    for (int d = 0; d < head_dim; d += kLanes) store(state + d, load(block.o[r] + d));
    state[head_dim] = block.m[r];
    state[head_dim + 1] = block.l[r];
  }
}

BASS_SIMD_INLINE void store_result(const float* o, float l, int head_dim, float* out) {
  for (int d = 0; d < head_dim; d += kLanes) store(out + d, add(div(load(o + d), broadcast(l)), zero_f32()));
}

template <int kRows>
void attend_block(const KvShape& shape, const AttentionUnit& unit, int first_row) {
  AttentionBlock<kRows> block;
  open_block(block, shape, unit, first_row);
  const int head_dim = shape.head_dim;
  const int group_size = shape.group_size();
  const ptrdiff_t state_begin = static_cast<ptrdiff_t>(first_row) * attention_state_len(head_dim);
  const ptrdiff_t unit_states = static_cast<ptrdiff_t>(unit.n_tokens) * group_size * attention_state_len(head_dim);
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(head_dim));
  start_states(block, head_dim, unit.before == nullptr ? nullptr : unit.before + state_begin);
  ChunkMerge merge{};
  for (int c = unit.first_chunk; c < unit.end_chunk; ++c) {
    const int chunk_begin = c * kKvPageLen;
    int n_positions = block.last_position - chunk_begin + 1;
    if (n_positions > kKvPageLen || n_positions < 1) n_positions = kKvPageLen;  // < 1: padding is computed, too
    const auto* k = reinterpret_cast<const uint16_t*>(unit.pages[c] + unit.head_offset);
    const uint16_t* v = k + static_cast<size_t>(head_dim) * kKvPageLen;
    if (unit.chunk_states != nullptr) start_states(block, head_dim, nullptr);
    chunk_scores(block, k, head_dim, scale);
    chunk_softmax(block, chunk_begin, merge);
    int column = 0;
    for (; column + kValueVectors * kLanes <= head_dim; column += kValueVectors * kLanes) {
      chunk_values<kRows, kValueVectors>(block, v, head_dim, column, n_positions, merge);
    }
    for (; column < head_dim; column += kLanes) {
      chunk_values<kRows, 1>(block, v, head_dim, column, n_positions, merge);
    }
    if (unit.chunk_states != nullptr) {
      store_states(block, head_dim, unit.chunk_states + (c - unit.first_chunk) * unit_states + state_begin);
    }
  }
  if (unit.chunk_states != nullptr) return;
  if (unit.state != nullptr) return store_states(block, head_dim, unit.state + state_begin);
  for (int r = 0; r < kRows; ++r) {
    float* out = unit.tokens[(first_row + r) / group_size].out;
    if (out != nullptr) store_result(block.o[r], block.l[r], head_dim, out + (first_row + r) % group_size * head_dim);
  }
}

template <int kRows>
BASS_SIMD_INLINE void attend_block_rows(int n_rows, const KvShape& shape, const AttentionUnit& unit, int first_row) {
  if constexpr (kRows == 1) {
    attend_block<1>(shape, unit, first_row);
  } else if (n_rows == kRows) {
    attend_block<kRows>(shape, unit, first_row);
  } else {
    attend_block_rows<kRows - 1>(n_rows, shape, unit, first_row);
  }
}

}  // namespace detail

inline void attend(const KvShape& shape, const AttentionUnit& unit) {
  const int n_rows = unit.n_tokens * shape.group_size();
  const int n_blocks = (n_rows + kAttentionRows - 1) / kAttentionRows;
  for (int b = 0; b < n_blocks; ++b) {
    const auto first = static_cast<int>(static_cast<int64_t>(n_rows) * b / n_blocks);
    const auto end = static_cast<int>(static_cast<int64_t>(n_rows) * (b + 1) / n_blocks);
    detail::attend_block_rows<kAttentionRows>(end - first, shape, unit, first);
  }
}

inline void finish_attention(int head_dim, const float* first, const float* rest, size_t stride, int n_rest,
                             float* out) {
  float o[kMaxHeadDim];
  for (int d = 0; d < head_dim; d += kLanes) store(o + d, load(first + d));
  F32x16 m = broadcast(first[head_dim]);
  F32x16 l = broadcast(first[head_dim + 1]);
  for (int i = 0; i < n_rest; ++i) {
    const float* chunk = rest + static_cast<size_t>(i) * stride;
    const F32x16 m_chunk = broadcast(chunk[head_dim]);
    if (first_lane(m_chunk) == -__builtin_inff()) continue;  // the row sees nothing of it
    const F32x16 m_new = max(m, m_chunk);
    const F32x16 old_weight = exp_f32(sub(m, m_new));
    const F32x16 new_weight = exp_f32(sub(m_chunk, m_new));
    m = m_new;
    l = fma(broadcast(chunk[head_dim + 1]), new_weight, mul(l, old_weight));
    for (int d = 0; d < head_dim; d += kLanes)
      store(o + d, fma(load(chunk + d), new_weight, mul(load(o + d), old_weight)));
  }
  detail::store_result(o, first_lane(l), head_dim, out);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
