// What the kernels of ragged attention work on. The arithmetic is the CPU's, stated in kernels/cpu/kernels.h
// ("attend"): a chunk is a page of 32 positions and gives (m, l, O) from exact integer sums; chunks are merged in
// ascending order. With a cache of floats, which a CPU does not have, they are float32 sums of one order.
//
// A *row* is one query head of one token. The rows of a KV head are packed as rows of tensor-core tiles: of a list of
// tokens, row x is the head x % group_size of token x / group_size. A *tile* is up to kTileRows of them and a range of
// chunks; where a row sees nothing of a chunk, the chunk changes nothing in it. So tiles may be cut and joined at will
// (pad, split, fused, shared prefixes) and the bits stay the same.
#pragma once

#include "kernels/cuda/step_rows.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

inline constexpr int kTileRows = 16;
/// The longest head: what a block's sums need in shared memory grows with it.
inline constexpr int kMaxGpuHeadDim = 256;
/// Warps of a block; each takes a chunk of its own, and the block merges them in order.
inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarpLen;

/// Up to kTileRows rows of one sequence, or of several whose pages of these chunks are the same, and for all KV heads.
struct AttentionTile {
  int32_t tokens_begin = 0;  // index into a list of rows of the batch; without a list: such a row
  int32_t first_row = 0;     // of the tokens behind tokens_begin: token * group_size + head of the group
  int32_t n_rows = 0;        // 1 .. kTileRows
  int32_t first_page = 0;    // of the page table that is read (DeviceSegment)
  int32_t n_pages = 0;       // of it that hold something
  int32_t first_chunk = 0;
  int32_t end_chunk = 0;
  int16_t goes_on = 0;       // from the state that its rows were left with (1 or 2: its m and l); 0: from nothing
  int16_t leaves_state = 0;  // 1 or 2: the running softmax, with this m and l; 0: the result is written
  int32_t weights = -1;      // >= 0: only the weights of its chunks are computed, and go here
  // Of `fused`, whose blocks wait for each other's results:
  int32_t awaits = -1;  // a counter that others have raised to n_awaited when this tile may be begun; -1: none
  int32_t n_awaited = 0;
  int32_t raises = -1;  // a counter that this tile raises by one for each of its items; -1: none
};

struct alignas(16) Float4 {
  float x[4];
};

/// Four registers of a lane, as lanes load and store them.
struct alignas(16) RowBytes {
  int32_t word[4];
};

/// Rounded weights of eight rows of a tile and one chunk, as they will be fed to the tensor cores.
struct HalfWeights {
  // Of each lane: of whole numbers the upper bytes of the positions 16 h + 4 t + x, h = 0 and 1, and the lower ones; of
  // floats the four of h = 0 and the four of h = 1.
  RowBytes bytes[kWarpLen];
  float m[kTileRows / 2];  // of each row: largest score, -inf where it sees nothing
  float l[kTileRows / 2];
  float u[kTileRows / 2];
};
/// Of a tile: whole numbers are 256 high + low, both signed bytes. The second half is anything where a tile has no rows
/// for it.
struct ChunkWeights {
  HalfWeights half[2];
};

/// One layer's attention over a batch. Memory of the device, owned by the caller.
struct AttentionArguments {
  DeviceKv kv;
  int64_t layer_offset = 0;  // bytes from a page's base to the layer's first head
  DeviceBatch batch;
  const float* q = nullptr;  // [n_rows, q_stride], of each the heads [n_heads, head_dim]
  int32_t q_stride = 0;
  int32_t window = 0;    // positions that a token sees, itself among them; 0: all
  float* out = nullptr;  // [n_rows, n_heads, head_dim]

  [[nodiscard]] BASS_HD int group_size() const { return kv.n_heads / kv.n_kv_heads; }
  [[nodiscard]] BASS_HD int first_seen(int position) const {
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
};

/// Room between kernels of one layer.
struct AttentionScratch {
  float* states = nullptr;          // [n_kv_heads, n_tokens * group_size, state_len(head_dim)] by place in `tokens`
  ChunkWeights* weights = nullptr;  // [n_kv_heads, max_weights]
  int32_t n_tokens = 0;
  int32_t max_weights = 0;
};

/// A row's running softmax: o [head_dim], m, l, and a second m, l: a values kernel's blocks read one and write the
/// other.
BASS_HD int state_len(int head_dim) { return head_dim + 4; }

BASS_HD int n_chunks_of(int n_positions) { return (n_positions + kPageLen - 1) / kPageLen; }

/// Row x of a tile: the token's row in the batch, and its query head.
struct TileRow {
  int32_t batch_row = 0;
  int32_t head = 0;
};
BASS_HD TileRow row_of(const AttentionTile& tile, const int32_t* tokens, int group_size, int kv_head, int x) {
  const int row = tile.first_row + x;
  const int token = tile.tokens_begin + row / group_size;
  return {tokens == nullptr ? token : tokens[token], kv_head * group_size + row % group_size};
}

/// The rows of one segment from tile `idx` on, alone: n_tiles_of(segment) tiles, all of its chunks.
BASS_HD int n_tiles_of(const DeviceSegment& segment, int group_size) {
  return ceil_div(segment.n_rows * group_size, kTileRows);
}
BASS_HD AttentionTile segment_tile(const AttentionArguments& args, int segment_idx, int idx) {
  const DeviceSegment& segment = args.batch.segments[segment_idx];
  const int group_size = args.group_size();
  AttentionTile tile;
  tile.tokens_begin = segment.first_row;
  tile.first_row = idx * kTileRows;
  tile.n_rows = segment.n_rows * group_size - tile.first_row;
  if (tile.n_rows > kTileRows) tile.n_rows = kTileRows;
  tile.first_page = segment.first_page;
  tile.n_pages = n_chunks_of(segment.start + segment.n_rows);
  tile.first_chunk = args.first_seen(segment.start + tile.first_row / group_size) / kPageLen;
  tile.end_chunk = n_chunks_of(segment.start + (tile.first_row + tile.n_rows - 1) / group_size + 1);
  return tile;
}

}  // namespace bass::cuda
