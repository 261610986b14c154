// A tile's queries in shared memory, and where a tile's rows are read and written.
#pragma once

#include "kernels/cuda/attention/chunk_products.h"

namespace bass::cuda {

/// A block's tile and KV head, and what it reads and writes.
struct TileWork {
  const AttentionArguments& args;
  AttentionScratch scratch;
  const int32_t* tokens;
  const AttentionTile& tile;
  int32_t kv_head;

  /// 1: no rows from 8 on.
  [[nodiscard]] BASS_HD int n_halves() const { return tile.n_rows > kTileRows / 2 ? 2 : 1; }
  [[nodiscard]] BASS_HD TileRow row(int x) const { return row_of(tile, tokens, args.group_size(), kv_head, x); }
  [[nodiscard]] BASS_HD const float* query_of(int x) const {
    const TileRow place = row(x);
    return args.q + int64_t{place.batch_row} * args.q_stride + place.head * args.kv.head_dim;
  }
  [[nodiscard]] BASS_HD float* result_of(int x) const {
    const TileRow place = row(x);
    return args.out + (int64_t{place.batch_row} * args.kv.n_heads + place.head) * args.kv.head_dim;
  }
  [[nodiscard]] BASS_HD float* state_of(int x) const {
    const int64_t n_rows = int64_t{scratch.n_tokens} * args.group_size();
    const int64_t place = kv_head * n_rows + int64_t{tile.tokens_begin} * args.group_size() + tile.first_row + x;
    return scratch.states + place * state_len(args.kv.head_dim);
  }
  /// Where the weights of the tile's chunk `idx` go.
  [[nodiscard]] BASS_HD ChunkWeights* weights_of(int idx) const {
    return scratch.weights + int64_t{kv_head} * scratch.max_weights + tile.weights + idx;
  }
};

/// A tile's queries in shared memory, rounded as the CPU's.
struct QueryMemory {
  RowBytes* bytes;  // query_byte, or query_float
  float* scale;     // [kTileRows] fl(s_q c), or c
  int32_t* last;    // [kTileRows] SeenFragment's
  int32_t* first;

  template <class Allocator>
  BASS_HD static QueryMemory allot(Allocator& memory, int head_dim) {
    QueryMemory query;
    query.bytes = memory.template shared<RowBytes>(query_words(head_dim) / 4);
    query.scale = memory.template shared<float>(kTileRows);
    query.last = memory.template shared<int32_t>(kTileRows);
    query.first = memory.template shared<int32_t>(kTileRows);
    return query;
  }
  static void count(SharedBytes& bytes, int head_dim) {
    bytes.add<RowBytes>(query_words(head_dim) / 4)
        .add<float>(kTileRows)
        .add<int32_t>(kTileRows)
        .add<int32_t>(kTileRows);
  }
  template <class Context>
  BASS_HD SeenFragment seen(Context& context) const {
    const int group = context.lane() / 4;
    return {{last[group], last[group + 8]}, {first[group], first[group + 8]}};
  }
};

/// A row's query as 16 lanes have it, of which each has every sixteenth number, 0 behind the last.
template <class Heads>
struct QueryPart {
  static constexpr int kLen = n_k_steps(Heads::kMaxDim) * 32 / kLanes;
  float x[kLen];
};

/// Rounds a query by its 2-norm, squares summed in 16 lanes (kernels.h, write_kv), and returns the scale.
template <class Heads, class Context>
BASS_HD float round_query(Context& context, const Heads& heads, const QueryPart<Heads>& part, int row,
                          const QueryMemory& query) {
  const int lane = context.lane() % kLanes;
  float squares = 0;
  BASS_UNROLL
  for (int i = 0; i < part.kLen; ++i) {
    if (i * kLanes < heads.dim()) squares = fmaf(part.x[i], part.x[i], squares);
  }
  const float size = sqrtf(sum_16_lanes(context, squares));
  const bool is_zero = !(size > kSmallestScaled);
  const float inverse = is_zero ? 0.0f : kInt16Steps / size;
  auto* bytes = reinterpret_cast<int8_t*>(query.bytes);
  BASS_UNROLL
  for (int i = 0; i < part.kLen; ++i) {
    const int d = lane + i * kLanes;
    if (d >= n_k_steps(heads.dim()) * 32) break;
    const int32_t rounded = round_to_int(part.x[i] * inverse);
    bytes[query_byte(row, d, 0)] = static_cast<int8_t>((rounded + 128) >> 8);
    bytes[query_byte(row, d, 1)] = static_cast<int8_t>(static_cast<uint8_t>(rounded & 255));
  }
  return is_zero ? 0.0f : size * (1.0f / kInt16Steps);
}
/// To the floats of the cache, which have no scale.
template <class Heads, class Context>
BASS_HD void round_float_query(Context& context, const Heads& heads, const QueryPart<Heads>& part, int row,
                               const QueryMemory& query) {
  auto* floats = reinterpret_cast<uint16_t*>(query.bytes);
  BASS_UNROLL
  for (int i = 0; i < part.kLen; ++i) {
    const int d = context.lane() % kLanes + i * kLanes;
    if (d >= n_k_steps(heads.dim()) * 32) break;
    floats[query_float(row, d)] = static_cast<uint16_t>(pair_of<Heads::kNumbers>(context, part.x[i], 0.0f));
  }
}

/// One row's query by 16 lanes. q: null: a row that is not there
template <class Heads, class Context>
BASS_HD void load_query(Context& context, const Heads& heads, const DeviceKv& kv, const float* q, int row,
                        const QueryMemory& query) {
  const int lane = context.lane() % kLanes;
  QueryPart<Heads> part;
  BASS_UNROLL
  for (int i = 0; i < part.kLen; ++i) {
    const int d = lane + i * kLanes;
    part.x[i] = q != nullptr && d < heads.dim() ? max_of(min_of(q[d], kLargestCached), -kLargestCached) : 0.0f;
  }
  float scale = 1;
  if constexpr (is_float(Heads::kNumbers)) {
    round_float_query(context, heads, part, row, query);
  } else {
    scale = round_query(context, heads, part, row, query);
  }
  if (lane == 0) query.scale[row] = scale * kv.score_factor;
}

template <class Heads, class Context>
BASS_HD void load_queries(Context& context, const Heads& heads, const TileWork& work, const QueryMemory& query) {
  for (int x = context.thread() / kLanes; x < work.n_halves() * kTileRows / 2; x += kAttentionThreads / kLanes) {
    const bool is_there = x < work.tile.n_rows;
    load_query(context, heads, work.args.kv, is_there ? work.query_of(x) : nullptr, x, query);
    if (context.lane() % kLanes != 0) continue;
    const int position = is_there ? work.args.batch.rows[work.row(x).batch_row].position : -1;
    query.last[x] = position;
    query.first[x] = work.args.first_seen(position);
  }
  context.sync();
}

}  // namespace bass::cuda
