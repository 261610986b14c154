// Matrix products on tensor cores, in the same arithmetic as product.h and so with the same bits: one m16n8k32 product
// gives exactly a group's int32 dot products of 16 channels and 8 rows.
#pragma once

#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// A block computes a tile of kChannels channels for kRows rows. A chain of FMAs over the groups cannot be cut, but
/// what it adds can be computed in any order: the warps take the groups of a round, kWarpGroups each, and leave fl(d_x
/// float(dot)) in shared memory, from which the thread that owns a channel and a row goes on with its chain while the
/// other buffer is filled.
template <int kBits, ScaleKind kKind, bool kHasMinima>
struct TileProduct {
  static constexpr bool kCooperates = true;
  static constexpr int kWarps = 8;
  static constexpr int kMaxThreads = kWarps * kWarpLen;
  static constexpr int kRows = 8;
  static constexpr int kWarpGroups = 4;
  static constexpr int kRoundGroups = kWarps * kWarpGroups;
  static constexpr int kDots = kKind == ScaleKind::kWholeHalf ? 2 : 1;  // of a group
  static constexpr int kSums = kChannels * kRows;                       // chains

  ProductArguments a;

  [[nodiscard]] LaunchShape shape() const {
    return {
        {a.w.n_tiles(), ceil_div(a.n_rows, kRows), 1}, kMaxThreads, SharedBytes().add<float>(buffer_len() * 2).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    float* buffers = context.template shared<float>(buffer_len() * 2);
    const int tile = context.block().x;
    const int first_row = context.block().y * kRows;
    const int n_groups = a.w.n_in / kGroupLen;
    const int thread = context.thread();
    float sum = 0.0f;  // of the chain that the thread owns, if it is one of the first kSums
    for (int round = 0, turn = 0; round < n_groups; round += kRoundGroups, turn ^= 1) {
      float* terms = buffers + turn * buffer_len();
      for (int i = 0; i < kWarpGroups; ++i) {
        const int in_round = context.warp() * kWarpGroups + i;
        if (round + in_round < n_groups) {  // the same for the whole warp
          add_terms(context, tile, round + in_round, first_row, terms + in_round * kDots * kSums);
        }
      }
      context.sync();  // the terms are there; and nobody reads the other buffer any more when it is filled next
      if (thread < kSums) sum = add_round(terms, tile, round, first_row, thread / kRows, thread % kRows, sum);
    }
    if (thread < kSums) store_product(a, first_row + thread % kRows, tile * kChannels + thread / kRows, sum);
  }

 private:
  BASS_HD static constexpr int buffer_len() { return kRoundGroups * kDots * kSums; }

  struct alignas(kBits * 2) Record {
    uint32_t words[kBits / 2];
  };

  BASS_HD void load_weights(int tile, int group, int lane, int32_t (&words)[4]) const {
    const Record record =
        reinterpret_cast<const Record*>(a.w.quants)[(int64_t{tile} * (a.w.n_in / kGroupLen) + group) * kWarpLen + lane];
    for (int i = 0; i < 4; ++i) {
      if constexpr (kBits == 8) {
        words[i] = static_cast<int32_t>(record.words[i]);
      } else {
        words[i] = static_cast<int32_t>(record.words[i % 2] >> (i / 2 * 4) & 0x0F0F0F0Fu);
      }
    }
  }

  BASS_HD int row_of(int first_row, int column) const {
    return first_row + column < a.n_rows ? first_row + column : a.n_rows - 1;
  }

  // fl(d_x float(dot)) of one group, at [dot][channel][row].
  template <class Context>
  BASS_HD void add_terms(Context& context, int tile, int group, int first_row, float* terms) const {
    const int lane = context.lane();
    const int64_t x_at = int64_t{row_of(first_row, lane / 4)} * a.x.n_cols + int64_t{group} * kGroupLen + lane % 4 * 4;
    int32_t weights[4];
    load_weights(tile, group, lane, weights);
    for (int dot = 0; dot < kDots; ++dot) {
      TileS8 operands{};
      for (int i = 0; i < 4; ++i) operands.a[i] = kDots == 1 || i / 2 == dot ? weights[i] : 0;
      int32_t sums[4] = {};
      for (int plane = 0; plane < a.x.n_planes; ++plane) {
        const auto* x = reinterpret_cast<const int32_t*>(a.x.q + plane * a.x.plane_stride + x_at);
        operands.b[0] = x[0];
        operands.b[1] = x[4];
        for (int32_t& sum : sums) sum *= 256;  // of the upper plane, in front of the lower
        context.multiply_s8(operands, sums);
      }
      for (int i = 0; i < 4; ++i) {
        const int channel = lane / 4 + i / 2 * 8;
        const int column = lane % 4 * 2 + i % 2;
        const int64_t x_group = int64_t{row_of(first_row, column)} * (a.x.n_cols / kGroupLen) + group;
        if (kBits == 4 && !kHasMinima) sums[i] -= a.w.offset * (a.x.sums[x_group * 2] + a.x.sums[x_group * 2 + 1]);
        terms[(dot * kChannels + channel) * kRows + column] = a.x.scale[x_group] * static_cast<float>(sums[i]);
      }
    }
  }

  BASS_HD float add_round(const float* terms, int tile, int round, int first_row, int channel, int column,
                          float sum) const {
    const int n_groups = a.w.n_in / kGroupLen;
    const int end = n_groups - round < kRoundGroups ? n_groups - round : kRoundGroups;
    const int64_t x_groups = int64_t{row_of(first_row, column)} * n_groups;
    for (int i = 0; i < end * kDots; ++i) {
      const int scale_idx = round * kDots + i;
      sum = fmaf(weight_scale<kKind>(a.w, tile, scale_idx, channel), terms[(i * kChannels + channel) * kRows + column],
                 sum);
      if constexpr (kHasMinima) {
        const int64_t x_group = x_groups + scale_idx / kDots;
        const int32_t* halves = a.x.sums + x_group * 2;
        const int32_t x_sum = kDots == 2 ? halves[scale_idx % 2] : halves[0] + halves[1];
        sum = fmaf(weight_minimum<kKind>(a.w, tile, scale_idx, channel), a.x.scale[x_group] * static_cast<float>(x_sum),
                   sum);
      }
    }
    return sum;
  }
};

struct Tile4 : TileProduct<4, ScaleKind::kPlain, false> {  // Q4_0
  static constexpr const char* kName = "tile_4";
};
struct Tile4Minima : TileProduct<4, ScaleKind::kPlain, true> {  // Q4_1
  static constexpr const char* kName = "tile_4_minima";
};
struct Tile4Whole : TileProduct<4, ScaleKind::kWhole, true> {  // Q4_K
  static constexpr const char* kName = "tile_4_whole";
};
struct Tile8 : TileProduct<8, ScaleKind::kPlain, false> {  // Q8_0, Q5_0, IQ4_NL
  static constexpr const char* kName = "tile_8";
};
struct Tile8Minima : TileProduct<8, ScaleKind::kPlain, true> {  // Q5_1
  static constexpr const char* kName = "tile_8_minima";
};
struct Tile8Whole : TileProduct<8, ScaleKind::kWhole, true> {  // Q5_K
  static constexpr const char* kName = "tile_8_whole";
};
struct Tile8Half : TileProduct<8, ScaleKind::kWholeHalf, false> {  // Q3_K, Q6_K
  static constexpr const char* kName = "tile_8_half";
};
struct Tile8HalfMinima : TileProduct<8, ScaleKind::kWholeHalf, true> {  // Q2_K
  static constexpr const char* kName = "tile_8_half_minima";
};

}  // namespace bass::cuda
