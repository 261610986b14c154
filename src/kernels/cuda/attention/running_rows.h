// The running softmax of a tile's rows, and chunks that are merged into it (kernels.h, "attend").
#pragma once

#include "kernels/cuda/attention/tile_queries.h"

namespace bass::cuda {

/// Dimensions of a product of weights and values; a warp merges so many, or a few times so many.
inline constexpr int kUnitDims = 16;

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

/// Factors of the merge of a row and up to kMaxSlots chunks: o = o old[c] + sum[c] added[c].
struct MergeFactors {
  float old[kMaxSlots];
  float added[kMaxSlots];
};

/// A lane's part of the rows `group` and `group + 8`: m and l, which all lanes of a row know, and of each of a warp's
/// units of dimensions, 16 (warp + kAttentionWarps u) of the slice, four: 4 t + x.
template <int kUnits>
struct RunningRows {
  float m[2];
  float l[2];
  float o[kUnits][2][4];

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
        const int dim = unit_dim(context, u) + context.lane() % 4 * 4;
        const bool has_dims = state != nullptr && dim < slice.n;
        const Float4 before = has_dims ? load_4(state + slice.first + dim) : Float4{};
        BASS_UNROLL
        for (int x = 0; x < 4; ++x) o[u][half][x] = before.x[x];
      }
    }
  }

  /// In ascending order.
  template <class Heads, class Context>
  BASS_HD void merge(Context& context, const Heads& heads, const StagedChunks& chunks, int n_dims, int n_halves) {
    MergeFactors factors[2];
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half < n_halves) factors[half] = advance(context, chunks, half);
    }
    BASS_UNROLL
    for (int c = 0; c < kMaxSlots; ++c) {
      if (c >= chunks.n) break;
      const RowPlanes weights{chunks.weights[c].high[context.lane()], chunks.weights[c].low[context.lane()]};
      const StagedValues values{chunks.values + c * StagedValues::n_bytes(n_dims, Heads::kNumberBytes), n_dims};
      BASS_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        const int dim = unit_dim(context, u);
        if (dim >= n_dims) break;
        PlaneSums sums[2];
        chunk_values(context, heads, weights, values, dim, sums);
        BASS_UNROLL
        for (int half = 0; half < 2; ++half) {
          if (half >= n_halves) break;
          BASS_UNROLL
          for (int x = 0; x < 4; ++x) {
            const auto sum = static_cast<float>(sums[x % 2].total(half * 2 + x / 2));
            o[u][half][x] = fmaf(sum, factors[half].added[c], o[u][half][x] * factors[half].old[c]);
          }
        }
      }
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
        const int dim = unit_dim(context, u) + 4 * t;
        if (dim >= slice.n) break;
        Float4 after;
        BASS_UNROLL
        for (int x = 0; x < 4; ++x) after.x[x] = leaves_state > 0 ? o[u][half][x] : o[u][half][x] / l[half] + 0.0f;
        *reinterpret_cast<Float4*>(out + slice.first + dim) = after;
      }
      if (leaves_state == 0 || t != 0 || context.warp() != 0 || slice.first != 0) continue;
      out[head_dim + 2 * (leaves_state - 1)] = m[half];
      out[head_dim + 2 * (leaves_state - 1) + 1] = l[half];
    }
  }

 private:
  /// m and l behind the chunks, and the factors of each: lane t of a row computes those of chunk t.
  template <class Context>
  BASS_HD MergeFactors advance(Context& context, const StagedChunks& chunks, int half) {
    static_assert(kMaxSlots == 4);
    const int row = context.lane() / 4 + 8 * half;
    const int t = context.lane() % 4;
    float m_own = -kInf, m_before = m[half], m_after = m[half], u_own = 0;
    BASS_UNROLL
    for (int c = 0; c < kMaxSlots; ++c) {
      if (c >= chunks.n) break;
      const float m_chunk = chunks.weights[c].m[row];
      const float m_new = max_of(m[half], m_chunk);
      if (c == t) {
        m_own = m_chunk;
        m_before = m[half];
        m_after = m_new;
        u_own = chunks.weights[c].u[row];
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
      l[half] = fmaf(chunks.weights[c].l[row], context.shuffle(scale, lane), l[half] * factors.old[c]);
    }
    return factors;
  }
};

}  // namespace bass::cuda
