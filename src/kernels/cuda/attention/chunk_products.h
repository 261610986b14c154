// A chunk's scores, softmax and weighted sum of values for one tile, by one warp on tensor cores.
//
// Numbers of 16 bits are two signed bytes each, x = 256 high + low with high = (x + 128) >> 8: |x| <= 32512 = 127 * 256
// leaves both in int8. A product of such numbers is four products of bytes, and the sums are exact modulo 2^32, in
// which the true sums fit. So the tensor cores give the integers of the CPU.
//
// Fragments (TileS8): with group = lane / 4 and t = lane % 4 a lane holds, of the rows `group` and `group + 8`, the
// positions 16 h + 4 t + x of a chunk (h < 2, x < 4): columns are laid so that this is what both products read and
// write, so that weights go from one to the other in registers, and memory is read and written in neighbouring words.
#pragma once

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/attention/attention_tile.h"

namespace bass::cuda {

inline constexpr float kInt16Steps = 32512.0f;
inline constexpr float kSmallestScaled = 1e-30f;
inline constexpr float kLargestCached = 65504.0f;

/// A lane's part of a tile's scores or weights: [row half, position half, position].
struct ScoreFragment {
  float s[2][2][4];
};

/// The place of a query's dimension in a tile's bytes, [k steps, plane, register, lane, 4].
BASS_HD int query_byte(int row, int dim, int plane) {
  const int lane = row % 8 * 4 + dim % 16 / 4;
  const int register_idx = row / 8 + dim % 32 / 16 * 2;
  return (((dim / 32 * 2 + plane) * 4 + register_idx) * kWarpLen + lane) * 4 + dim % 4;
}
BASS_HD int n_k_steps(int head_dim) { return (head_dim + 31) / 32; }
BASS_HD int query_words(int head_dim) { return n_k_steps(head_dim) * 8 * kWarpLen; }

/// Both 16-bit halves of a word, each + 128, without a carry between them: its upper bytes are then `high`.
BASS_HD uint32_t add_half_step(uint32_t word) { return ((word & 0x7FFF7FFFu) + 0x00800080u) ^ (word & 0x80008000u); }

/// The two byte planes of four 16-bit numbers: a's two and then b's two.
struct BytePlanes {
  int32_t high;
  int32_t low;
};
template <class Context>
BASS_HD BytePlanes planes_of(Context& context, uint32_t a, uint32_t b) {
  return {static_cast<int32_t>(context.pick_bytes(add_half_step(a), add_half_step(b), 0x7531)),
          static_cast<int32_t>(context.pick_bytes(a, b, 0x6420))};
}

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

/// Registers of one side's A operand.
struct RowPlanes {
  int32_t high[4];
  int32_t low[4];
};

BASS_HD TileS8 tile_of(const int32_t (&a)[4], int32_t b0, int32_t b1) { return {{a[0], a[1], a[2], a[3]}, {b0, b1}}; }

template <class Context>
BASS_HD void multiply_planes(Context& context, const RowPlanes& a, BytePlanes b0, BytePlanes b1, PlaneSums* sums) {
  context.multiply_s8(tile_of(a.high, b0.high, b1.high), sums->high);
  context.multiply_s8(tile_of(a.high, b0.low, b1.low), sums->middle);
  context.multiply_s8(tile_of(a.low, b0.high, b1.high), sums->middle);
  context.multiply_s8(tile_of(a.low, b0.low, b1.low), sums->low);
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

/// Two neighbouring columns' B registers (four k each) from two neighbouring rows of pairs, `stride` bytes apart:
/// K: rows are pairs of dimensions, columns positions; V: rows are pairs of positions, columns dimensions.
template <class Context>
BASS_HD void multiply_columns(Context& context, const RowPlanes& a, const std::byte* first, const std::byte* second,
                              int64_t stride, int number_bytes, PlaneSums (&sums)[2]) {
  if (number_bytes == 2) {
    const WordPair w0 = load_pair(first), w1 = load_pair(first + stride);
    WordPair w2{0, 0}, w3{0, 0};
    if (second != nullptr) {
      w2 = load_pair(second);
      w3 = load_pair(second + stride);
    }
    multiply_planes(context, a, planes_of(context, w0.x, w1.x), planes_of(context, w2.x, w3.x), &sums[0]);
    multiply_planes(context, a, planes_of(context, w0.y, w1.y), planes_of(context, w2.y, w3.y), &sums[1]);
    return;
  }
  const uint32_t w0 = load_word(first), w1 = load_word(first + stride);
  const uint32_t w2 = second != nullptr ? load_word(second) : 0,
                 w3 = second != nullptr ? load_word(second + stride) : 0;
  BASS_UNROLL
  for (int i = 0; i < 2; ++i) {
    const uint32_t selector = i == 0 ? 0x5410 : 0x7632;
    multiply_bytes(context, a, static_cast<int32_t>(context.pick_bytes(w0, w1, selector)),
                   static_cast<int32_t>(context.pick_bytes(w2, w3, selector)), &sums[i]);
  }
}

/// s_j of a chunk without masks and cap: fl(fl(float(q.k_j) scale_k_j) fl(s_q c)).
/// query: the tile's bytes (query_byte); q_scale: [kTileRows] fl(s_q c)
template <class Context>
BASS_HD ScoreFragment chunk_scores(Context& context, const int32_t* query, const float* q_scale, const DeviceKv& kv,
                                   const std::byte* page_head) {
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  const int64_t row_bytes = int64_t{2} * kPageLen * kv.number_bytes;  // of a pair of dimensions
  const auto* k_scale =
      reinterpret_cast<const float*>(page_head + int64_t{2} * kPageLen * kv.head_dim * kv.number_bytes);
  ScoreFragment scores;
  BASS_UNROLL
  for (int h = 0; h < 2; ++h) {
    PlaneSums sums[2];
    const std::byte* column = page_head + static_cast<int64_t>(16 * h + 2 * group) * 2 * kv.number_bytes;
    for (int step = 0; step < n_k_steps(kv.head_dim); ++step) {
      RowPlanes a;
      BASS_UNROLL
      for (int i = 0; i < 4; ++i) {
        a.high[i] = query[(step * 8 + i) * kWarpLen + context.lane()];
        a.low[i] = query[(step * 8 + 4 + i) * kWarpLen + context.lane()];
      }
      const std::byte* first = column + (step * 16 + 2 * t) * row_bytes;
      const bool has_second = step * 32 + 16 < kv.head_dim;
      multiply_columns(context, a, first, has_second ? first + 8 * row_bytes : nullptr, row_bytes, kv.number_bytes,
                       sums);
    }
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float row_scale = q_scale[group + half * 8];
      BASS_UNROLL
      for (int x = 0; x < 4; ++x) {  // column 2 t + x / 2 of product x % 2
        const int32_t sum = sums[x % 2].total(half * 2 + x / 2);
        scores.s[half][h][x] = static_cast<float>(sum) * k_scale[16 * h + 4 * t + x] * row_scale;
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

BASS_HD int32_t join_bytes(const int32_t (&x)[4], int shift) {
  uint32_t joined = 0;
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) joined |= (static_cast<uint32_t>(x[i]) >> shift & 255u) << (8 * i);
  return static_cast<int32_t>(joined);
}

/// begin: the chunk's first position; v_scale: [kPageLen]; cap: 0 is none. All lanes of the warp come.
template <class Context>
BASS_HD ChunkSoftmax chunk_softmax(Context& context, const ScoreFragment& scores, const SeenFragment& seen, int begin,
                                   const float* v_scale, float cap) {
  const int t = context.lane() % 4;
  ChunkSoftmax result;
  BASS_UNROLL
  for (int half = 0; half < 2; ++half) {
    float p[2][4], w[2][4];
    bool sees[2][4];
    float m = -kInf;
    BASS_UNROLL
    for (int h = 0; h < 2; ++h) {
      BASS_UNROLL
      for (int x = 0; x < 4; ++x) {
        const int position = begin + 16 * h + 4 * t + x;
        sees[h][x] = position <= seen.last[half] && position >= seen.first[half];
        p[h][x] = sees[h][x] ? (cap > 0 ? soft_cap(scores.s[half][h][x], cap) : scores.s[half][h][x]) : -kInf;
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
        w[h][x] = sees[h][x] ? weight * v_scale[16 * h + 4 * t + x] : 0.0f;
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
      result.weights.high[h * 2 + half] = join_bytes(raised, 8);
      result.weights.low[h * 2 + half] = join_bytes(rounded, 0);
    }
  }
  return result;
}

/// sum r_j v_j of the dimensions [first_dim, first_dim + 16) as floats: this lane's are first_dim + 4 t + x of its two
/// rows.
struct ValueFragment {
  float sum[2][4];
};
template <class Context>
BASS_HD ValueFragment chunk_values(Context& context, const RowPlanes& weights, const DeviceKv& kv,
                                   const std::byte* page_head, int first_dim) {
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  const int64_t row_bytes = int64_t{2} * kv.head_dim * kv.number_bytes;  // of a pair of positions
  const std::byte* values = page_head + int64_t{kPageLen} * kv.head_dim * kv.number_bytes;
  const std::byte* first =
      values + 2 * t * row_bytes + static_cast<int64_t>(first_dim + 2 * group) * 2 * kv.number_bytes;
  PlaneSums sums[2];
  multiply_columns(context, weights, first, first + 8 * row_bytes, row_bytes, kv.number_bytes, sums);
  ValueFragment out;
  BASS_UNROLL
  for (int half = 0; half < 2; ++half) {
    BASS_UNROLL
    for (int x = 0; x < 4; ++x) out.sum[half][x] = static_cast<float>(sums[x % 2].total(half * 2 + x / 2));
  }
  return out;
}

}  // namespace bass::cuda
