// What tensor cores multiply of a chunk: queries by keys, and weights by values, in the numbers of the cache.
//
// Whole numbers of 16 bits are two bytes each. Of keys and values as they lie in memory, x = 256 high + low with low in
// 0 .. 255. Of queries and weights, which kernels split once for many products, both are signed, high = (x + 128) >> 8:
// |x| <= 32512 = 127 * 256 leaves both in int8. A product of such numbers is four products of bytes, and the sums are
// exact modulo 2^32, in which the true sums fit. So the tensor cores give the integers of the CPU.
//
// Floats of 16 bits are multiplied as they lie, 16 at a time, with sums in float32. A sum's order is the tensor core's,
// and the same for every row and column of every tile.
#pragma once

#include <type_traits>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/attention/staged_chunk.h"

namespace bass::cuda {

/// The place of a query's dimension in a tile's bytes, [k steps, part, lane, register, 4]; part: of RowParts.
BASS_HD int query_byte(int row, int dim, int part) {
  const int lane = row % 8 * 4 + dim % 16 / 4;
  const int register_idx = row / 8 + dim % 32 / 16 * 2;
  return (((dim / 32 * 2 + part) * kWarpLen + lane) * 4 + register_idx) * 4 + dim % 4;
}
/// The same of floats, in 16-bit numbers: [k steps, part, lane, register, 2]. A lane has four neighbouring dimensions,
/// as of the keys.
BASS_HD int query_float(int row, int dim) {
  const int lane = row % 8 * 4 + dim % 16 / 4;
  const int register_idx = row / 8 + dim % 4 / 2 * 2;
  return ((dim / 16 * kWarpLen + lane) * 4 + register_idx) * 2 + dim % 2;
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

/// Sums of floats.
struct FloatSums {
  float sum[4] = {};

  [[nodiscard]] BASS_HD float total(int i) const { return sum[i]; }
};

template <KvNumbers kNumbers>
using TileSums = std::conditional_t<is_float(kNumbers), FloatSums, PlaneSums>;

/// One side's A operands of 32 k: of whole numbers the upper bytes and the lower ones, of floats the first 16 and the
/// second.
struct RowParts {
  RowBytes first;
  RowBytes second;
};

BASS_HD TileS8 tile_of(const RowBytes& a, int32_t b0, int32_t b1) {
  return {{a.word[0], a.word[1], a.word[2], a.word[3]}, {b0, b1}};
}

template <class Context>
BASS_HD void multiply_planes(Context& context, const RowParts& a, BytePlanes b0, BytePlanes b1, PlaneSums* sums) {
  context.multiply_s8(tile_of(a.first, b0.high, b1.high), sums->high);
  context.multiply_s8_u8(tile_of(a.first, b0.low, b1.low), sums->middle);
  context.multiply_s8(tile_of(a.second, b0.high, b1.high), sums->middle);
  context.multiply_s8_u8(tile_of(a.second, b0.low, b1.low), sums->low);
}
/// The same where the other side has bytes only: 8 bits more to the left, 16-bit a by 8-bit b.
template <class Context>
BASS_HD void multiply_bytes(Context& context, const RowParts& a, int32_t b0, int32_t b1, PlaneSums* sums) {
  context.multiply_s8(tile_of(a.first, b0, b1), sums->middle);
  context.multiply_s8(tile_of(a.second, b0, b1), sums->low);
}

/// Two floats as they are cached, the first in the lower half; rounded to nearest even.
template <KvNumbers kNumbers, class Context>
BASS_HD uint32_t pair_of(Context& context, float x, float y) {
  static_assert(is_float(kNumbers));
  return kNumbers == KvNumbers::kF16 ? context.pair_f16(x, y) : context.pair_bf16(x, y);
}

template <KvNumbers kNumbers, class Context>
BASS_HD void multiply_floats(Context& context, const RowBytes& a, uint32_t b0, uint32_t b1, FloatSums* sums) {
  const TileS8 tile = tile_of(a, static_cast<int32_t>(b0), static_cast<int32_t>(b1));
  if constexpr (kNumbers == KvNumbers::kF16) {
    context.multiply_f16(tile, sums->sum);
  } else {
    context.multiply_bf16(tile, sums->sum);
  }
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

/// Adds a product of 32 k, of which a lane has four of each half in two neighbouring rows of pairs, for kColumns
/// neighbouring columns. K: rows are pairs of dimensions, columns positions; V: rows are pairs of positions, columns
/// dimensions. has_half: whether the second half is there.
template <KvNumbers kNumbers, int kColumns, class Context>
BASS_HD void multiply_columns(Context& context, const RowParts& a, const LaneRows& rows, bool has_half,
                              TileSums<kNumbers> (&sums)[kColumns]) {
  const std::byte* second = rows.first + rows.half;
  const auto multiply_words = [&](uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, TileSums<kNumbers>* sum) {
    if constexpr (is_float(kNumbers)) {
      multiply_floats<kNumbers>(context, a.first, w0, w1, sum);
      if (has_half) multiply_floats<kNumbers>(context, a.second, w2, w3, sum);
    } else {
      multiply_planes(context, a, planes_of(context, w0, w1), planes_of(context, w2, w3), sum);
    }
  };
  if constexpr (bytes_of(kNumbers) == 2 && kColumns == 1) {
    const uint32_t w0 = load_word(rows.first), w1 = load_word(rows.first + rows.next);
    const uint32_t w2 = has_half ? load_word(second) : 0, w3 = has_half ? load_word(second + rows.next) : 0;
    multiply_words(w0, w1, w2, w3, &sums[0]);
  } else if constexpr (bytes_of(kNumbers) == 2) {
    static_assert(kColumns == 2);
    const WordPair w0 = load_pair(rows.first), w1 = load_pair(rows.first + rows.next);
    WordPair w2{0, 0}, w3{0, 0};
    if (has_half) {
      w2 = load_pair(second);
      w3 = load_pair(second + rows.next);
    }
    multiply_words(w0.x, w1.x, w2.x, w3.x, &sums[0]);
    multiply_words(w0.y, w1.y, w2.y, w3.y, &sums[1]);
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

}  // namespace bass::cuda
