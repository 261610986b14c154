// The kernels of ragged attention that have a block for each tile: `split` and `split-grouped`.
#pragma once

#include "kernels/cuda/attention/attend_tile.h"

namespace bass::cuda {

/// Tokens lie in the batch as in their segment.
inline constexpr const int32_t* kNoTokenList = nullptr;

/// Blocks that share a multiprocessor: as many as its memory holds with heads of 128 int16.
inline constexpr int kBlocksInWork = 3;

/// A block for each tile of each KV head.
inline LaunchShape tiles_shape(const AttentionArguments& args, int n_tiles) {
  return {{n_tiles, args.kv.n_kv_heads, 1}, kAttentionThreads, TileMemory::n_bytes(args.kv)};
}

/// A tile from its queries to its results. All threads of the block come.
template <bool kFloats, class Context>
BASS_HD void attend_tile(Context& context, const TileWork& work) {
  const SharedRoom room{context.template shared<std::byte>(0)};
  with_head_type<kFloats>(work.args.kv, [&](const auto& heads) { attend_whole(context, room, heads, work); });
}

/// BASS-SPLIT: a launch a sequence. Grid: n_tiles_of its upper bound of rows, n_kv_heads. kFloats: the cache's.
template <bool kFloats>
struct SegmentKernel {
  static constexpr const char* kName = "attend_segment";
  static constexpr int kMaxThreads = kAttentionThreads;
  static constexpr int kMinBlocks = kBlocksInWork;
  static constexpr bool kCooperates = true;

  AttentionArguments args;
  int32_t segment;

  [[nodiscard]] LaunchShape shape(int max_rows) const {
    return tiles_shape(args, ceil_div(max_rows * args.group_size(), kTileRows));
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    if (context.block().x >= n_tiles_of(args.batch.segments[segment], args.group_size())) return;
    const AttentionTile tile = segment_tile(args, segment, context.block().x);
    attend_tile<kFloats>(context, {args, {}, kNoTokenList, tile, context.block().y});
  }
};
struct AttendSegment : SegmentKernel<false> {};
struct AttendFloatSegment : SegmentKernel<true> {};

/// The place of `idx` among ranges [begins[i], begins[i + 1]), i < n: the range, which is not empty.
BASS_HD int find_range(const int32_t* begins, int n, int idx) {
  int low = 0;
  int high = n;  // begins[low] <= idx < begins[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (begins[middle] <= idx) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Prefix sums of the segments' tiles, by one block. tile_begins: [n_segments + 1]
struct CountTiles {
  static constexpr const char* kName = "count_tiles";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = true;

  DeviceBatch batch;
  int32_t group_size;
  int32_t leaves_out_decode;  // BASS-PAD attends to those by kernels of its own
  int32_t* tile_begins;

  [[nodiscard]] LaunchShape shape() const {
    return {{1, 1, 1}, kMaxThreads, SharedBytes().add<int32_t>(kMaxThreads).bytes()};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    auto* counts = context.template shared<int32_t>(kMaxThreads);
    const int thread = context.thread();
    int32_t in_front = 0;
    for (int base = 0; base < batch.n_segments; base += kMaxThreads) {
      const int i = base + thread;
      counts[thread] = i < batch.n_segments ? tiles_of(i) : 0;
      context.sync();
      for (int step = 1; step < kMaxThreads; step *= 2) {
        const int32_t other = thread >= step ? counts[thread - step] : 0;
        context.sync();
        counts[thread] += other;
        context.sync();
      }
      if (i < batch.n_segments) tile_begins[i + 1] = in_front + counts[thread];
      in_front += counts[kMaxThreads - 1];
      context.sync();
    }
    if (thread == 0) tile_begins[0] = 0;
  }

 private:
  [[nodiscard]] BASS_HD int tiles_of(int i) const {
    const DeviceSegment& segment = batch.segments[i];
    return leaves_out_decode != 0 && segment.is_decode != 0 ? 0 : n_tiles_of(segment, group_size);
  }
};

/// Every sequence on its own, all in one launch: a block finds its tile in the prefix sums. Grid: an upper bound of the
/// tiles, n_kv_heads. kFloats: the cache's.
template <bool kFloats>
struct GroupedKernel {
  static constexpr const char* kName = "attend_grouped";
  static constexpr int kMaxThreads = kAttentionThreads;
  static constexpr int kMinBlocks = kBlocksInWork;
  static constexpr bool kCooperates = true;

  AttentionArguments args;
  const int32_t* tile_begins;  // [n_segments + 1]

  [[nodiscard]] LaunchShape shape(int max_tiles) const { return tiles_shape(args, max_tiles); }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int idx = context.block().x;
    if (idx >= tile_begins[args.batch.n_segments]) return;
    const int segment = find_range(tile_begins, args.batch.n_segments, idx);
    const AttentionTile tile = segment_tile(args, segment, idx - tile_begins[segment]);
    attend_tile<kFloats>(context, {args, {}, kNoTokenList, tile, context.block().y});
  }
};
struct AttendGrouped : GroupedKernel<false> {};
struct AttendFloatGrouped : GroupedKernel<true> {};

}  // namespace bass::cuda
