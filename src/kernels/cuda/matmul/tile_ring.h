// How many stages of weights a block of TileProduct has in shared memory.
#pragma once

#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

/// kSlotBytes: of a stage of one tile; kInputBytes: at most, of what else lies in shared memory; kLeastTiles,
/// kMostTiles: of a block. The tiles of a small matrix are one or two blocks a multiprocessor (an H200 has 132;
/// elsewhere only speed differs), which must have enough bytes under way by themselves; of larger ones four blocks, or
/// two of four tiles, share it. What a block may have at most is the least of GPUs from compute capability 8.0 on (8.6
/// and 8.9: 99 KiB).
template <int kSlotBytes, int kInputBytes, int kLeastTiles, int kMostTiles>
struct TileRing {
  static constexpr int kTilesAlone = 192;  // up to so many go to small blocks, so that all multiprocessors have some
  static constexpr int kFewBlocks = 264;
  static constexpr int kMostBytes = 98304;
  static constexpr int kTileBytesOfMany = 28416;

  BASS_HD static int block_tiles(int n_tiles) { return n_tiles <= kTilesAlone ? kLeastTiles : kMostTiles; }
  BASS_HD static int n_slots(int n_tiles) {
    if (n_tiles <= kTilesAlone) return kSlotsAlone;
    return n_tiles <= kFewBlocks * kMostTiles ? kSlotsOfFew : kSlotsOfMany;
  }

  /// Waits until the weights of the oldest stage have come.
  template <class Context>
  BASS_HD static void wait_oldest(Context& context, int n_slots) {
    if (n_slots == kSlotsAlone) {
      context.template wait_copies<kSlotsAlone - 2>();
    } else if (n_slots == kSlotsOfFew) {
      context.template wait_copies<kSlotsOfFew - 2>();
    } else {
      context.template wait_copies<kSlotsOfMany - 2>();
    }
  }

 private:
  static constexpr int slots_in(int n_bytes, int n_tiles) {
    constexpr int kLeast = 3, kMost = 9;
    const int n = ((n_bytes < kMostBytes ? n_bytes : kMostBytes) - kInputBytes) / (n_tiles * kSlotBytes);
    return n < kLeast ? kLeast : n < kMost ? n : kMost;
  }
  static constexpr int kSlotsAlone = slots_in(kMostBytes, kLeastTiles);
  static constexpr int kSlotsOfFew = slots_in(kMostBytes, kMostTiles);
  static constexpr int kSlotsOfMany = slots_in(kMostTiles * kTileBytesOfMany, kMostTiles);
};

}  // namespace bass::cuda
