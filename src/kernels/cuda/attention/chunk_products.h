// A chunk's scores, softmax and weighted sum of values for one tile, by one warp on tensor cores.
//
// Fragments (TileS8): with group = lane / 4 and t = lane % 4 a lane holds, of the rows `group` and `group + 8`, the
// positions 16 h + 4 t + x of a chunk (h < 2, x < 4): columns are laid so that this is what both products read and
// write, so that weights go from one to the other in registers, and memory is read and written in neighbouring words.
#pragma once

#include "kernels/cuda/attention/tile_products.h"

namespace bass::cuda {

inline constexpr float kInt16Steps = 32512.0f;
inline constexpr float kSmallestScaled = 1e-30f;
inline constexpr float kLargestCached = 65504.0f;

/// A lane's part of a tile's scores: [row half, position half, position].
struct ScoreFragment {
  float s[2][2][4];
};

/// Of the positions 16 h + 2 group and the next, and the pairs of dimensions 2 t ...: StagedKeys::stage says where.
template <class Heads>
BASS_HD LaneRows key_rows(const StagedKeys& keys, int group, int t, int h) {
  constexpr int kRowBytes = 2 * kPageLen * Heads::kNumberBytes;
  constexpr int kLineBytes = kLineUnits * kUnitBytes;
  const int byte = (16 * h + 2 * group) * 2 * Heads::kNumberBytes;
  const int swap = StagedKeys::swap_of(t) * kUnitBytes;
  const std::byte* first = keys.bytes + 2 * t * kRowBytes + (byte ^ swap);
  // Of int8 two rows are in a line.
  const int next = kRowBytes == kLineBytes ? kLineBytes : ((byte + kRowBytes) ^ swap) - (byte ^ swap);
  return {first, next, 8 * kRowBytes};
}

/// s_j of a chunk without masks and cap: fl(fl(float(q.k_j) scale_k_j) fl(s_q c)), of floats fl(q.k_j c).
/// query: the tile's (query_byte, query_float); q_scale: [kTileRows] fl(s_q c), or c; n_halves: 1: rows from 8 on are
/// not there
template <class Heads, class Context>
BASS_HD ScoreFragment chunk_scores(Context& context, const Heads& heads, const RowBytes* query, const float* q_scale,
                                   const StagedKeys& keys, int n_halves) {
  constexpr int kStepBytes = 16 * 2 * kPageLen * Heads::kNumberBytes;
  // Of the positions at once, as registers allow.
  constexpr bool kHasRoom = Heads::kMaxDim <= 64 || is_float(Heads::kNumbers);
  constexpr int kHalves = Heads::kUnroll > 1 && kHasRoom ? 2 : 1;
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  Float4 k_scales[2] = {};
  if constexpr (!is_float(Heads::kNumbers)) {
    const float* k_scale = keys.k_scales(heads) + 4 * t;
    k_scales[0] = load_4(k_scale);
    k_scales[1] = load_4(k_scale + 16);
  }
  ScoreFragment scores = {};
  BASS_UNROLL
  for (int first = 0; first < 2; first += kHalves) {
    TileSums<Heads::kNumbers> sums[kHalves][2];
    BASS_UNROLL_BY(Heads::kUnroll)
    for (int step = 0; step < n_k_steps(Heads::kMaxDim); ++step) {
      if (step >= n_k_steps(heads.dim())) break;
      const RowParts a{query[step * 2 * kWarpLen + context.lane()], query[(step * 2 + 1) * kWarpLen + context.lane()]};
      BASS_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        LaneRows rows = key_rows<Heads>(keys, group, t, first + h);
        rows.first += step * kStepBytes;
        multiply_columns<Heads::kNumbers, 2>(context, a, rows, step * 32 + 16 < heads.dim(), sums[h]);
      }
    }
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half >= n_halves) break;
      const float row_scale = q_scale[group + half * 8];
      BASS_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        BASS_UNROLL
        for (int x = 0; x < 4; ++x) {  // column 2 t + x / 2 of product x % 2
          const auto sum = static_cast<float>(sums[h][x % 2].total(half * 2 + x / 2));
          const float scaled = is_float(Heads::kNumbers) ? sum : sum * k_scales[first + h].x[x];
          scores.s[half][first + h][x] = scaled * row_scale;
        }
      }
    }
  }
  return scores;
}

/// What each of the two rows of a lane sees of the text.
struct SeenFragment {
  int32_t last[2];  // position; -1: a row that is not there
  int32_t first[2];
};

/// A chunk's softmax: scores become rounded weights in registers, and m, l, u of both rows. Floats need no factor:
/// their weights are rounded as they are, and u is 1.
struct ChunkSoftmax {
  RowParts weights;
  float m[2];
  float l[2];
  float u[2];
};

/// The tree of 16 lanes over 32 positions (kernels.h): i with i + 16, then + 8, + 4, + 2, + 1.
template <class Context>
BASS_HD float sum_of_positions(Context& context, const float (&v)[2][4]) {
  float lanes[4];
  BASS_UNROLL
  for (int x = 0; x < 4; ++x) lanes[x] = v[0][x] + v[1][x];
  BASS_UNROLL
  for (int x = 0; x < 4; ++x) lanes[x] = lanes[x] + context.shuffle_xor(lanes[x], 2);
  BASS_UNROLL
  for (int x = 0; x < 4; ++x) lanes[x] = lanes[x] + context.shuffle_xor(lanes[x], 1);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/// Byte `idx` of each of four words.
template <class Context>
BASS_HD int32_t join_bytes(Context& context, const int32_t (&x)[4], int idx) {
  const uint32_t selector = 0x40u + 0x11u * static_cast<uint32_t>(idx);
  const uint32_t first = context.pick_bytes(static_cast<uint32_t>(x[0]), static_cast<uint32_t>(x[1]), selector);
  const uint32_t second = context.pick_bytes(static_cast<uint32_t>(x[2]), static_cast<uint32_t>(x[3]), selector);
  return static_cast<int32_t>(context.pick_bytes(first, second, 0x5410));
}

BASS_HD void cap_scores(ScoreFragment* scores, float cap) {
  BASS_UNROLL
  for (int i = 0; i < 16; ++i) {
    float& score = scores->s[i / 8][i / 4 % 2][i % 4];
    score = soft_cap(score, cap);
  }
}

/// Rounds the weights of one row to int16 of their sum, as the CPU does; r: words of RowParts.
template <class Context>
BASS_HD float round_weights(Context& context, const float (&w)[2][4], int half, RowParts* r) {
  const float weight_sum = sum_of_positions(context, w);
  const float factor = weight_sum > kSmallestScaled ? kInt16Steps / weight_sum : 0.0f;
  BASS_UNROLL
  for (int h = 0; h < 2; ++h) {
    int32_t rounded[4], raised[4];
    BASS_UNROLL
    for (int x = 0; x < 4; ++x) {
      rounded[x] = round_to_int(w[h][x] * factor);
      raised[x] = rounded[x] + 128;
    }
    r->first.word[h * 2 + half] = join_bytes(context, raised, 1);
    r->second.word[h * 2 + half] = join_bytes(context, rounded, 0);
  }
  return weight_sum * (1.0f / kInt16Steps);
}
/// The same to floats, which need no factor.
template <KvNumbers kNumbers, class Context>
BASS_HD float round_float_weights(Context& context, const float (&w)[2][4], int half, RowParts* r) {
  RowBytes* parts[2] = {&r->first, &r->second};
  BASS_UNROLL
  for (int h = 0; h < 2; ++h) {
    BASS_UNROLL
    for (int x = 0; x < 2; ++x) {
      parts[h]->word[x * 2 + half] = static_cast<int32_t>(pair_of<kNumbers>(context, w[h][2 * x], w[h][2 * x + 1]));
    }
  }
  return 1.0f;
}

/// begin: the chunk's first position; v_scale: [kPageLen], 16-byte aligned, not read where floats are cached; cap: 0 is
/// none; n_halves: 1: rows from 8 on see nothing. All lanes of the warp come.
template <KvNumbers kNumbers, class Context>
BASS_HD ChunkSoftmax chunk_softmax(Context& context, ScoreFragment scores, const SeenFragment& seen, int begin,
                                   const float* v_scale, float cap, int n_halves) {
  const int t = context.lane() % 4;
  Float4 v_scales[2] = {};
  if constexpr (!is_float(kNumbers)) {
    v_scales[0] = load_4(v_scale + 4 * t);
    v_scales[1] = load_4(v_scale + 16 + 4 * t);
  }
  if (cap > 0) cap_scores(&scores, cap);
  ChunkSoftmax result = {{}, {-kInf, -kInf}, {}, {}};
  BASS_UNROLL
  for (int half = 0; half < 2; ++half) {
    if (half >= n_halves) break;
    float p[2][4], w[2][4];
    bool sees[2][4];
    float m = -kInf;
    BASS_UNROLL
    for (int h = 0; h < 2; ++h) {
      BASS_UNROLL
      for (int x = 0; x < 4; ++x) {
        const int position = begin + 16 * h + 4 * t + x;
        sees[h][x] = position <= seen.last[half] && position >= seen.first[half];
        p[h][x] = sees[h][x] ? scores.s[half][h][x] : -kInf;
        m = max_of(p[h][x], m);
      }
    }
    m = max_of(m, context.shuffle_xor(m, 1));
    m = max_of(m, context.shuffle_xor(m, 2));
    BASS_UNROLL
    for (int h = 0; h < 2; ++h) {
      BASS_UNROLL
      for (int x = 0; x < 4; ++x) {
        const float weight = exp2_f32(p[h][x] - m);
        p[h][x] = sees[h][x] ? weight : 0.0f;
        w[h][x] = sees[h][x] ? (is_float(kNumbers) ? weight : weight * v_scales[h].x[x]) : 0.0f;
      }
    }
    result.m[half] = m;
    result.l[half] = sum_of_positions(context, p);
    if constexpr (is_float(kNumbers)) {
      result.u[half] = round_float_weights<kNumbers>(context, w, half, &result.weights);
    } else {
      result.u[half] = round_weights(context, w, half, &result.weights);
    }
  }
  return result;
}

/// sum r_j v_j of 8 kColumns dimensions, `dim` the first of them among those that are staged. A lane's are dim +
/// 2 kColumns t + x.
template <int kColumns, class Heads, class Context>
BASS_HD void chunk_values(Context& context, const Heads& heads, const RowParts& weights, const StagedValues& values,
                          int dim, TileSums<Heads::kNumbers> (&sums)[kColumns]) {
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  const int stride = values.stride(heads);
  const std::byte* column = values.bytes + (dim + kColumns * group) * 2 * Heads::kNumberBytes;
  const LaneRows rows{column + 2 * t * stride, stride, 8 * stride};
  multiply_columns<Heads::kNumbers, kColumns>(context, weights, rows, true, sums);
}

}  // namespace bass::cuda
