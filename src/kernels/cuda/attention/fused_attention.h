// `fused`: one launch a layer. Its blocks draw items - a planned tile, a KV head and, of values, a slice - until there
// are none, so that the GPU is full whatever the plan holds. What an item needs of others, a state or weights, it waits
// for; items are drawn in an order in which those come first, so whoever is waited for is at work already.
#pragma once

#include "kernels/cuda/attention/attend_values.h"
#include "kernels/cuda/attention/fused_plan.h"

namespace bass::cuda {

/// Of the room that every item allots anew.
inline int32_t item_bytes_of(const DeviceKv& kv) {
  const size_t tile = TileMemory::n_bytes(kv);
  const size_t values = ValueMemory::n_bytes(kv.numbers);
  return static_cast<int32_t>(tile > values ? tile : values);
}

/// Which one an item is.
struct FusedItem {
  int32_t stage;
  int32_t tile;
  int32_t kv_head;
  int32_t slice;
};

/// What a block's first thread has drawn, in shared memory.
struct DrawnItem {
  AttentionTile tile;
  uint32_t idx;
  uint32_t n_items[kFusedStages];  // of the launch; registers are scarce

  [[nodiscard]] BASS_HD uint32_t n() const { return n_items[kFirstTiles] + n_items[kValueTiles] + n_items[kLateTiles]; }
};
static_assert(sizeof(DrawnItem) == 64);  // then three blocks with heads of 128 int16 fit a multiprocessor's memory

/// Grid: blocks that are at work at the same time, or fewer. A kernel for each type of heads, which have their own
/// needs of registers.
template <class Heads>
struct AttendFused {
  static constexpr const char* kName = "attend_fused";
  static constexpr int kMaxThreads = kAttentionThreads;
  static constexpr int kMinBlocks = kBlocksInWork;
  static constexpr bool kCooperates = true;

  AttentionArguments args;
  AttentionScratch scratch;
  FusedPlan plan;
  uint32_t n_before;   // launches since the plan was made, of grids of this size
  int32_t item_bytes;  // item_bytes_of

  [[nodiscard]] LaunchShape shape(int n_blocks) const {
    return {{n_blocks, 1, 1}, kAttentionThreads, SharedBytes().add<DrawnItem>(1).add<std::byte>(item_bytes).bytes()};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const Heads heads{args.kv.head_dim};
    DrawnItem& drawn = *context.template shared<DrawnItem>(1);
    const SharedRoom room{context.template shared<std::byte>(item_bytes)};
    if (context.thread() < kFusedStages) drawn.n_items[context.thread()] = n_items_of(context.thread());
    while (true) {
      if (context.thread() == 0) drawn.idx = context.atomic_add(plan.counters + kDrawnItems, uint32_t{1});
      context.sync();
      // Every block draws until there is nothing left, once in vain.
      const uint32_t n_draws = drawn.n() + static_cast<uint32_t>(context.grid().x);
      const uint32_t idx = drawn.idx - n_before * n_draws;
      if (idx >= drawn.n()) return;
      const FusedItem item = item_of(static_cast<int>(idx), drawn);
      copy_tile(context, item, &drawn.tile);
      context.sync_warp();
      if (context.thread() == 0 && drawn.tile.awaits >= 0) {
        const auto n_awaited = static_cast<uint32_t>(drawn.tile.n_awaited);
        context.await_count(plan.counters + drawn.tile.awaits, n_awaited * (n_before + 1));
      }
      context.sync();
      context.begin_anew();
      do_item(context, heads, {args, scratch, plan.tokens, drawn.tile, item.kv_head}, item, room);
      context.sync();
      if (context.thread() == 0 && drawn.tile.raises >= 0) context.raise(plan.counters + drawn.tile.raises);
    }
  }

 private:
  [[nodiscard]] BASS_HD int n_slices(int stage) const {
    return stage == kValueTiles ? n_slices_of(args.kv.head_dim, Heads::kNumbers) : 1;
  }
  [[nodiscard]] BASS_HD uint32_t n_items_of(int stage) const {
    return static_cast<uint32_t>(plan.n_tiles[stage] * n_slices(stage) * args.kv.n_kv_heads);
  }

  /// By the first warp. The copy's counters are places in plan.counters.
  template <class Context>
  BASS_HD void copy_tile(Context& context, const FusedItem& item, AttentionTile* to) const {
    constexpr int kWords = sizeof(AttentionTile) / sizeof(int32_t);
    constexpr int kAwaits = offsetof(AttentionTile, awaits) / sizeof(int32_t);
    constexpr int kRaises = offsetof(AttentionTile, raises) / sizeof(int32_t);
    static_assert(kWords <= kWarpLen);
    const int i = context.thread();
    if (i >= kWords) return;
    int32_t word = reinterpret_cast<const int32_t*>(plan.tiles[item.stage] + item.tile)[i];
    if ((i == kAwaits || i == kRaises) && word >= 0) word = kFirstCounter + word * args.kv.n_kv_heads + item.kv_head;
    reinterpret_cast<int32_t*>(to)[i] = word;
  }

  [[nodiscard]] BASS_HD FusedItem item_of(int idx, const DrawnItem& drawn) const {
    int stage = kFirstTiles;
    for (; stage < kLateTiles && idx >= static_cast<int>(drawn.n_items[stage]); ++stage) {
      idx -= static_cast<int>(drawn.n_items[stage]);
    }
    const int in_tile = n_slices(stage) * args.kv.n_kv_heads;
    return {stage, idx / in_tile, idx % in_tile / n_slices(stage), idx % n_slices(stage)};
  }

  template <class Context>
  BASS_HD void do_item(Context& context, const Heads& heads, const TileWork& work, const FusedItem& item,
                       SharedRoom room) const {
    if (item.stage == kValueTiles) {
      merge_slice(context, room, heads, work, item.slice);
    } else if (work.tile.weights >= 0) {
      weigh_run(context, room, heads, work);
    } else {
      attend_whole(context, room, heads, work);
    }
  }
};

/// A kernel of the list, and the way to it from its type.
#define BASS_FUSED_KERNEL(Name, dim, numbers)                      \
  struct Name : AttendFused<HeadType<dim, KvNumbers::numbers>> {}; \
  inline Name listed(const AttendFused<HeadType<dim, KvNumbers::numbers>>& kernel) { return {kernel}; }
BASS_FUSED_KERNEL(AttendFused64, 64, kInt16)
BASS_FUSED_KERNEL(AttendFused80, 80, kInt16)
BASS_FUSED_KERNEL(AttendFused96, 96, kInt16)
BASS_FUSED_KERNEL(AttendFused128, 128, kInt16)
BASS_FUSED_KERNEL(AttendFusedAny, 0, kInt16)
BASS_FUSED_KERNEL(AttendBytes64, 64, kInt8)
BASS_FUSED_KERNEL(AttendBytes80, 80, kInt8)
BASS_FUSED_KERNEL(AttendBytes96, 96, kInt8)
BASS_FUSED_KERNEL(AttendBytes128, 128, kInt8)
BASS_FUSED_KERNEL(AttendBytesAny, 0, kInt8)
BASS_FUSED_KERNEL(AttendF16x64, 64, kF16)
BASS_FUSED_KERNEL(AttendF16x80, 80, kF16)
BASS_FUSED_KERNEL(AttendF16x96, 96, kF16)
BASS_FUSED_KERNEL(AttendF16x128, 128, kF16)
BASS_FUSED_KERNEL(AttendF16xAny, 0, kF16)
BASS_FUSED_KERNEL(AttendBf16x64, 64, kBf16)
BASS_FUSED_KERNEL(AttendBf16x80, 80, kBf16)
BASS_FUSED_KERNEL(AttendBf16x96, 96, kBf16)
BASS_FUSED_KERNEL(AttendBf16x128, 128, kBf16)
BASS_FUSED_KERNEL(AttendBf16xAny, 0, kBf16)
#undef BASS_FUSED_KERNEL

}  // namespace bass::cuda
