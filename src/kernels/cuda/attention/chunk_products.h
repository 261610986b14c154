// A chunk's scores, softmax and weighted sum of values for one tile, by one warp on tensor cores.
//
// Numbers of 16 bits are two bytes each. Of keys and values as they lie in memory, x = 256 high + low with low in 0 ..
// 255. Of queries and weights, which kernels split once for many products, both are signed, high = (x + 128) >> 8: |x|
// <= 32512 = 127 * 256 leaves both in int8. A product of such numbers is four products of bytes, and the sums are exact
// modulo 2^32, in which the true sums fit. So the tensor cores give the integers of the CPU.
//
// Fragments (TileS8): with group = lane / 4 and t = lane % 4 a lane holds, of the rows `group` and `group + 8`, the
// positions 16 h + 4 t + x of a chunk (h < 2, x < 4): columns are laid so that this is what both products read and
// write, so that weights go from one to the other in registers, and memory is read and written in neighbouring words.
#pragma once

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/attention/staged_chunk.h"

namespace bass::cuda {

inline constexpr float kInt16Steps = 32512.0f;
inline constexpr float kSmallestScaled = 1e-30f;
inline constexpr float kLargestCached = 65504.0f;

/// A lane's part of a tile's scores or weights: [row half, position half, position].
struct ScoreFragment {
  float s[2][2][4];
};

/// The place of a query's dimension in a tile's bytes, [k steps, plane, lane, register, 4].
BASS_HD int query_byte(int row, int dim, int plane) {
  const int lane = row % 8 * 4 + dim % 16 / 4;
  const int register_idx = row / 8 + dim % 32 / 16 * 2;
  return (((dim / 32 * 2 + plane) * kWarpLen + lane) * 4 + register_idx) * 4 + dim % 4;
}
BASS_HD constexpr int n_k_steps(int head_dim) { return (head_dim + 31) / 32; }
BASS_HD int query_words(int head_dim) { return n_k_steps(head_dim) * 8 * kWarpLen; }

/// The two byte planes of four 16-bit numbers in memory: a's two and then b's two.
struct BytePlanes {
  int32_t high;  // signed bytes
  int32_t low;   // unsigned bytes
};
template <class Context>
BASS_HD BytePlanes planes_of(Context& context, uint32_t a, uint32_t b) {
  return {static_cast<int32_t>(context.pick_bytes(a, b, 0x7531)),
          static_cast<int32_t>(context.pick_bytes(a, b, 0x6420))};
}

/// p: 16-byte aligned
BASS_HD Float4 load_4(const float* p) { return *reinterpret_cast<const Float4*>(p); }

/// Exact sums of a product of tiles, by the bytes of both sides.
struct PlaneSums {
  int32_t high[4] = {};
  int32_t middle[4] = {};
  int32_t low[4] = {};

  [[nodiscard]] BASS_HD int32_t total(int i) const {
    return static_cast<int32_t>((static_cast<uint32_t>(high[i]) << 16) + (static_cast<uint32_t>(middle[i]) << 8) +
                                static_cast<uint32_t>(low[i]));
  }
};

/// One side's A operand.
struct RowPlanes {
  RowBytes high;
  RowBytes low;
};

BASS_HD TileS8 tile_of(const RowBytes& a, int32_t b0, int32_t b1) {
  return {{a.word[0], a.word[1], a.word[2], a.word[3]}, {b0, b1}};
}

template <class Context>
BASS_HD void multiply_planes(Context& context, const RowPlanes& a, BytePlanes b0, BytePlanes b1, PlaneSums* sums) {
  context.multiply_s8(tile_of(a.high, b0.high, b1.high), sums->high);
  context.multiply_s8_u8(tile_of(a.high, b0.low, b1.low), sums->middle);
  context.multiply_s8(tile_of(a.low, b0.high, b1.high), sums->middle);
  context.multiply_s8_u8(tile_of(a.low, b0.low, b1.low), sums->low);
}
/// The same where the other side has bytes only: 8 bits more to the left, 16-bit a by 8-bit b.
template <class Context>
BASS_HD void multiply_bytes(Context& context, const RowPlanes& a, int32_t b0, int32_t b1, PlaneSums* sums) {
  context.multiply_s8(tile_of(a.high, b0, b1), sums->middle);
  context.multiply_s8(tile_of(a.low, b0, b1), sums->low);
}

struct WordPair {
  uint32_t x;
  uint32_t y;
};
BASS_HD WordPair load_pair(const std::byte* p) {
  WordPair pair;
  memcpy(&pair, __builtin_assume_aligned(p, 8), sizeof(pair));
  return pair;
}
BASS_HD uint32_t load_word(const std::byte* p) {
  uint32_t word;
  memcpy(&word, __builtin_assume_aligned(p, 4), sizeof(word));
  return word;
}

/// A row in shared memory that a lane reads, the next row, and the second two, `half` bytes behind.
struct LaneRows {
  const std::byte* first;
  int32_t next;
  int32_t half;
};

/// B registers (four k each) of kColumns neighbouring columns, from two neighbouring rows of pairs, and two more if
/// has_half: K: rows are pairs of dimensions, columns positions; V: rows are pairs of positions, columns dimensions.
template <int kNumberBytes, int kColumns, class Context>
BASS_HD void multiply_columns(Context& context, const RowPlanes& a, const LaneRows& rows, bool has_half,
                              PlaneSums (&sums)[kColumns]) {
  const std::byte* second = rows.first + rows.half;
  if constexpr (kNumberBytes == 2 && kColumns == 1) {
    const uint32_t w0 = load_word(rows.first), w1 = load_word(rows.first + rows.next);
    const uint32_t w2 = has_half ? load_word(second) : 0, w3 = has_half ? load_word(second + rows.next) : 0;
    multiply_planes(context, a, planes_of(context, w0, w1), planes_of(context, w2, w3), &sums[0]);
  } else if constexpr (kNumberBytes == 2) {
    static_assert(kColumns == 2);
    const WordPair w0 = load_pair(rows.first), w1 = load_pair(rows.first + rows.next);
    WordPair w2{0, 0}, w3{0, 0};
    if (has_half) {
      w2 = load_pair(second);
      w3 = load_pair(second + rows.next);
    }
    multiply_planes(context, a, planes_of(context, w0.x, w1.x), planes_of(context, w2.x, w3.x), &sums[0]);
    multiply_planes(context, a, planes_of(context, w0.y, w1.y), planes_of(context, w2.y, w3.y), &sums[1]);
  } else {
    static_assert(kColumns == 2);
    const uint32_t w0 = load_word(rows.first), w1 = load_word(rows.first + rows.next);
    const uint32_t w2 = has_half ? load_word(second) : 0, w3 = has_half ? load_word(second + rows.next) : 0;
    BASS_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t selector = i == 0 ? 0x5410 : 0x7632;
      multiply_bytes(context, a, static_cast<int32_t>(context.pick_bytes(w0, w1, selector)),
                     static_cast<int32_t>(context.pick_bytes(w2, w3, selector)), &sums[i]);
    }
  }
}

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

/// s_j of a chunk without masks and cap: fl(fl(float(q.k_j) scale_k_j) fl(s_q c)).
/// query: the tile's bytes (query_byte); q_scale: [kTileRows] fl(s_q c); n_halves: 1: rows from 8 on are not there
template <class Heads, class Context>
BASS_HD ScoreFragment chunk_scores(Context& context, const Heads& heads, const RowBytes* query, const float* q_scale,
                                   const StagedKeys& keys, int n_halves) {
  constexpr int kStepBytes = 16 * 2 * kPageLen * Heads::kNumberBytes;
  // Of the positions at once, as registers allow.
  constexpr int kHalves = Heads::kUnroll > 1 && Heads::kMaxDim <= 64 ? 2 : 1;
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  const float* k_scale = keys.k_scales(heads) + 4 * t;
  const Float4 k_scales[2] = {load_4(k_scale), load_4(k_scale + 16)};
  ScoreFragment scores = {};
  BASS_UNROLL
  for (int first = 0; first < 2; first += kHalves) {
    PlaneSums sums[kHalves][2];
    BASS_UNROLL_BY(Heads::kUnroll)
    for (int step = 0; step < n_k_steps(Heads::kMaxDim); ++step) {
      if (step >= n_k_steps(heads.dim())) break;
      const RowPlanes a{query[step * 2 * kWarpLen + context.lane()], query[(step * 2 + 1) * kWarpLen + context.lane()]};
      BASS_UNROLL
      for (int h = 0; h < kHalves; ++h) {
        LaneRows rows = key_rows<Heads>(keys, group, t, first + h);
        rows.first += step * kStepBytes;
        multiply_columns<Heads::kNumberBytes, 2>(context, a, rows, step * 32 + 16 < heads.dim(), sums[h]);
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
          scores.s[half][first + h][x] = sum * k_scales[first + h].x[x] * row_scale;
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

/// A chunk's softmax: scores become rounded weights in registers, and m, l, u of both rows.
struct ChunkSoftmax {
  RowPlanes weights;
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

/// begin: the chunk's first position; v_scale: [kPageLen], 16-byte aligned; cap: 0 is none; n_halves: 1: rows from 8 on
/// see nothing. All lanes of the warp come.
template <class Context>
BASS_HD ChunkSoftmax chunk_softmax(Context& context, ScoreFragment scores, const SeenFragment& seen, int begin,
                                   const float* v_scale, float cap, int n_halves) {
  const int t = context.lane() % 4;
  const Float4 v_scales[2] = {load_4(v_scale + 4 * t), load_4(v_scale + 16 + 4 * t)};
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
        w[h][x] = sees[h][x] ? weight * v_scales[h].x[x] : 0.0f;
      }
    }
    const float weight_sum = sum_of_positions(context, w);
    result.m[half] = m;
    result.l[half] = sum_of_positions(context, p);
    result.u[half] = weight_sum * (1.0f / kInt16Steps);
    const float factor = weight_sum > kSmallestScaled ? kInt16Steps / weight_sum : 0.0f;
    BASS_UNROLL
    for (int h = 0; h < 2; ++h) {
      int32_t rounded[4], raised[4];
      BASS_UNROLL
      for (int x = 0; x < 4; ++x) {
        rounded[x] = round_to_int(w[h][x] * factor);
        raised[x] = rounded[x] + 128;
      }
      result.weights.high.word[h * 2 + half] = join_bytes(context, raised, 1);
      result.weights.low.word[h * 2 + half] = join_bytes(context, rounded, 0);
    }
  }
  return result;
}

/// sum r_j v_j of 8 kColumns dimensions, `dim` the first of them among those that are staged. A lane's are dim +
/// 2 kColumns t + x.
template <int kColumns, class Heads, class Context>
BASS_HD void chunk_values(Context& context, const Heads& heads, const RowPlanes& weights, const StagedValues& values,
                          int dim, PlaneSums (&sums)[kColumns]) {
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  const int stride = values.stride(heads);
  const std::byte* column = values.bytes + (dim + kColumns * group) * 2 * Heads::kNumberBytes;
  const LaneRows rows{column + 2 * t * stride, stride, 8 * stride};
  multiply_columns<Heads::kNumberBytes, kColumns>(context, weights, rows, true, sums);
}

}  // namespace bass::cuda
