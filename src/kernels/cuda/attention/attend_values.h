// Values of chunks that have their weights, for a slice of the head a block: few tiles then fill a GPU.
#pragma once

#include "kernels/cuda/attention/running_rows.h"

namespace bass::cuda {

/// Dimensions of a slice: a line of memory of a pair of positions. The last slice may have fewer. A warp has one unit,
/// of one column of int16 or two of int8.
BASS_HD constexpr int slice_dims(KvNumbers numbers) { return kLineUnits * kUnitBytes / (2 * bytes_of(numbers)); }
BASS_HD constexpr int n_slices_of(int head_dim, KvNumbers numbers) { return ceil_div(head_dim, slice_dims(numbers)); }

/// Shared memory of a block: of each stage kMaxSlots chunks' weights and values. One is merged, the others are on their
/// way.
struct ValueMemory {
  static constexpr int kStages = 4;

  ChunkWeights* weights;  // [kStages, kMaxSlots]
  std::byte* values;      // the same
  int32_t slot_bytes;     // of values

  template <class Allocator>
  BASS_HD static ValueMemory allot(Allocator& memory, KvNumbers numbers) {
    ValueMemory values;
    values.slot_bytes = StagedValues::n_bytes(slice_dims(numbers), numbers);
    values.weights = memory.template shared<ChunkWeights>(kStages * kMaxSlots);
    values.values = memory.template shared<std::byte>(kStages * kMaxSlots * values.slot_bytes);
    return values;
  }
  static size_t n_bytes(KvNumbers numbers) {
    constexpr int kSlots = kStages * kMaxSlots;
    return SharedBytes()
        .add<ChunkWeights>(kSlots)
        .add<std::byte>(kSlots * StagedValues::n_bytes(slice_dims(numbers), numbers))
        .bytes();
  }
};

/// The rest of a tile whose chunks have their weights, going on from the state that its first chunks left (or, where
/// tile.goes_on is 0, from nothing). All threads of the block come.
template <class Heads, class Context>
BASS_HD void merge_slice(Context& context, SharedRoom room, const Heads heads, const TileWork& work, int slice_idx) {
  constexpr int kDims = slice_dims(Heads::kNumbers);
  constexpr int kColumns = kDims / (8 * kAttentionWarps);
  const ValueMemory memory = ValueMemory::allot(room, Heads::kNumbers);
  const ChunkPages pages = pages_of(work.args, work.tile, work.kv_head);
  const AttentionTile& tile = work.tile;
  const int first_dim = slice_idx * kDims;
  const HeadSlice slice{first_dim, heads.dim() - first_dim < kDims ? heads.dim() - first_dim : kDims};
  const int n_bytes = StagedValues::n_bytes(slice.n, Heads::kNumbers);
  const auto stage = [&](int chunk, int idx) {
    if (chunk < tile.end_chunk) {
      ChunkWeights* weights = memory.weights + idx * kMaxSlots + context.warp();
      const ChunkWeights* from = work.weights_of(chunk - tile.first_chunk);
      copy_units<sizeof(ChunkWeights) / kUnitBytes>(context, reinterpret_cast<std::byte*>(weights),
                                                    reinterpret_cast<const std::byte*>(from),
                                                    work.n_halves() * int{sizeof(HalfWeights) / kUnitBytes});
      const StagedValues values{memory.values + idx * kMaxSlots * memory.slot_bytes + context.warp() * n_bytes,
                                slice.n};
      values.template stage<kDims>(context, heads, pages.of(chunk), slice.first);
    }
    context.commit_copies();
  };
  constexpr int kAhead = ValueMemory::kStages - 1;
  BASS_UNROLL
  for (int i = 0; i < kAhead; ++i) stage(tile.first_chunk + i * kMaxSlots + context.warp(), i);
  RunningRows<1, kColumns> rows;
  rows.open(context, work, slice);
  for (int base = tile.first_chunk, idx = 0; base < tile.end_chunk; base += kMaxSlots, idx = (idx + 1) % (kAhead + 1)) {
    const int n_chunks = tile.end_chunk - base < kMaxSlots ? tile.end_chunk - base : kMaxSlots;
    context.template wait_copies<kAhead - 1>();
    context.sync();  // and all have merged what was in the stage that is filled now
    stage(base + kAhead * kMaxSlots + context.warp(), (idx + kAhead) % (kAhead + 1));
    rows.merge(context, heads,
               {memory.weights + idx * kMaxSlots, memory.values + idx * kMaxSlots * memory.slot_bytes, n_chunks},
               slice.n, work.n_halves());
  }
  rows.close(context, work, slice);
}

}  // namespace bass::cuda
