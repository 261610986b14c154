// Matrix products on tensor cores, in the same arithmetic as product.h and so with the same bits: one m16n8k32 product
// gives exactly a group's int32 dot products of 16 channels and 8 rows.
#pragma once

#include "kernels/cuda/matmul/tile_ring.h"
#include "kernels/cuda/matmul/tile_stage.h"

namespace bass::cuda {

/// The warps of a tile of kChannels channels and kRows rows keep its FMA chains where the tensor cores leave the dot
/// products: in registers. Nothing is exchanged but what all read: weights, copied stages ahead into a ring in shared
/// memory, and rows, which the block's tiles share. As a chain cannot be cut, there is one warp a tile, or two, for
/// more of them where tiles are few or rows are many: with 8 rows each has 8 of the channels (it multiplies all of
/// them, which costs nothing, and goes on with its own), else half of the rows.
template <int kBits, ScaleKind kKind, bool kHasMinima, int kRowsOfBlock, int kTileWarps>
struct TileProduct {
  static constexpr bool kCooperates = true;
  static constexpr bool kStartsEarly = true;
  static constexpr int kRows = kRowsOfBlock;
  static constexpr int kTileRows = 8;  // of a tensor core's tile
  static constexpr bool kSplitsChannels = kRows == kTileRows && kTileWarps == 2;
  static constexpr int kTileThreads = kTileWarps * kWarpLen;
  static constexpr int kMaxThreads = 4 * kWarpLen;
  static constexpr int kMostTiles = kMaxThreads / kTileThreads;  // of a block
  static constexpr int kLeastTiles = kSplitsChannels ? 1 : kMostTiles;
  static constexpr int kMinBlocks = kRows <= 16 ? 4 : 3;   // of a multiprocessor
  static constexpr int kMostPlanes = kRows <= 32 ? 2 : 1;  // more rows of int16 are more than fits everywhere
  /// Groups between two barriers.
  static constexpr int kStageGroups = kSplitsChannels || (kBits == 4 && kRows <= 16) ? 16 : 8;

  ProductArguments a;

  [[nodiscard]] LaunchShape shape() const {
    return {{ceil_div(a.n_rows, kRows), ceil_div(a.w.n_tiles(), block_tiles()), 1},
            block_tiles() * kTileThreads,
            static_cast<size_t>(n_slots() * slot_bytes() + input_bytes())};
  }

  BASS_HD static int first_row(const Index3& block) { return block.x * kRows; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const Part part = part_of(context);
    const int slot_len = slot_bytes();
    const int last_slot = (n_slots() - 1) * slot_len;
    typename Weights::template Copier<kTileThreads> weights(a.w, part.tile, context.thread() % kTileThreads, part.ring);
    for (int slot = 0; slot < last_slot; slot += slot_len) weights.copy_next(context, slot);
    context.wait_for_input();  // of which the weights are no part
    typename Input::Loader rows(a.x, first_row(context.block()), a.n_rows, context.thread(), n_threads(context));
    rows.load_next();
    rows.store(part.input);
    const Lane first_lane = lane_of(context, part);
    const int n_groups = a.w.n_in / kGroupLen;
    const int n_runs = part.has_work && a.x.n_planes == 1 ? n_groups / kStageGroups : 0;
    Sums sums = {};
    int stage = 0;
    for (int slot = 0, free = last_slot; stage * kStageGroups < n_groups; ++stage) {
      const int turn = stage & 1;
      rows.load_next();
      Ring::wait_oldest(context, n_slots());
      context.sync();  // the stage's weights and rows have come, and nobody reads the one in front of it any more
      const Lane lane = first_lane.at(slot, turn);
      if (stage < n_runs) {
        add_runs<1, kLongRun>(context, lane, kStageGroups, sums);
      } else if (part.has_work) {
        add_rest(context, lane, n_groups - stage * kStageGroups, sums);
      }
      weights.copy_next(context, free);
      rows.store(part.input.at(turn ^ 1));
      free = slot;
      slot = slot == last_slot ? 0 : slot + slot_len;
    }
    if (part.has_work) store_sums(context, part, sums);
  }

 private:
  using Weights = WeightStage<kBits, kKind, kHasMinima, kStageGroups>;
  static constexpr int kDots = Weights::kDots;
  static constexpr int kLeastThreads = kLeastTiles * kTileThreads;
  static constexpr int kUnits = (kRows * kStageGroups + kLeastThreads - 1) / kLeastThreads;
  using Input = InputStage<kRows, kStageGroups, kDots, kHasMinima, kUnits>;
  using Ring = TileRing<Weights::kBytes, Input::bytes_of_pair(kMostPlanes), kLeastTiles, kMostTiles>;
  static constexpr int kWarpRows = kSplitsChannels ? kRows : kRows / kTileWarps;
  static constexpr int kRowTiles = kWarpRows / kTileRows;
  static constexpr int kLaneChannels = kSplitsChannels ? 1 : 2;
  /// Chains: channels lane / 4 and, where the warp has all channels, lane / 4 + 8; rows lane % 4 * 2 and the next one.
  using Sums = float[kRowTiles][kLaneChannels][2];

  BASS_HD int block_tiles() const { return Ring::block_tiles(a.w.n_tiles()); }
  BASS_HD int n_slots() const { return Ring::n_slots(a.w.n_tiles()); }
  BASS_HD int slot_bytes() const { return block_tiles() * Weights::kBytes; }
  BASS_HD int input_bytes() const { return Input::bytes_of_pair(a.x.n_planes); }

  template <class Context>
  BASS_HD static int n_threads(const Context& context) {
    return kLeastThreads == kMaxThreads ? kMaxThreads : context.n_threads();
  }

  /// What a thread sees of its block, and its part in it.
  struct Part {
    int tile;  // in the matrix
    int side;  // which of the tile's warps
    bool has_work;
    std::byte* ring;  // of the tile: its stage in the first slot
    Input input;      // the first of two that take turns
  };

  template <class Context>
  BASS_HD Part part_of(Context& context) const {
    const int in_block = context.thread() / kTileThreads;
    Part part;
    part.tile = context.block().y * block_tiles() + in_block;
    part.side = context.warp() % kTileWarps;
    part.has_work = part.tile < a.w.n_tiles() && first_row(context.block()) + first_warp_row(part) < a.n_rows;
    std::byte* shared = context.kept(context.template shared<std::byte>(n_slots() * slot_bytes() + input_bytes()));
    part.input = Input(shared);
    part.ring = shared + input_bytes() + in_block * Weights::kBytes;
    return part;
  }

  BASS_HD static int first_warp_row(const Part& part) { return kSplitsChannels ? 0 : part.side * kWarpRows; }

  struct alignas(kBits * 2) Record {
    uint32_t words[kBits / 2];
  };
  struct alignas(8) Word2 {
    int32_t x[2];
  };
  struct alignas(8) Float2 {
    float x[2];
  };

  /// Where a lane reads in a stage.
  struct Lane {
    const std::byte* quants;          // + a group's kWarpLen records
    typename Weights::Scales scales;  // of its first channel
    int side;
    const uint32_t* words;  // + a tile of rows' and a group's
    const float* x_scales;  // + a group's kRows and a tile of rows' kTileRows
    const float* x_minima;  // the same for each dot product

    /// In the slot that is so many bytes further, and where the rows of that turn are.
    BASS_HD Lane at(int slot, int turn) const {
      return {quants + slot,
              scales.at(slot),
              side,
              words + turn * Input::kWords,
              x_scales + turn * Input::kScales,
              x_minima + turn * Input::kMinima};
    }
  };

  template <class Context>
  BASS_HD Lane lane_of(const Context& context, const Part& part) const {
    const int group = context.lane() / 4;
    const int t = context.lane() % 4;
    const Input& input = part.input;
    const int row = first_warp_row(part);
    const int channel = group + (kSplitsChannels ? part.side * 8 : 0);
    return {part.ring + context.lane() * sizeof(Record),
            typename Weights::Scales(part.ring, channel),
            part.side,
            input.words + (row + group) * Input::kRowWords + 2 * t,
            input.scales + row + 2 * t,
            input.minima + row + 2 * t};
  }

  // Groups whose instructions are one run, so that the loads of later ones come before the chains of earlier ones: as
  // many as registers allow and no more than there is to wait for. What is left, and int16, goes in short ones.
  static constexpr int kShortRun = 4;
  static constexpr int kLongRun = kRows > 32 || kDots == 2 ? kShortRun : kBits == 8 ? 8 : kStageGroups;

  template <class Context>
  BASS_HD void add_rest(Context& context, const Lane& lane, int n_left, Sums& sums) const {
    const int n = n_left < kStageGroups ? n_left : kStageGroups;
    if constexpr (kMostPlanes == 2) {
      if (a.x.n_planes == 2) return add_runs<2, kShortRun>(context, lane, n, sums);
    }
    add_runs<1, kShortRun>(context, lane, n, sums);
  }

  template <int kPlanes, int kRun, class Context>
  BASS_HD void add_runs(Context& context, const Lane& lane, int n, Sums& sums) const {
    int group = 0;
    BASS_UNROLL_BY(1)
    for (; group + kRun <= n; group += kRun) add_run<kPlanes, kRun>(context, lane, group, sums);
    BASS_UNROLL_BY(1)
    for (; group < n; ++group) add_run<kPlanes, 1>(context, lane, group, sums);
  }

  template <int kPlanes, int kGroups, class Context>
  BASS_HD void add_run(Context& context, const Lane& lane, int first, Sums& sums) const {
    BASS_UNROLL
    for (int i = 0; i < kGroups; ++i) add_group<kPlanes>(context, lane, first + i, sums);
  }

  template <int kPlanes, class Context>
  BASS_HD void add_group(Context& context, const Lane& lane, int group, Sums& sums) const {
    int32_t weights[4];
    load_weights(lane, group, weights);
    BASS_UNROLL
    for (int dot = 0; dot < kDots; ++dot) {
      float scales[kLaneChannels];
      float minima[kLaneChannels] = {};
      BASS_UNROLL
      for (int c = 0; c < kLaneChannels; ++c) {
        scales[c] = lane.scales.scale(context, group, dot, 8 * c);
        if constexpr (kHasMinima) minima[c] = lane.scales.minimum(context, group, dot, 8 * c);
      }
      TileS8 operands;
      BASS_UNROLL
      for (int i = 0; i < 4; ++i) operands.a[i] = kDots == 1 || i / 2 == dot ? weights[i] : 0;
      BASS_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        float dots[kLaneChannels][2];
        multiply<kPlanes>(context, lane, group, r, operands, dots);
        const int at = r * kTileRows;
        const auto x_scales = *reinterpret_cast<const Float2*>(lane.x_scales + group * kRows + at);
        Float2 x_minima;
        if constexpr (kHasMinima) {
          x_minima = *reinterpret_cast<const Float2*>(lane.x_minima + (group * kDots + dot) * kRows + at);
        }
        BASS_UNROLL
        for (int i = 0; i < 2 * kLaneChannels; ++i) {
          const int c = i / 2;
          float& sum = sums[r][c][i % 2];
          sum = fmaf(scales[c], x_scales.x[i % 2] * dots[c][i % 2], sum);
          if constexpr (kHasMinima) sum = fmaf(minima[c], x_minima.x[i % 2], sum);
        }
      }
    }
  }

  // Of 4 bits without minima (Q4_0) quants are 8 less than what is stored: with the upper bit of four turned they are
  // signed, and in the upper half of a byte 16 times as much.
  static constexpr bool kIsShifted = kBits == 4 && !kHasMinima;

  // Operands a of a group. A warp that goes on with 8 channels only needs those in a[0] and a[2]: of 4 bits they are
  // its own, and what is in a[1] and a[3] does not matter; of 8 bits it picks its own from the products.
  BASS_HD void load_weights(const Lane& lane, int group, int32_t (&weights)[4]) const {
    const Record* record = reinterpret_cast<const Record*>(lane.quants) + group * kWarpLen;
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      if constexpr (kBits == 8) {
        weights[half] = static_cast<int32_t>(record->words[half]);
        weights[half + 2] = static_cast<int32_t>(record->words[half + 2]);
      } else {
        const uint32_t stored = record->words[kSplitsChannels ? lane.side : half];
        const uint32_t word = kIsShifted ? stored ^ 0x88888888u : stored;
        const uint32_t parts[2] = {kIsShifted ? word << 4 : word, kIsShifted ? word : word >> 4};
        BASS_UNROLL
        for (int i = 0; i < 2; ++i) {
          const uint32_t quants = parts[i] & (kIsShifted ? 0xF0F0F0F0u : 0x0F0F0F0Fu);
          weights[i * 2 + half] = static_cast<int32_t>(kSplitsChannels && half == 1 ? parts[i] : quants);
        }
      }
    }
  }

  // float(dot) of a lane's chains. With one plane |dot| <= 2^19, as 16 times that of 4 bits: added to the bits of
  // 1.5 2^23 (or 1.5 2^19, whose last bit is 1/16) it is that number plus the dot product.
  template <int kPlanes, class Context>
  BASS_HD void multiply(Context& context, const Lane& lane, int group, int row_tile, TileS8& operands,
                        float (&dots)[kLaneChannels][2]) const {
    constexpr float kOrigin = kIsShifted ? 0x1.8p19f : 0x1.8p23f;
    const uint32_t* words = lane.words + row_tile * kTileRows * Input::kRowWords + group * Input::kGroupWords;
    const int32_t begin = kPlanes == 1 ? static_cast<int32_t>(bits_of(kOrigin)) : 0;
    int32_t sums[4] = {begin, begin, begin, begin};
    BASS_UNROLL
    for (int plane = 0; plane < kPlanes; ++plane) {
      const auto x = *reinterpret_cast<const Word2*>(words + plane * 2 * Input::kWords);
      operands.b[0] = x.x[0];
      operands.b[1] = x.x[1];
      if (plane == 1) {
        for (int32_t& sum : sums) sum *= 256;  // of the upper plane, in front of the lower
      }
      context.multiply_s8(operands, sums);
    }
    BASS_UNROLL
    for (int i = 0; i < 2 * kLaneChannels; ++i) {
      int32_t dot = sums[i];
      if constexpr (kSplitsChannels && kBits == 8) {
        const int32_t lower = sums[i + 2];  // a value: between places there would be a choice of memory
        dot = lane.side == 1 ? lower : dot;
      }
      if constexpr (kPlanes == 1) {
        dots[i / 2][i % 2] = float_of(static_cast<uint32_t>(dot)) - kOrigin;
      } else {
        dots[i / 2][i % 2] = static_cast<float>(kIsShifted ? dot / 16 : dot);
      }
    }
  }

  template <class Context>
  BASS_HD void store_sums(const Context& context, const Part& part, const Sums& sums) const {
    const int channel = part.tile * kChannels + context.lane() / 4 + (kSplitsChannels ? part.side * 8 : 0);
    const int row = first_row(context.block()) + first_warp_row(part) + context.lane() % 4 * 2;
    BASS_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      BASS_UNROLL
      for (int i = 0; i < 2 * kLaneChannels; ++i) {
        store_product(a, row + r * kTileRows + i % 2, channel + i / 2 * 8, sums[r][i / 2][i % 2]);
      }
    }
  }
};

/// Tile8Rows16 and so on: products of a format, by the rows of a block.
#define BASS_TILE_PRODUCT(Name, name, bits, kind, has_minima, rows, tile_warps)    \
  struct Name : TileProduct<bits, ScaleKind::kind, has_minima, rows, tile_warps> { \
    static constexpr const char* kName = name;                                     \
  };
#define BASS_TILE_PRODUCTS(Format, name, bits, kind, has_minima)                    \
  BASS_TILE_PRODUCT(Format##Split, name "_split", bits, kind, has_minima, 8, 2)     \
  BASS_TILE_PRODUCT(Format##Rows8, name "_rows_8", bits, kind, has_minima, 8, 1)    \
  BASS_TILE_PRODUCT(Format##Rows16, name "_rows_16", bits, kind, has_minima, 16, 2) \
  BASS_TILE_PRODUCT(Format##Rows32, name "_rows_32", bits, kind, has_minima, 32, 2) \
  BASS_TILE_PRODUCT(Format##Rows64, name "_rows_64", bits, kind, has_minima, 64, 2)
BASS_TILE_PRODUCTS(Tile4, "tile_4", 4, kPlain, false)                           // Q4_0
BASS_TILE_PRODUCTS(Tile4Minima, "tile_4_minima", 4, kPlain, true)               // Q4_1
BASS_TILE_PRODUCTS(Tile4Whole, "tile_4_whole", 4, kWhole, true)                 // Q4_K
BASS_TILE_PRODUCTS(Tile8, "tile_8", 8, kPlain, false)                           // Q8_0, Q5_0, IQ4_NL
BASS_TILE_PRODUCTS(Tile8Minima, "tile_8_minima", 8, kPlain, true)               // Q5_1
BASS_TILE_PRODUCTS(Tile8Whole, "tile_8_whole", 8, kWhole, true)                 // Q5_K
BASS_TILE_PRODUCTS(Tile8Half, "tile_8_half", 8, kWholeHalf, false)              // Q3_K, Q6_K
BASS_TILE_PRODUCTS(Tile8HalfMinima, "tile_8_half_minima", 8, kWholeHalf, true)  // Q2_K
#undef BASS_TILE_PRODUCTS
#undef BASS_TILE_PRODUCT

}  // namespace bass::cuda
