// The plan of `fused`, made on the device: which tiles there are, what is read for several sequences at once, and what
// is cut so that few sequences with long contexts still fill a GPU.
//
//  - Sequences that decode and begin with the same pages (n samples of one prompt) are a group: the chunks that all of
//    them have are attended to by tiles of all their rows, which leave their running softmax; the members' own tiles go
//    on from there. As these wait for those, chunks are shared only if there are many.
//  - Tiles of many more chunks than a block has on average are cut into runs of kRunChunks: the first leaves its
//    running softmax, the others leave their rounded weights (an eighth of what sums would take), and items of values
//    merge those chunks, a slice of the head each.
// So there are three stages: first tiles, values of cut tiles, the groups' own tiles. Every row meets every one of its
// chunks once, and in ascending order.
#pragma once

#include "kernels/cuda/attention/attend_kernels.h"
#include "kernels/cuda/attention/attend_values.h"

namespace bass::cuda {

/// Chunks of a run of a cut tile: 256 positions.
inline constexpr int kRunChunks = 8;

enum FusedStage : int { kFirstTiles = 0, kValueTiles = 1, kLateTiles = 2 };
inline constexpr int kFusedStages = 3;

/// Counters of a plan: items that were drawn, and what tiles wait for, [idx, n_kv_heads]: idx of a group its leader, of
/// a cut tile n_segments + its index among the value tiles. They begin with 0 and go on from layer to layer.
enum FusedCounter : int { kDrawnItems = 0, kFirstCounter = 1 };

/// Memory of the device, owned by the caller.
struct FusedPlan {
  int32_t* tokens = nullptr;                // [n_rows] rows of the batch, the members of a group side by side
  AttentionTile* tiles[kFusedStages] = {};  // [max_tiles] each
  int32_t* n_tiles = nullptr;               // [kFusedStages]
  uint32_t* counters = nullptr;             // [max_fused_counters]
  int32_t max_weights = 0;                  // chunks that may leave weights
};

/// A host's upper bound of the tiles of any stage.
inline int max_fused_tiles(int n_rows, int n_segments, int group_size, int max_weights) {
  return 2 * (ceil_div(n_rows * group_size, kTileRows) + n_segments) + ceil_div(max_weights, kRunChunks);
}

inline int max_fused_counters(int max_tiles, int n_segments, int n_kv_heads) {
  return kFirstCounter + (n_segments + max_tiles) * n_kv_heads;
}

/// What is known of a segment while the plan is made.
struct PlannedSegment {
  int32_t leader = 0;        // the lowest segment that begins with the same page; itself if there is none
  int32_t n_members = 0;     // of a leader's group
  int32_t n_shared = 0;      // chunks that all members have; of a leader
  int32_t first_shared = 0;  // the first of them that some member sees; of a leader
  int32_t n_tokens = 0;      // of all members; of a leader
  int32_t place = 0;         // of its first row in FusedPlan::tokens
  int32_t n_tiles[kFusedStages] = {};
  int32_t begins[kFusedStages] = {};
  int32_t n_weights = 0;
  int32_t weights_begin = 0;
  int32_t n_chunks = 0;  // of its tiles of the first stage, not cut
};

inline constexpr int kNeverCut = INT32_MAX;

/// What a tile of the first stage leaves when it is done, whether or not it was cut.
struct FirstTile {
  int32_t state;     // which m and l
  int32_t n_raises;  // of its counter
};

/// Appends tiles to the stages, or only counts them.
struct TileWriter {
  const FusedPlan* plan;  // null: counts only
  int32_t longest;        // chunks of a tile that is not cut
  int32_t n_segments;
  int32_t n_slices;
  int32_t n[kFusedStages];
  int32_t n_weights;
  int32_t n_chunks;

  BASS_HD void add(FusedStage stage, const AttentionTile& tile) {
    if (plan != nullptr) plan->tiles[stage][n[stage]] = tile;
    ++n[stage];
  }

  /// A tile of the first stage, in runs if it is long.
  BASS_HD FirstTile add_first(const AttentionTile& tile, bool may_be_cut) {
    n_chunks += tile.end_chunk - tile.first_chunk;
    if (may_be_cut && tile.end_chunk - tile.first_chunk > longest) {
      add_cut(tile);
      return {2, n_slices};
    }
    add(kFirstTiles, tile);
    return {1, 1};
  }

 private:
  BASS_HD void add_cut(const AttentionTile& tile) {
    AttentionTile values = tile;
    values.first_chunk = tile.first_chunk + kRunChunks;
    values.weights = n_weights;
    values.goes_on = 1;
    values.leaves_state = tile.leaves_state > 0 ? 2 : 0;
    values.awaits = n_segments + n[kValueTiles];
    values.n_awaited = ceil_div(tile.end_chunk - tile.first_chunk, kRunChunks);
    AttentionTile run = tile;
    run.raises = values.awaits;
    run.leaves_state = 1;
    run.end_chunk = values.first_chunk;
    add(kFirstTiles, run);
    for (int begin = values.first_chunk; begin < tile.end_chunk; begin += kRunChunks) {
      run.first_chunk = begin;
      run.end_chunk = begin + kRunChunks < tile.end_chunk ? begin + kRunChunks : tile.end_chunk;
      run.weights = n_weights + begin - values.first_chunk;
      add(kFirstTiles, run);
    }
    add(kValueTiles, values);
    n_weights += tile.end_chunk - values.first_chunk;
  }
};

/// One block plans. Grid: 1.
struct PlanFused {
  static constexpr const char* kName = "plan_fused";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = true;

  AttentionArguments args;  // of any layer with this window
  FusedPlan plan;
  int32_t n_blocks;         // among which the work is divided; 0: nothing is cut
  int64_t min_saved_bytes;  // of the cache: a group shares if that spares it the reading of so many

  /// Segments that a block's memory has room for.
  static int max_segments(size_t shared_bytes) {
    const size_t rest = SharedBytes().add<PlannedSegment>(1).add<int32_t>(1).bytes();  // with what is rounded up
    return static_cast<int>((shared_bytes - rest) / sizeof(PlannedSegment));
  }

  [[nodiscard]] LaunchShape shape() const {
    return {{1, 1, 1}, kMaxThreads, SharedBytes().add<PlannedSegment>(args.batch.n_segments).add<int32_t>(1).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    auto* planned = context.template shared<PlannedSegment>(args.batch.n_segments);
    auto* decisions = context.template shared<int32_t>(1);
    const int n = args.batch.n_segments;
    for (int i = context.thread(); i < n; i += kMaxThreads) open(i, &planned[i]);
    context.sync();
    for (int i = context.thread(); i < n; i += kMaxThreads) join(context, i, planned);
    context.sync();
    for (int i = context.thread(); i < n; i += kMaxThreads) lay_tokens(i, planned);
    context.sync();
    count_all(context, planned, kNeverCut);
    if (context.thread() == 0) decisions[0] = longest_of(planned);
    context.sync();
    int longest = decisions[0];
    if (longest < kNeverCut) {
      count_all(context, planned, longest);
      const bool has_room = planned[n - 1].weights_begin + planned[n - 1].n_weights <= plan.max_weights;
      if (!has_room) longest = kNeverCut;
      context.sync();
      if (!has_room) count_all(context, planned, longest);
    }
    for (int i = context.thread(); i < n; i += kMaxThreads) {
      TileWriter writer = writer_of(&plan, longest);
      writer.n_weights = planned[i].weights_begin;
      for (int stage = 0; stage < kFusedStages; ++stage) writer.n[stage] = planned[i].begins[stage];
      add_tiles(i, planned, &writer);
    }
    const int n_counters = kFirstCounter + (n + plan.n_tiles[kValueTiles]) * args.kv.n_kv_heads;
    for (int i = context.thread(); i < n_counters; i += kMaxThreads) plan.counters[i] = 0;
  }

 private:
  [[nodiscard]] BASS_HD const DeviceSegment& segment(int i) const { return args.batch.segments[i]; }
  [[nodiscard]] BASS_HD int32_t page(int i, int chunk) const { return args.batch.pages[segment(i).first_page + chunk]; }
  [[nodiscard]] BASS_HD bool may_share(int i) const {
    return segment(i).is_decode != 0 && segment(i).start >= kPageLen;
  }

  BASS_HD void open(int i, PlannedSegment* planned) const {
    *planned = {};
    planned->leader = i;
    for (int j = 0; j < i && may_share(i) && segment(i).n_rows > 0; ++j) {
      if (!may_share(j) || segment(j).n_rows == 0 || page(j, 0) != page(i, 0)) continue;
      planned->leader = j;
      break;
    }
    planned->n_shared = segment(i).start / kPageLen;
    planned->first_shared = args.first_seen(segment(i).start) / kPageLen;
  }

  /// Leaders learn what their group has in common.
  template <class Context>
  BASS_HD void join(Context& context, int i, PlannedSegment* planned) const {
    const int leader = planned[i].leader;
    context.atomic_add(&planned[leader].n_members, 1);
    context.atomic_add(&planned[leader].n_tokens, segment(i).n_rows);
    if (leader == i) return;
    const int limit = segment(i).start < segment(leader).start ? segment(i).start : segment(leader).start;
    int n_shared = 0;
    while (n_shared < limit / kPageLen && page(i, n_shared) == page(leader, n_shared)) ++n_shared;
    context.atomic_min(&planned[leader].n_shared, n_shared);
    context.atomic_min(&planned[leader].first_shared, args.first_seen(segment(i).start) / kPageLen);
  }

  /// Groups in the order of their leaders, members in ascending order.
  BASS_HD void lay_tokens(int i, PlannedSegment* planned) const {
    int place = 0;
    for (int j = 0; j < args.batch.n_segments; ++j) {
      const int leader = planned[j].leader;
      const bool is_in_front = leader < planned[i].leader || (leader == planned[i].leader && j < i);
      place += is_in_front ? segment(j).n_rows : 0;
    }
    planned[i].place = place;
    for (int k = 0; k < segment(i).n_rows; ++k) plan.tokens[place + k] = segment(i).first_row + k;
  }

  [[nodiscard]] BASS_HD TileWriter writer_of(const FusedPlan* out, int longest) const {
    return {out, longest, args.batch.n_segments, n_slices_of(args.kv.head_dim, args.kv.numbers), {}, 0, 0};
  }

  template <class Context>
  BASS_HD void count_all(Context& context, PlannedSegment* planned, int longest) const {
    for (int i = context.thread(); i < args.batch.n_segments; i += kMaxThreads) {
      TileWriter writer = writer_of(nullptr, longest);
      add_tiles(i, planned, &writer);
      for (int stage = 0; stage < kFusedStages; ++stage) planned[i].n_tiles[stage] = writer.n[stage];
      planned[i].n_weights = writer.n_weights;
      planned[i].n_chunks = writer.n_chunks;
    }
    context.sync();
    if (context.thread() == 0) add_up(planned);
    context.sync();
  }

  /// Tiles are cut that are more than twice as long as what each block has to do.
  [[nodiscard]] BASS_HD int longest_of(const PlannedSegment* planned) const {
    if (n_blocks == 0) return kNeverCut;
    int64_t n_chunks = 0;
    for (int i = 0; i < args.batch.n_segments; ++i) n_chunks += planned[i].n_chunks;
    const int64_t longest = 2 * n_chunks * args.kv.n_kv_heads / n_blocks;
    return longest > kRunChunks ? static_cast<int>(longest) : kRunChunks;
  }

  /// Prefix sums.
  BASS_HD void add_up(PlannedSegment* planned) const {
    int begins[kFusedStages] = {};
    int weights = 0;
    for (int i = 0; i < args.batch.n_segments; ++i) {
      for (int stage = 0; stage < kFusedStages; ++stage) {
        planned[i].begins[stage] = begins[stage];
        begins[stage] += planned[i].n_tiles[stage];
      }
      planned[i].weights_begin = weights;
      weights += planned[i].n_weights;
    }
    for (int stage = 0; stage < kFusedStages; ++stage) plan.n_tiles[stage] = begins[stage];
  }

  [[nodiscard]] BASS_HD bool shares(const PlannedSegment& leader) const {
    const int n_saved = (leader.n_members - 1) * (leader.n_shared - leader.first_shared);
    return n_saved > 0 && n_saved * args.kv.n_kv_heads * args.kv.head_bytes >= min_saved_bytes;
  }

  BASS_HD void add_tiles(int i, const PlannedSegment* planned, TileWriter* writer) const {
    const PlannedSegment& leader = planned[planned[i].leader];
    const int group_size = args.group_size();
    FirstTile shared{};
    if (shares(leader)) shared = add_shared(i, planned, writer);
    for (int idx = 0; idx < n_tiles_of(segment(i), group_size); ++idx) {
      AttentionTile tile = segment_tile(args, i, idx);
      tile.tokens_begin = planned[i].place;
      if (!shares(leader)) {
        writer->add_first(tile, segment(i).is_decode != 0);
        continue;
      }
      tile.goes_on = shared.state;
      tile.awaits = planned[i].leader;
      tile.n_awaited = shared.n_raises * ceil_div(leader.n_tokens * group_size, kTileRows);
      if (tile.first_chunk < leader.n_shared) tile.first_chunk = leader.n_shared;
      writer->add(kLateTiles, tile);
    }
  }

  /// The tiles of a group's shared chunks, written by its leader; every member learns what they leave.
  BASS_HD FirstTile add_shared(int i, const PlannedSegment* planned, TileWriter* writer) const {
    const PlannedSegment& leader = planned[planned[i].leader];
    const DeviceSegment& first_segment = segment(planned[i].leader);
    AttentionTile tile;
    tile.first_page = first_segment.first_page;
    tile.n_pages = n_chunks_of(first_segment.start + first_segment.n_rows);
    tile.tokens_begin = leader.place;
    tile.first_chunk = leader.first_shared;
    tile.end_chunk = leader.n_shared;
    tile.leaves_state = 1;
    tile.raises = planned[i].leader;
    if (planned[i].leader != i) {
      TileWriter dry = writer_of(nullptr, writer->longest);
      return dry.add_first(tile, true);
    }
    FirstTile left{};
    const int n_rows = leader.n_tokens * args.group_size();
    for (int first = 0; first < n_rows; first += kTileRows) {
      tile.first_row = first;
      tile.n_rows = n_rows - first < kTileRows ? n_rows - first : kTileRows;
      left = writer->add_first(tile, true);
    }
    return left;
  }
};

}  // namespace bass::cuda
