// BASS-PAD (section 3.2 of the paper): the sequences that decode or verify are one rectangle, padded to the longest
// draft and to the longest context. One kernel for Q K^T, one masked softmax, one for P V; padding is computed and
// thrown away. A prompt's chunks are never padded against: they go with AttendGrouped.
#pragma once

#include "kernels/cuda/attention/attend_kernels.h"
#include "kernels/cuda/attention/attend_values.h"

namespace bass::cuda {

/// The rectangle, found on the device.
struct PaddedShape {
  int32_t n_sequences = 0;  // that decode
  int32_t n_tiles = 0;      // of each
  int32_t n_chunks = 0;     // of each
};

/// A tile's scores of one chunk, as fragments.
struct ChunkScores {
  float s[16][kWarpLen];  // ScoreFragment's 16 numbers of each lane
};

/// Finds the rectangle. One block. sequences: [n_segments]
struct PlanPadded {
  static constexpr const char* kName = "plan_padded";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = true;

  DeviceBatch batch;
  int32_t group_size;
  PaddedShape* shape_out;
  int32_t* sequences;  // the segments that decode, in no particular order

  [[nodiscard]] LaunchShape shape() const {
    return {{1, 1, 1}, kMaxThreads, SharedBytes().add<PaddedShape>(1).bytes()};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    auto* found = context.template shared<PaddedShape>(1);
    if (context.thread() == 0) *found = {};
    context.sync();
    for (int i = context.thread(); i < batch.n_segments; i += kMaxThreads) {
      const DeviceSegment& segment = batch.segments[i];
      if (segment.is_decode == 0 || segment.n_rows == 0) continue;
      sequences[context.atomic_add(&found->n_sequences, 1)] = i;
      context.atomic_max(&found->n_tiles, n_tiles_of(segment, group_size));
      context.atomic_max(&found->n_chunks, n_chunks_of(segment.start + segment.n_rows));
    }
    context.sync();
    if (context.thread() == 0) *shape_out = *found;
  }
};

/// What the three kernels have in common.
struct PaddedArguments {
  AttentionArguments args;
  const PaddedShape* shape;
  const int32_t* sequences;
  ChunkScores* scores;    // [n_kv_heads, max_chunks]
  ChunkWeights* weights;  // the same
  int64_t max_chunks;     // room, of tiles and chunks of all sequences

  /// Tile `idx` of the rectangle; its rows may all be padding.
  [[nodiscard]] BASS_HD AttentionTile tile(int idx) const {
    AttentionTile tile = segment_tile(args, sequences[idx / shape->n_tiles], idx % shape->n_tiles);
    if (tile.n_rows < 0) tile.n_rows = 0;
    tile.first_chunk = 0;
    tile.end_chunk = shape->n_chunks;
    tile.weights = idx * shape->n_chunks;
    return tile;
  }
  [[nodiscard]] BASS_HD bool has_tile(int idx) const { return idx < shape->n_sequences * shape->n_tiles; }
  [[nodiscard]] BASS_HD int64_t place(const AttentionTile& tile, int chunk, int kv_head) const {
    return kv_head * max_chunks + tile.weights + chunk;
  }
  [[nodiscard]] Index3 grid(int max_sequences, int max_rows, int max_blocks_of_chunks) const {
    return {max_sequences * ceil_div(max_rows * args.group_size(), kTileRows), args.kv.n_kv_heads,
            max_blocks_of_chunks};
  }
};

/// Q K^T. Grid: tiles, n_kv_heads, kAttentionWarps chunks a block. kFloats: the cache's.
template <bool kFloats>
struct PaddedScoresKernel {
  static constexpr const char* kName = "padded_scores";
  static constexpr int kMaxThreads = kAttentionThreads;
  static constexpr bool kCooperates = true;

  PaddedArguments padded;

  [[nodiscard]] LaunchShape shape(int max_sequences, int max_rows, int max_chunks) const {
    const DeviceKv& kv = padded.args.kv;
    SharedBytes bytes;
    QueryMemory::count(bytes, kv.head_dim);
    bytes.add<std::byte>(kAttentionWarps * StagedKeys::n_bytes(kv.head_dim, kv.numbers));
    return {padded.grid(max_sequences, max_rows, ceil_div(max_chunks, kAttentionWarps)), kAttentionThreads,
            bytes.bytes()};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    if (!padded.has_tile(context.block().x)) return;
    const AttentionTile tile = padded.tile(context.block().x);
    const int kv_head = context.block().y;
    const TileWork work{padded.args, {}, kNoTokenList, tile, kv_head};
    with_head_type<kFloats>(padded.args.kv, [&](const auto& heads) { score(context, heads, work); });
  }

 private:
  template <class Context, class Heads>
  BASS_HD void score(Context& context, const Heads& heads, const TileWork& work) const {
    const AttentionTile& tile = work.tile;
    const int chunk = context.block().z * kAttentionWarps + context.warp();
    const int key_bytes = StagedKeys::n_bytes(heads.dim(), Heads::kNumbers);
    const QueryMemory query = QueryMemory::allot(context, heads.dim());
    const StagedKeys keys{context.template shared<std::byte>(kAttentionWarps * key_bytes) + context.warp() * key_bytes};
    if (chunk < tile.end_chunk) {
      keys.stage(context, heads, pages_of(padded.args, tile, work.kv_head).of(chunk));
    }
    context.commit_copies();
    load_queries(context, heads, work, query);
    if (chunk >= tile.end_chunk) return;
    context.template wait_copies<0>();
    context.sync_warp();
    const ScoreFragment scores = chunk_scores(context, heads, query.bytes, query.scale, keys, work.n_halves());
    ChunkScores& out = padded.scores[padded.place(tile, chunk, work.kv_head)];
    BASS_UNROLL
    for (int i = 0; i < 16; ++i) out.s[i][context.lane()] = scores.s[i / 8][i / 4 % 2][i % 4];
  }
};
struct PaddedScores : PaddedScoresKernel<false> {};
struct PaddedFloatScores : PaddedScoresKernel<true> {};

/// The masked softmax, chunk by chunk. The same grid.
template <bool kFloats>
struct PaddedSoftmaxKernel {
  static constexpr const char* kName = "padded_softmax";
  static constexpr int kMaxThreads = kAttentionThreads;
  static constexpr bool kCooperates = true;

  PaddedArguments padded;

  [[nodiscard]] LaunchShape shape(int max_sequences, int max_rows, int max_chunks) const {
    return {padded.grid(max_sequences, max_rows, ceil_div(max_chunks, kAttentionWarps)), kAttentionThreads, 0};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    if (!padded.has_tile(context.block().x)) return;
    const AttentionArguments& args = padded.args;
    const AttentionTile tile = padded.tile(context.block().x);
    const int kv_head = context.block().y;
    const int chunk = context.block().z * kAttentionWarps + context.warp();
    if (chunk >= tile.end_chunk) return;
    SeenFragment seen;
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = context.lane() / 4 + 8 * half;
      seen.last[half] = -1;
      if (row < tile.n_rows) {
        seen.last[half] =
            args.batch.rows[row_of(tile, kNoTokenList, args.group_size(), kv_head, row).batch_row].position;
      }
      seen.first[half] = args.first_seen(seen.last[half]);
    }
    const int64_t place = padded.place(tile, chunk, kv_head);
    ScoreFragment scores;
    BASS_UNROLL
    for (int i = 0; i < 16; ++i) scores.s[i / 8][i / 4 % 2][i % 4] = padded.scores[place].s[i][context.lane()];
    const std::byte* page = pages_of(args, tile, kv_head).of(chunk);
    const int64_t plane_bytes = int64_t{kPageLen} * args.kv.head_dim * bytes_of(args.kv.numbers);
    const auto* v_scale = reinterpret_cast<const float*>(page + 2 * plane_bytes) + kPageLen;
    const int n_halves = tile.n_rows > kTileRows / 2 ? 2 : 1;
    with_numbers<kFloats>(args.kv.numbers, [&](const auto& cached) {
      constexpr KvNumbers kNumbers = std::decay_t<decltype(cached)>::kNumbers;
      const ChunkSoftmax softmax =
          chunk_softmax<kNumbers>(context, scores, seen, chunk * kPageLen, v_scale, args.kv.score_cap, n_halves);
      store_weights(context, softmax, n_halves, &padded.weights[place]);
    });
  }
};
struct PaddedSoftmax : PaddedSoftmaxKernel<false> {};
struct PaddedFloatSoftmax : PaddedSoftmaxKernel<true> {};

/// P V, merged chunk by chunk. Grid: tiles, n_kv_heads, slices of the head.
template <bool kFloats>
struct PaddedValuesKernel {
  static constexpr const char* kName = "padded_values";
  static constexpr int kMaxThreads = kAttentionThreads;
  static constexpr bool kCooperates = true;

  PaddedArguments padded;

  [[nodiscard]] LaunchShape shape(int max_sequences, int max_rows) const {
    const DeviceKv& kv = padded.args.kv;
    return {padded.grid(max_sequences, max_rows, n_slices_of(kv.head_dim, kv.numbers)), kAttentionThreads,
            ValueMemory::n_bytes(kv.numbers)};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    if (!padded.has_tile(context.block().x)) return;
    AttentionScratch scratch;
    scratch.weights = padded.weights;
    scratch.max_weights = static_cast<int32_t>(padded.max_chunks);
    const AttentionTile tile = padded.tile(context.block().x);
    const TileWork work{padded.args, scratch, kNoTokenList, tile, context.block().y};
    with_head_type<kFloats>(work.args.kv, [&](const auto& heads) {
      merge_slice(context, SharedRoom{context.template shared<std::byte>(0)}, heads, work, context.block().z);
    });
  }
};
struct PaddedValues : PaddedValuesKernel<false> {};
struct PaddedFloatValues : PaddedValuesKernel<true> {};

}  // namespace bass::cuda
