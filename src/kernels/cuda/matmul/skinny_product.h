// Products of few rows with a library's numbers (library_numbers.h), by kernels of our own: reading the weights once is
// all that such a product takes, and a library's kernels, made for many rows, do not always read them as fast as the
// memory can give them.
#pragma once

#include "kernels/cuda/matmul/skinny_part.h"

namespace bass::cuda {

/// A block computes kTiles tiles of kChannels channels for kRowTiles tiles of rows, each warp with loads of kAhead
/// steps under way.
template <LibraryNumbers kNumbers, int kRowTiles, int kTiles>
struct SkinnyProduct {
  static constexpr bool kCooperates = true;
  static constexpr bool kStartsEarly = true;
  static constexpr int kMaxThreads = kSkinnyWarps * kWarpLen;
  static constexpr int kAhead = kRowTiles * kTiles <= 2 ? 4 : 2;
  static constexpr int kBlockChannels = kTiles * kChannels;
  static constexpr int kSumStride = kBlockChannels + 4;  // so that a warp's stores lie in different banks
  using Part = SkinnyPart<kNumbers, kRowTiles>;
  static constexpr int kBlockRows = Part::kBlockRows;
  static constexpr int kWarpSums = kBlockRows * kSumStride;

  ProductArguments a;

  [[nodiscard]] LaunchShape shape(int /*n_multiprocessors*/) const {
    return {{ceil_div(a.w.n_out, kBlockChannels), ceil_div(a.n_rows, kBlockRows), 1},
            kMaxThreads,
            SharedBytes().add<typename Part::Sum>(kSkinnyWarps * kWarpSums).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    auto* shared_sums = context.template shared<typename Part::Sum>(kSkinnyWarps * kWarpSums);
    const int n_steps = skinny_steps(kNumbers, a.w.n_in);
    const Place place = place_of(context);
    typename Part::TileSums sums[kTiles] = {};
    SkinnyWords weights[kAhead][kTiles][2];
    BASS_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      load_weights(context, place, context.warp() + i * kSkinnyWarps, n_steps, weights[i]);
    }
    context.wait_for_input();  // of which the weights are no part
    for (int base = context.warp(); base < n_steps; base += kAhead * kSkinnyWarps) {
      BASS_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const int step = base + i * kSkinnyWarps;
        if (step >= n_steps) break;  // the same for the whole warp
        SkinnyWords rows[kRowTiles];
        BASS_UNROLL
        for (int r = 0; r < kRowTiles; ++r) rows[r] = *Part::at(place.rows[r], step);
        BASS_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) Part::add_step(context, weights[i][tile], rows, sums[tile]);
        load_weights(context, place, step + kAhead * kSkinnyWarps, n_steps, weights[i]);
      }
    }
    BASS_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      Part::lay_sums(context.lane(), sums[tile], shared_sums + context.warp() * kWarpSums + tile * kChannels,
                     kSumStride);
    }
    context.sync();
    for (int i = context.thread(); i < kBlockRows * kBlockChannels; i += kMaxThreads) {
      const int row = i / kBlockChannels, channel = i % kBlockChannels;
      Part::store(a, shared_sums + row * kSumStride + channel, kWarpSums, context.block().y * kBlockRows + row,
                  context.block().x * kBlockChannels + channel);
    }
  }

 private:
  /// Where a lane reads: of channel lane / 4 + 8 half of each tile, and of row lane / 4 of each tile of rows.
  struct Place {
    const std::byte* channels[kTiles][2];
    const std::byte* rows[kRowTiles];
  };

  template <class Context>
  BASS_HD Place place_of(const Context& context) const {
    const int group = context.lane() / 4;
    Place place;
    BASS_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int channel = context.block().x * kBlockChannels + i * 8 + group;
      place.channels[i / 2][i % 2] = Part::channel_words(a, channel, context.lane());
    }
    BASS_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      place.rows[i] = Part::row_words(a, context.block().y * kBlockRows + i * kSkinnyRows + group, context.lane());
    }
    return place;
  }

  template <class Context>
  BASS_HD static void load_weights(const Context& context, const Place& place, int step, int n_steps,
                                   SkinnyWords (&weights)[kTiles][2]) {
    if (step >= n_steps) return;
    BASS_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      weights[i / 2][i % 2] = context.load_once(Part::at(place.channels[i / 2][i % 2], step));
    }
  }
};

/// A block computes every grid.x-th tile of channels for all rows, which are no more than kRowTiles tiles: each warp
/// keeps its steps of them, kSteps at most, in registers, so that next to the weights nothing is read. Weights of
/// kAhead steps are under way, at a tile's end those of the next one.
template <LibraryNumbers kNumbers, int kRowTiles, int kSteps>
struct ResidentProduct {
  static constexpr bool kCooperates = true;
  static constexpr bool kStartsEarly = true;
  static constexpr int kMaxThreads = kSkinnyWarps * kWarpLen;
  static constexpr int kAhead = kRowTiles * kSteps > 8 ? 2 : 4;
  static_assert(kSteps % kAhead == 0);
  static constexpr int kSumStride = kChannels + 4;
  using Part = SkinnyPart<kNumbers, kRowTiles>;
  static constexpr int kWarpSums = Part::kBlockRows * kSumStride;

  static constexpr bool fits(int n_rows, int n_in) {
    return n_rows <= Part::kBlockRows && skinny_steps(kNumbers, n_in) <= kSteps * kSkinnyWarps;
  }

  ProductArguments a;

  [[nodiscard]] LaunchShape shape(int n_multiprocessors) const {
    return {{a.w.n_tiles() < n_multiprocessors ? a.w.n_tiles() : n_multiprocessors, 1, 1},
            kMaxThreads,
            SharedBytes().add<typename Part::Sum>(2 * kSkinnyWarps * kWarpSums).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    auto* shared_sums = context.template shared<typename Part::Sum>(2 * kSkinnyWarps * kWarpSums);
    const int n_steps = skinny_steps(kNumbers, a.w.n_in);
    SkinnyWords weights[kAhead][2], rows[kSteps][kRowTiles];
    Tile next = tile_at(context, context.block().x);
    BASS_UNROLL
    for (int i = 0; i < kAhead; ++i) load_weights(context, next, i, n_steps, weights[i]);
    context.wait_for_input();  // of which the weights are no part
    load_rows(context, n_steps, rows);
    for (int idx = context.block().x, turn = 0; idx < a.w.n_tiles(); idx += context.grid().x, turn ^= 1) {
      const Tile tile = next;
      next = tile_at(context, idx + context.grid().x);
      typename Part::TileSums sums = {};
      BASS_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        if (context.warp() + i * kSkinnyWarps < n_steps) {  // the same for the whole warp
          Part::add_step(context, weights[i % kAhead], rows[i], sums);
        }
        const bool is_next = i + kAhead >= kSteps;
        load_weights(context, is_next ? next : tile, (i + kAhead) % kSteps, n_steps, weights[i % kAhead]);
      }
      // Whoever still reads the sums of the tile in front reads the other half.
      typename Part::Sum* tile_sums = shared_sums + turn * kSkinnyWarps * kWarpSums;
      Part::lay_sums(context.lane(), sums, tile_sums + context.warp() * kWarpSums, kSumStride);
      context.sync();
      for (int i = context.thread(); i < Part::kBlockRows * kChannels; i += kMaxThreads) {
        const int row = i / kChannels, channel = i % kChannels;
        Part::store(a, tile_sums + row * kSumStride + channel, kWarpSums, row, idx * kChannels + channel);
      }
    }
  }

 private:
  /// Where a lane reads of a tile.
  struct Tile {
    const std::byte* channels[2];
    bool is_there;
  };
  template <class Context>
  BASS_HD Tile tile_at(const Context& context, int idx) const {
    const int channel = idx * kChannels + context.lane() / 4;
    return {{Part::channel_words(a, channel, context.lane()), Part::channel_words(a, channel + 8, context.lane())},
            idx < a.w.n_tiles()};
  }

  template <class Context>
  BASS_HD static void load_weights(const Context& context, const Tile& tile, int i, int n_steps,
                                   SkinnyWords (&weights)[2]) {
    const int step = context.warp() + i * kSkinnyWarps;
    if (!tile.is_there || step >= n_steps) return;
    for (int half = 0; half < 2; ++half) weights[half] = context.load_once(Part::at(tile.channels[half], step));
  }

  template <class Context>
  BASS_HD void load_rows(const Context& context, int n_steps, SkinnyWords (&rows)[kSteps][kRowTiles]) const {
    BASS_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      const std::byte* words = Part::row_words(a, r * kSkinnyRows + context.lane() / 4, context.lane());
      BASS_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        const int step = context.warp() + i * kSkinnyWarps;
        if (step < n_steps) rows[i][r] = *Part::at(words, step);
      }
    }
  }
};

// Skinny: by tiles of rows and of channels; Resident: by tiles of rows and steps.
#define BASS_SKINNY_KERNEL(Template, prefix, numbers, row_tiles, n)                     \
  struct prefix##x##row_tiles##x##n : Template<LibraryNumbers::numbers, row_tiles, n> { \
    static constexpr const char* kName = #prefix "_" #row_tiles "_" #n;                 \
  };
#define BASS_SKINNY_KERNELS_OF(suffix, numbers)                         \
  BASS_SKINNY_KERNEL(SkinnyProduct, Skinny##suffix, numbers, 1, 1)      \
  BASS_SKINNY_KERNEL(SkinnyProduct, Skinny##suffix, numbers, 1, 2)      \
  BASS_SKINNY_KERNEL(SkinnyProduct, Skinny##suffix, numbers, 2, 1)      \
  BASS_SKINNY_KERNEL(SkinnyProduct, Skinny##suffix, numbers, 2, 2)      \
  BASS_SKINNY_KERNEL(SkinnyProduct, Skinny##suffix, numbers, 4, 1)      \
  BASS_SKINNY_KERNEL(ResidentProduct, Resident##suffix, numbers, 1, 4)  \
  BASS_SKINNY_KERNEL(ResidentProduct, Resident##suffix, numbers, 1, 8)  \
  BASS_SKINNY_KERNEL(ResidentProduct, Resident##suffix, numbers, 1, 14) \
  BASS_SKINNY_KERNEL(ResidentProduct, Resident##suffix, numbers, 2, 4)
BASS_SKINNY_KERNELS_OF(Bf16, kBf16)
BASS_SKINNY_KERNELS_OF(Int8, kInt8)
BASS_SKINNY_KERNELS_OF(Fp8, kFp8)
#undef BASS_SKINNY_KERNELS_OF
#undef BASS_SKINNY_KERNEL

}  // namespace bass::cuda
