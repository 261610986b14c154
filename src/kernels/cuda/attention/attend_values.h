// Values of chunks that have their weights, for a slice of the head a block: few tiles then fill a GPU.
#pragma once

#include "kernels/cuda/attention/running_rows.h"

namespace bass::cuda {

/// Of a slice; the last one may have fewer. A unit a warp.
inline constexpr int kSliceDims = kUnitDims * kAttentionWarps;
BASS_HD constexpr int n_slices_of(int head_dim) { return ceil_div(head_dim, kSliceDims); }

/// Shared memory of a block: of each stage kMaxSlots chunks' weights and values. One is merged, the others are on their
/// way.
struct ValueMemory {
  static constexpr int kStages = 3;

  ChunkWeights* weights;  // [kStages, kMaxSlots]
  std::byte* values;      // the same
  int32_t slot_bytes;     // of values

  template <class Context>
  BASS_HD static ValueMemory allot(Context& memory, int number_bytes) {
    ValueMemory values;
    values.slot_bytes = StagedValues::n_bytes(kSliceDims, number_bytes);
    values.weights = memory.template shared<ChunkWeights>(kStages * kMaxSlots);
    values.values = memory.template shared<std::byte>(kStages * kMaxSlots * values.slot_bytes);
    return values;
  }
  static size_t n_bytes(int number_bytes) {
    constexpr int kSlots = kStages * kMaxSlots;
    return SharedBytes()
        .add<ChunkWeights>(kSlots)
        .add<std::byte>(kSlots * StagedValues::n_bytes(kSliceDims, number_bytes))
        .bytes();
  }
};

/// The rest of a tile whose chunks have their weights, going on from the state that its first chunks left (or, where
/// tile.goes_on is 0, from nothing). All threads of the block come.
template <class Heads, class Context>
BASS_HD void merge_slice(Context& context, const Heads& heads, const TileWork& work, int slice_idx) {
  constexpr int kWeightUnits = static_cast<int>(sizeof(ChunkWeights)) / kUnitBytes;
  const ValueMemory memory = ValueMemory::allot(context, Heads::kNumberBytes);
  const ChunkPages pages = pages_of(work.args, work.tile.segment, work.kv_head);
  const AttentionTile& tile = work.tile;
  const int first_dim = slice_idx * kSliceDims;
  const HeadSlice slice{first_dim, heads.dim() - first_dim < kSliceDims ? heads.dim() - first_dim : kSliceDims};
  const int n_bytes = StagedValues::n_bytes(slice.n, Heads::kNumberBytes);
  const auto stage = [&](int chunk, int idx) {
    if (chunk < tile.end_chunk) {
      const int slot = idx * kMaxSlots + context.warp();
      copy_units<kWeightUnits>(context, reinterpret_cast<std::byte*>(memory.weights + slot),
                               reinterpret_cast<const std::byte*>(work.weights_of(chunk - tile.first_chunk)),
                               kWeightUnits);
      const StagedValues values{memory.values + idx * kMaxSlots * memory.slot_bytes + context.warp() * n_bytes,
                                slice.n};
      values.template stage<kSliceDims>(context, heads, pages.of(chunk), slice.first);
    }
    context.commit_copies();
  };
  const int first = tile.first_chunk + context.warp();
  stage(first, 0);
  stage(first + kMaxSlots, 1);
  RunningRows<1> rows;
  rows.open(context, work, slice);
  int idx = 0;
  for (int base = tile.first_chunk; base < tile.end_chunk; base += kMaxSlots) {
    const int n_chunks = tile.end_chunk - base < kMaxSlots ? tile.end_chunk - base : kMaxSlots;
    context.template wait_copies<ValueMemory::kStages - 2>();
    context.sync();  // and all have merged what was in the stage that is filled now
    stage(base + 2 * kMaxSlots + context.warp(), idx == 0 ? ValueMemory::kStages - 1 : idx - 1);
    rows.merge(context, heads,
               {memory.weights + idx * kMaxSlots, memory.values + idx * kMaxSlots * memory.slot_bytes, n_chunks},
               slice.n, work.n_halves());
    idx = idx + 1 < ValueMemory::kStages ? idx + 1 : 0;
  }
  rows.close(context, work, slice);
}

template <class Context>
BASS_HD void attend_values(Context& context, const TileWork& work, int slice_idx) {
  with_head_type(work.args.kv, [&](const auto& heads) { merge_slice(context, heads, work, slice_idx); });
}

}  // namespace bass::cuda
