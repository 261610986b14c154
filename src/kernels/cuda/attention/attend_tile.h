// A block's work on one tile and KV head: four warps take a chunk each, then the block merges the four in order.
#pragma once

#include "kernels/cuda/attention/chunk_products.h"

namespace bass::cuda {

inline constexpr int kRowThreads = kAttentionThreads / kTileRows;  // that merge one row
static_assert(kRowThreads == 8);

struct alignas(16) Float4 {
  float x[4];
};

/// Shared memory for sums of `n_dims` dimensions of a tile's rows.
struct MergeMemory {
  float* sums;  // [kAttentionWarps, kTileRows, n_dims + 4] of the chunks in work
  float* o;     // [kTileRows, n_dims + 4]
  float* m;     // [kAttentionWarps, kTileRows]
  float* l;
  float* u;
  int n_dims;

  // Four floats between the rows, so that lanes of one column lie in different banks.
  [[nodiscard]] BASS_HD int stride() const { return n_dims + 4; }
  [[nodiscard]] BASS_HD float* sum_row(int warp, int row) const { return sums + (warp * kTileRows + row) * stride(); }

  template <class Allocator>
  BASS_HD static MergeMemory allot(Allocator& memory, int n_dims) {
    MergeMemory merge;
    merge.n_dims = n_dims;
    merge.sums = memory.template shared<float>(kAttentionWarps * kTileRows * merge.stride());
    merge.o = memory.template shared<float>(kTileRows * merge.stride());
    merge.m = memory.template shared<float>(kAttentionWarps * kTileRows);
    merge.l = memory.template shared<float>(kAttentionWarps * kTileRows);
    merge.u = memory.template shared<float>(kAttentionWarps * kTileRows);
    return merge;
  }
  static void count(SharedBytes& bytes, int n_dims) {
    bytes.add<float>(kAttentionWarps * kTileRows * (n_dims + 4)).add<float>(kTileRows * (n_dims + 4));
    for (int i = 0; i < 3; ++i) bytes.add<float>(kAttentionWarps * kTileRows);
  }
};

/// A thread's row of a tile while chunks are merged into it; the row's eight threads know the same m and l.
struct MergedRow {
  int row = 0;   // of the tile
  int part = 0;  // merges the dimensions 4 (part + 8 i) + x
  bool is_there = false;
  TileRow place;
  float* state = nullptr;  // of the row, all dimensions
  float m = -kInf;
  float l = 0;
};

template <class Context>
BASS_HD MergedRow merged_row(Context& context, const AttentionArguments& args, const AttentionScratch& scratch,
                             const int32_t* tokens, const AttentionTile& tile, int kv_head) {
  MergedRow row;
  row.row = context.thread() / kRowThreads;
  row.part = context.thread() % kRowThreads;
  row.is_there = row.row < tile.n_rows;
  if (!row.is_there) return row;
  const int group_size = args.group_size();
  row.place = row_of(tile, tokens, group_size, kv_head, row.row);
  if (scratch.states == nullptr) return row;
  const int64_t place = int64_t{kv_head} * scratch.n_tokens * group_size + int64_t{tile.tokens_begin} * group_size +
                        tile.first_row + row.row;
  row.state = scratch.states + place * state_len(args.kv.head_dim);
  return row;
}

/// Starts a row with nothing, or with the dimensions [first_dim, first_dim + n_dims) of its state.
BASS_HD void open_row(const MergeMemory& merge, int head_dim, int first_dim, int goes_on, MergedRow* row) {
  const bool has_state = goes_on > 0 && row->is_there;
  float* o = merge.o + row->row * merge.stride();
  for (int d = 4 * row->part; d < merge.n_dims; d += 4 * kRowThreads) {
    BASS_UNROLL
    for (int x = 0; x < 4; ++x) o[d + x] = has_state ? row->state[first_dim + d + x] : 0.0f;
  }
  if (!has_state) return;
  row->m = row->state[head_dim + 2 * (goes_on - 1)];
  row->l = row->state[head_dim + 2 * (goes_on - 1) + 1];
}

/// Merges the chunks of the first n_chunks warps into the row (kernels.h, "attend").
BASS_HD void merge_chunks(const MergeMemory& merge, int n_chunks, MergedRow* row) {
  float a[kAttentionWarps], new_sum[kAttentionWarps];
  BASS_UNROLL
  for (int c = 0; c < kAttentionWarps; ++c) {
    if (c >= n_chunks) break;
    const int i = c * kTileRows + row->row;
    const float m_chunk = merge.m[i];
    const float m_new = max_of(row->m, m_chunk);
    a[c] = exp2_f32(row->m - m_new);
    const float b = m_chunk > -kInf ? exp2_f32(m_chunk - m_new) : 0.0f;
    row->m = m_new;
    row->l = fmaf(merge.l[i], b, row->l * a[c]);
    new_sum[c] = merge.u[i] * b;
  }
  for (int d = 4 * row->part; d < merge.n_dims; d += 4 * kRowThreads) {
    Float4& o = *reinterpret_cast<Float4*>(merge.o + row->row * merge.stride() + d);
    Float4 sum = o;
    BASS_UNROLL
    for (int c = 0; c < kAttentionWarps; ++c) {
      if (c >= n_chunks) break;
      const Float4 chunk = *reinterpret_cast<const Float4*>(merge.sum_row(c, row->row) + d);
      BASS_UNROLL
      for (int x = 0; x < 4; ++x) sum.x[x] = fmaf(chunk.x[x], new_sum[c], sum.x[x] * a[c]);
    }
    o = sum;
  }
}

/// Writes the dimensions [first_dim, first_dim + n_dims) of the row's state or result.
BASS_HD void close_row(const AttentionArguments& args, const MergeMemory& merge, int first_dim, int leaves_state,
                       const MergedRow& row) {
  if (!row.is_there) return;
  const int head_dim = args.kv.head_dim;
  const float* o = merge.o + row.row * merge.stride();
  float* out = leaves_state > 0
                   ? row.state
                   : args.out + (int64_t{row.place.batch_row} * args.kv.n_heads + row.place.head) * head_dim;
  for (int d = 4 * row.part; d < merge.n_dims; d += 4 * kRowThreads) {
    BASS_UNROLL
    for (int x = 0; x < 4; ++x) out[first_dim + d + x] = leaves_state > 0 ? o[d + x] : o[d + x] / row.l + 0.0f;
  }
  if (leaves_state == 0 || row.part != 0 || first_dim != 0) return;
  row.state[head_dim + 2 * (leaves_state - 1)] = row.m;
  row.state[head_dim + 2 * (leaves_state - 1) + 1] = row.l;
}

/// A tile's queries in shared memory, rounded as the CPU's.
struct QueryMemory {
  int32_t* bytes;  // query_byte
  float* scale;    // [kTileRows] fl(s_q c)
  int32_t* last;   // [kTileRows] SeenFragment's
  int32_t* first;

  template <class Allocator>
  BASS_HD static QueryMemory allot(Allocator& memory, int head_dim) {
    QueryMemory query;
    query.bytes = memory.template shared<int32_t>(query_words(head_dim));
    query.scale = memory.template shared<float>(kTileRows);
    query.last = memory.template shared<int32_t>(kTileRows);
    query.first = memory.template shared<int32_t>(kTileRows);
    return query;
  }
  static void count(SharedBytes& bytes, int head_dim) {
    bytes.add<int32_t>(query_words(head_dim)).add<float>(kTileRows).add<int32_t>(kTileRows).add<int32_t>(kTileRows);
  }
  template <class Context>
  BASS_HD SeenFragment seen(Context& context) const {
    const int group = context.lane() / 4;
    return {{last[group], last[group + 8]}, {first[group], first[group + 8]}};
  }
};

/// One row's query by 16 lanes: rounded by its 2-norm, squares summed in 16 lanes (kernels.h, write_kv).
template <class Context>
BASS_HD void load_query(Context& context, const AttentionArguments& args, const float* q, int row, QueryMemory* query) {
  const int lane = context.lane() % kLanes;
  const int head_dim = args.kv.head_dim;
  float squares = 0;
  for (int d = lane; d < head_dim && q != nullptr; d += kLanes) {
    const float x = max_of(min_of(q[d], kLargestCached), -kLargestCached);
    squares = fmaf(x, x, squares);
  }
  const float size = sqrtf(sum_16_lanes(context, squares));
  const bool is_zero = !(size > kSmallestScaled);
  const float inverse = is_zero ? 0.0f : kInt16Steps / size;
  auto* bytes = reinterpret_cast<int8_t*>(query->bytes);
  for (int d = lane; d < n_k_steps(head_dim) * 32; d += kLanes) {
    const bool is_there = q != nullptr && d < head_dim;
    const float x = is_there ? max_of(min_of(q[d], kLargestCached), -kLargestCached) : 0.0f;
    const int32_t rounded = round_to_int(x * inverse);
    bytes[query_byte(row, d, 0)] = static_cast<int8_t>((rounded + 128) >> 8);
    bytes[query_byte(row, d, 1)] = static_cast<int8_t>(static_cast<uint8_t>(rounded & 255));
  }
  if (lane == 0) query->scale[row] = (is_zero ? 0.0f : size * (1.0f / kInt16Steps)) * args.kv.score_factor;
}

template <class Context>
BASS_HD void load_queries(Context& context, const AttentionArguments& args, const int32_t* tokens,
                          const AttentionTile& tile, int kv_head, QueryMemory* query) {
  for (int row = context.thread() / kLanes; row < kTileRows; row += kAttentionThreads / kLanes) {
    const bool is_there = row < tile.n_rows;
    const TileRow place = is_there ? row_of(tile, tokens, args.group_size(), kv_head, row) : TileRow{};
    const float* q =
        is_there ? args.q + int64_t{place.batch_row} * args.q_stride + place.head * args.kv.head_dim : nullptr;
    load_query(context, args, q, row, query);
    if (context.lane() % kLanes != 0) continue;
    const int position = is_there ? args.batch.rows[place.batch_row].position : -1;
    query->last[row] = position;
    query->first[row] = args.first_seen(position);
  }
  context.sync();
}

BASS_HD const float* v_scales(const DeviceKv& kv, const std::byte* page_head) {
  return reinterpret_cast<const float*>(page_head + int64_t{2} * kPageLen * kv.head_dim * kv.number_bytes) + kPageLen;
}

/// This warp's weights of one chunk.
template <class Context>
BASS_HD ChunkSoftmax attend_chunk(Context& context, const AttentionArguments& args, const QueryMemory& query,
                                  const std::byte* page_head, int chunk) {
  const ScoreFragment scores = chunk_scores(context, query.bytes, query.scale, args.kv, page_head);
  return chunk_softmax(context, scores, query.seen(context), chunk * kPageLen, v_scales(args.kv, page_head),
                       args.kv.score_cap);
}

/// This warp's part of the chunks in work: m, l, u of its rows, and the sums of [first_dim, first_dim + n_dims).
template <class Context>
BASS_HD void lay_chunk(Context& context, const AttentionArguments& args, const ChunkSoftmax& chunk,
                       const std::byte* page_head, int first_dim, const MergeMemory& merge) {
  const int group = context.lane() / 4;
  const int t = context.lane() % 4;
  BASS_UNROLL
  for (int half = 0; half < 2 && t == 0; ++half) {
    const int i = context.warp() * kTileRows + group + 8 * half;
    merge.m[i] = chunk.m[half];
    merge.l[i] = chunk.l[half];
    merge.u[i] = chunk.u[half];
  }
  for (int d = 0; d < merge.n_dims; d += 16) {
    const ValueFragment values = chunk_values(context, chunk.weights, args.kv, page_head, first_dim + d);
    BASS_UNROLL
    for (int half = 0; half < 2; ++half) {
      float* row = merge.sum_row(context.warp(), group + 8 * half);
      *reinterpret_cast<Float4*>(row + d + 4 * t) = {
          {values.sum[half][0], values.sum[half][1], values.sum[half][2], values.sum[half][3]}};
    }
  }
}

/// Writes a chunk's weights for a values kernel.
template <class Context>
BASS_HD void store_weights(Context& context, const ChunkSoftmax& chunk, ChunkWeights* out) {
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) {
    out->high[i][context.lane()] = chunk.weights.high[i];
    out->low[i][context.lane()] = chunk.weights.low[i];
  }
  BASS_UNROLL
  for (int half = 0; half < 2 && context.lane() % 4 == 0; ++half) {
    const int row = context.lane() / 4 + 8 * half;
    out->m[row] = chunk.m[half];
    out->l[row] = chunk.l[half];
    out->u[row] = chunk.u[half];
  }
}

template <class Context>
BASS_HD ChunkSoftmax load_weights(Context& context, const ChunkWeights& in) {
  ChunkSoftmax chunk;
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) {
    chunk.weights.high[i] = in.high[i][context.lane()];
    chunk.weights.low[i] = in.low[i][context.lane()];
  }
  BASS_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = context.lane() / 4 + 8 * half;
    chunk.m[half] = in.m[row];
    chunk.l[half] = in.l[row];
    chunk.u[half] = in.u[row];
  }
  return chunk;
}

inline size_t tile_shared_bytes(int head_dim) {
  SharedBytes bytes;
  QueryMemory::count(bytes, head_dim);
  MergeMemory::count(bytes, head_dim);
  return bytes.bytes();
}

/// A tile from its queries to its results, its state or its weights. All threads of the block come.
template <class Context>
BASS_HD void attend_tile(Context& context, const AttentionArguments& args, const AttentionScratch& scratch,
                         const int32_t* tokens, const AttentionTile& tile, int kv_head) {
  QueryMemory query = QueryMemory::allot(context, args.kv.head_dim);
  const MergeMemory merge = MergeMemory::allot(context, args.kv.head_dim);
  load_queries(context, args, tokens, tile, kv_head, &query);
  if (tile.weights >= 0) {
    for (int chunk = tile.first_chunk + context.warp(); chunk < tile.end_chunk; chunk += kAttentionWarps) {
      const std::byte* page_head = args.page_head(tile.segment, chunk, kv_head);
      const int64_t place = int64_t{kv_head} * scratch.max_weights + tile.weights + chunk - tile.first_chunk;
      store_weights(context, attend_chunk(context, args, query, page_head, chunk), scratch.weights + place);
    }
    return;
  }
  MergedRow row = merged_row(context, args, scratch, tokens, tile, kv_head);
  open_row(merge, args.kv.head_dim, 0, tile.goes_on, &row);
  for (int base = tile.first_chunk; base < tile.end_chunk; base += kAttentionWarps) {
    const int chunk = base + context.warp();
    if (chunk < tile.end_chunk) {
      const std::byte* page_head = args.page_head(tile.segment, chunk, kv_head);
      lay_chunk(context, args, attend_chunk(context, args, query, page_head, chunk), page_head, 0, merge);
    }
    context.sync();
    merge_chunks(merge, tile.end_chunk - base < kAttentionWarps ? tile.end_chunk - base : kAttentionWarps, &row);
    context.sync();
  }
  close_row(args, merge, 0, tile.leaves_state, row);
}

/// The rest of a tile whose chunks have their weights: dimensions [first_dim, first_dim + n_dims), going on from the
/// state that its first chunks left (or, where tile.goes_on is 0, from nothing).
template <class Context>
BASS_HD void attend_values(Context& context, const AttentionArguments& args, const AttentionScratch& scratch,
                           const int32_t* tokens, const AttentionTile& tile, int kv_head, int first_dim, int n_dims) {
  const MergeMemory merge = MergeMemory::allot(context, n_dims);
  MergedRow row = merged_row(context, args, scratch, tokens, tile, kv_head);
  open_row(merge, args.kv.head_dim, first_dim, tile.goes_on, &row);
  for (int base = tile.first_chunk; base < tile.end_chunk; base += kAttentionWarps) {
    const int chunk = base + context.warp();
    if (chunk < tile.end_chunk) {
      const int64_t place = int64_t{kv_head} * scratch.max_weights + tile.weights + chunk - tile.first_chunk;
      lay_chunk(context, args, load_weights(context, scratch.weights[place]),
                args.page_head(tile.segment, chunk, kv_head), first_dim, merge);
    }
    context.sync();
    merge_chunks(merge, tile.end_chunk - base < kAttentionWarps ? tile.end_chunk - base : kAttentionWarps, &row);
    context.sync();
  }
  close_row(args, merge, first_dim, tile.leaves_state, row);
}

}  // namespace bass::cuda
