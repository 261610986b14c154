// A block's work on one tile and KV head. Four warps take a chunk each, from its keys to its rounded weights; then
// every warp merges all four into its own dimensions of the rows, which stay in its registers.
//
// Keys and values come by asynchronous copies, a warp its own chunk's: the next chunk's keys while values are merged,
// its values while scores are computed. So a block always has bytes on the way, about half of what its shared memory
// holds.
#pragma once

#include "kernels/cuda/attention/running_rows.h"

namespace bass::cuda {

/// Chunks in work: of heads of more than 256 bytes fewer, which leaves a block of them room on smaller GPUs.
BASS_HD int n_slots_of(int head_dim, KvNumbers numbers) {
  return head_dim * bytes_of(numbers) > 256 ? kMaxSlots / 2 : kMaxSlots;
}

/// Shared memory of a block: queries, and of each slot keys, values and weights.
struct TileMemory {
  QueryMemory query;
  std::byte* keys;
  std::byte* values;
  ChunkWeights* weights;  // [kMaxSlots]
  int32_t n_slots;

  template <class Heads, class Allocator>
  BASS_HD static TileMemory allot(Allocator& memory, const Heads& heads) {
    TileMemory tile;
    tile.n_slots = n_slots_of(heads.dim(), Heads::kNumbers);
    tile.query = QueryMemory::allot(memory, heads.dim());
    tile.keys = memory.template shared<std::byte>(tile.n_slots * StagedKeys::n_bytes(heads.dim(), Heads::kNumbers));
    tile.values = memory.template shared<std::byte>(tile.n_slots * StagedValues::n_bytes(heads.dim(), Heads::kNumbers));
    tile.weights = memory.template shared<ChunkWeights>(kMaxSlots);
    return tile;
  }
  static size_t n_bytes(const DeviceKv& kv) {
    const int n_slots = n_slots_of(kv.head_dim, kv.numbers);
    SharedBytes bytes;
    QueryMemory::count(bytes, kv.head_dim);
    bytes.add<std::byte>(n_slots * StagedKeys::n_bytes(kv.head_dim, kv.numbers));
    bytes.add<std::byte>(n_slots * StagedValues::n_bytes(kv.head_dim, kv.numbers));
    return bytes.add<ChunkWeights>(kMaxSlots).bytes();
  }

  template <class Heads>
  [[nodiscard]] BASS_HD StagedKeys keys_of(const Heads& heads, int slot) const {
    return {keys + slot * StagedKeys::n_bytes(heads.dim(), Heads::kNumbers)};
  }
  template <class Heads>
  [[nodiscard]] BASS_HD StagedValues values_of(const Heads& heads, int slot) const {
    return {values + slot * StagedValues::n_bytes(heads.dim(), Heads::kNumbers), heads.dim()};
  }
};

/// This warp's weights of one chunk, whose keys are there.
template <class Heads, class Context>
BASS_HD ChunkSoftmax attend_chunk(Context& context, const Heads& heads, const TileWork& work, const QueryMemory& query,
                                  const StagedKeys& keys, int chunk) {
  const ScoreFragment scores = chunk_scores(context, heads, query.bytes, query.scale, keys, work.n_halves());
  return chunk_softmax<Heads::kNumbers>(context, scores, query.seen(context), chunk * kPageLen, keys.v_scales(heads),
                                        work.args.kv.score_cap, work.n_halves());
}

/// Writes a chunk's weights, to shared memory or for a values kernel.
template <class Context>
BASS_HD void store_weights(Context& context, const ChunkSoftmax& chunk, int n_halves, ChunkWeights* out) {
  const int group = context.lane() / 4;
  const RowParts& weights = chunk.weights;
  BASS_UNROLL
  for (int half = 0; half < 2; ++half) {
    if (half >= n_halves) break;
    HalfWeights& rows = out->half[half];
    rows.bytes[context.lane()] = {{weights.first.word[half], weights.first.word[2 + half], weights.second.word[half],
                                   weights.second.word[2 + half]}};
    if (context.lane() % 4 != 0) continue;
    rows.m[group] = chunk.m[half];
    rows.l[group] = chunk.l[half];
    rows.u[group] = chunk.u[half];
  }
}

/// Weights of a run of a cut tile. Warps do not meet, each has one chunk's keys in work and the next's on the way.
template <class Heads, class Context>
BASS_HD void weigh_run(Context& context, SharedRoom room, const Heads heads, const TileWork& work) {
  const TileMemory memory = TileMemory::allot(room, heads);
  const ChunkPages pages = pages_of(work.args, work.tile, work.kv_head);
  const AttentionTile& tile = work.tile;
  const bool has_slot = context.warp() < memory.n_slots;
  // Keys and scales take as much as values whose rows are farther apart.
  const StagedKeys places[2] = {memory.keys_of(heads, context.warp()), {memory.values_of(heads, context.warp()).bytes}};
  const auto stage = [&](int chunk, const StagedKeys& keys) {
    if (has_slot && chunk < tile.end_chunk) keys.stage(context, heads, pages.of(chunk));
    context.commit_copies();
  };
  int chunk = tile.first_chunk + context.warp();
  stage(chunk, places[0]);
  stage(chunk + memory.n_slots, places[1]);
  load_queries(context, heads, work, memory.query);
  if (!has_slot) return;
  for (int i = 0; chunk < tile.end_chunk; chunk += memory.n_slots, i ^= 1) {
    const StagedKeys keys = i == 0 ? places[0] : places[1];
    context.template wait_copies<1>();
    context.sync_warp();
    store_weights(context, attend_chunk(context, heads, work, memory.query, keys, chunk), work.n_halves(),
                  work.weights_of(chunk - tile.first_chunk));
    context.sync_warp();
    stage(chunk + 2 * memory.n_slots, keys);
  }
}

/// A tile from its queries to its results or its state.
template <class Heads, class Context>
BASS_HD void attend_whole(Context& context, SharedRoom room, const Heads heads, const TileWork& work) {
  constexpr int kColumns = 2;
  constexpr int kUnits = ceil_div(Heads::kMaxDim, 8 * kColumns * kAttentionWarps);
  const TileMemory memory = TileMemory::allot(room, heads);
  const ChunkPages pages = pages_of(work.args, work.tile, work.kv_head);
  const AttentionTile& tile = work.tile;
  const HeadSlice slice{0, heads.dim()};
  const bool has_slot = context.warp() < memory.n_slots;
  const int slot = has_slot ? context.warp() : 0;
  const StagedKeys keys = memory.keys_of(heads, slot);
  const StagedValues values = memory.values_of(heads, slot);
  const auto page_of = [&](int chunk) { return has_slot && chunk < tile.end_chunk ? pages.of(chunk) : nullptr; };
  const auto stage_keys = [&](const std::byte* page) {
    if (page != nullptr) keys.stage(context, heads, page);
    context.commit_copies();
  };
  const auto stage_values = [&](const std::byte* page) {
    if (page != nullptr) values.template stage<Heads::kMaxDim>(context, heads, page, 0);
    context.commit_copies();
  };
  const std::byte* page = page_of(tile.first_chunk + context.warp());
  stage_keys(page);
  stage_values(page);
  page = page_of(tile.first_chunk + memory.n_slots + context.warp());
  load_queries(context, heads, work, memory.query);
  RunningRows<kUnits, kColumns> rows;
  rows.open(context, work, slice);
  for (int base = tile.first_chunk; base < tile.end_chunk; base += memory.n_slots) {
    const int n_chunks = tile.end_chunk - base < memory.n_slots ? tile.end_chunk - base : memory.n_slots;
    if (Heads::kUnroll == 1) context.begin_anew();  // places of many dimensions would take too many registers
    context.template wait_copies<1>();              // the keys
    context.sync_warp();
    if (context.warp() < n_chunks) {
      store_weights(context, attend_chunk(context, heads, work, memory.query, keys, base + context.warp()),
                    work.n_halves(), memory.weights + context.warp());
    }
    context.sync_warp();
    stage_keys(page);
    context.template wait_copies<1>();  // the values
    context.sync();
    rows.merge(context, heads, {memory.weights, memory.values, n_chunks}, heads.dim(), work.n_halves());
    context.sync();
    stage_values(page);
    page = page_of(base + 2 * memory.n_slots + context.warp());
  }
  rows.close(context, work, slice);
}

}  // namespace bass::cuda
