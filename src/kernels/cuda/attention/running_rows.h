// The running softmax of a tile's rows, and chunks that are merged into it (kernels.h, "attend").
#pragma once

#include "kernels/cuda/attention/tile_queries.h"

namespace bass::cuda {

/// Chunks that a block works on at once, in shared memory.
inline constexpr int kMaxSlots = kAttentionWarps;

/// The dimensions [first, first + n) of a head.
struct HeadSlice {
  int32_t first;
  int32_t n;
};

/// Chunks ready to be merged: weights, and the slice's values.
struct StagedChunks {
  const ChunkWeights* weights;  // [n]
  std::byte* values;            // [n] StagedValues
  int32_t n;
};

/// n_halves: 1: the other rows' are zero
BASS_HD RowParts parts_of_weights(const ChunkWeights& weights, int lane, int n_halves) {
  const RowBytes first = weights.half[0].bytes[lane];
  const RowBytes second = n_halves > 1 ? weights.half[1].bytes[lane] : RowBytes{};
  return {{{first.word[0], second.word[0], first.word[1], second.word[1]}},
          {{first.word[2], second.word[2], first.word[3], second.word[3]}}};
}

/// Factors of the merge of a row and up to kMaxSlots chunks: o = o old[c] + sum[c] added[c].
struct MergeFactors {
  float old[kMaxSlots];
  float added[kMaxSlots];
};

/// A lane's part of the rows `group` and `group + 8`: m and l, which all lanes of a row know, and of each of a warp's
/// units of 8 kColumns dimensions, the unit warp + kAttentionWarps u of the slice, some: kLaneDims t + x.
template <int kUnits, int kColumns>
struct RunningRows {
  static constexpr int kUnitDims = 8 * kColumns;
  static constexpr int kLaneDims = 2 * kColumns;
  struct alignas(4 * kLaneDims) LaneDims {
    float x[kLaneDims];
  };

  float m[2];
  float l[2];
  float o[kUnits][2][kLaneDims];

  template <class Context>
  BASS_HD static int unit_dim(Context& context, int u) {
    return kUnitDims * (context.warp() + kAttentionWarps * u);
  }

  /// Starts with nothing, or with the rows' state.
  template <class Context>
  BASS_HD void open(Context& context, const TileWork& work, const HeadSlice& slice) {
    const int head_dim = work.args.kv.head_dim;
    const int goes_on = work.tile.goes_on;
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = context.lane() / 4 + 8 * half;
      const float* state = goes_on > 0 && row < work.tile.n_rows ? work.state_of(row) : nullptr;
      m[half] = state != nullptr ? state[head_dim + 2 * (goes_on - 1)] : -kInf;
      l[half] = state != nullptr ? state[head_dim + 2 * (goes_on - 1) + 1] : 0.0f;
      BASS_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        const int dim = unit_dim(context, u) + context.lane() % 4 * kLaneDims;
        LaneDims before = {};
        if (state != nullptr && dim < slice.n) before = *reinterpret_cast<const LaneDims*>(state + slice.first + dim);
        BASS_UNROLL
        for (int x = 0; x < kLaneDims; ++x) o[u][half][x] = before.x[x];
      }
    }
  }

  /// In ascending order. n_dims: of the slice
  template <class Heads, class Context>
  BASS_HD void merge(Context& context, const Heads& heads, const StagedChunks& chunks, int n_dims, int n_halves) {
    constexpr bool kKnowsDims = Heads::kUnroll > 1;  // else registers are scarce
    if (kKnowsDims && n_halves == 1) {
      merge_halves<1>(context, heads, chunks, n_dims);
    } else {
      merge_halves<2>(context, heads, chunks, n_dims);
    }
  }

  /// Writes the rows' state or result. What does not depend on a dimension is written by the first slice.
  template <class Context>
  BASS_HD void close(Context& context, const TileWork& work, const HeadSlice& slice) const {
    const int head_dim = work.args.kv.head_dim;
    const int leaves_state = work.tile.leaves_state;
    const int t = context.lane() % 4;
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = context.lane() / 4 + 8 * half;
      if (row >= work.tile.n_rows) continue;
      float* out = leaves_state > 0 ? work.state_of(row) : work.result_of(row);
      BASS_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        const int dim = unit_dim(context, u) + kLaneDims * t;
        if (dim >= slice.n) break;
        LaneDims after;
        BASS_UNROLL
        for (int x = 0; x < kLaneDims; ++x)
          after.x[x] = leaves_state > 0 ? o[u][half][x] : o[u][half][x] / l[half] + 0.0f;
        *reinterpret_cast<LaneDims*>(out + slice.first + dim) = after;
      }
      if (leaves_state == 0 || t != 0 || context.warp() != 0 || slice.first != 0) continue;
      out[head_dim + 2 * (leaves_state - 1)] = m[half];
      out[head_dim + 2 * (leaves_state - 1) + 1] = l[half];
    }
  }

 private:
  // No branch is between the products of a chunk, so that they overlap.
  template <int kHalves, class Heads, class Context>
  BASS_HD void merge_halves(Context& context, const Heads& heads, const StagedChunks& chunks, int n_dims) {
    MergeFactors factors[kHalves];
    BASS_UNROLL
    for (int half = 0; half < kHalves; ++half) factors[half] = advance(context, chunks, half);
    BASS_UNROLL
    for (int c = 0; c < kMaxSlots; ++c) {
      if (c >= chunks.n) break;
      const RowParts weights = parts_of_weights(chunks.weights[c], context.lane(), kHalves);
      const StagedValues values{chunks.values + c * StagedValues::n_bytes(n_dims, Heads::kNumbers), n_dims};
      BASS_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        const int dim = unit_dim(context, u);
        if (!has_all_units(n_dims) && dim >= n_dims) break;
        TileSums<Heads::kNumbers> sums[kColumns];
        chunk_values<kColumns>(context, heads, weights, values, dim, sums);
        BASS_UNROLL
        for (int half = 0; half < kHalves; ++half) {
          BASS_UNROLL
          for (int x = 0; x < kLaneDims; ++x) {
            const auto sum = static_cast<float>(sums[x % kColumns].total(half * 2 + x / kColumns));
            o[u][half][x] = fmaf(sum, factors[half].added[c], o[u][half][x] * factors[half].old[c]);
          }
        }
      }
    }
  }
  BASS_HD static bool has_all_units(int n_dims) { return n_dims == kUnits * kAttentionWarps * kUnitDims; }

  /// m and l behind the chunks, and the factors of each: lane t of a row computes those of chunk t.
  template <class Context>
  BASS_HD MergeFactors advance(Context& context, const StagedChunks& chunks, int half) {
    static_assert(kMaxSlots == 4);
    const int group = context.lane() / 4;
    const int t = context.lane() % 4;
    float m_own = -kInf, m_before = m[half], m_after = m[half], u_own = 0;
    BASS_UNROLL
    for (int c = 0; c < kMaxSlots; ++c) {
      if (c >= chunks.n) break;
      const float m_chunk = chunks.weights[c].half[half].m[group];
      const float m_new = max_of(m[half], m_chunk);
      if (c == t) {
        m_own = m_chunk;
        m_before = m[half];
        m_after = m_new;
        u_own = chunks.weights[c].half[half].u[group];
      }
      m[half] = m_new;
    }
    const float old = exp2_f32(m_before - m_after);
    const float scale = m_own > -kInf ? exp2_f32(m_own - m_after) : 0.0f;
    MergeFactors factors;
    BASS_UNROLL
    for (int c = 0; c < kMaxSlots; ++c) {
      if (c >= chunks.n) break;
      const int lane = context.lane() - t + c;
      factors.old[c] = context.shuffle(old, lane);
      factors.added[c] = context.shuffle(u_own * scale, lane);
      l[half] = fmaf(chunks.weights[c].half[half].l[group], context.shuffle(scale, lane), l[half] * factors.old[c]);
    }
    return factors;
  }
};

}  // namespace bass::cuda
