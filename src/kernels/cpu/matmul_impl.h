// Matrix products of packed weights with rows of activations (the arithmetic: kernels.h, the layouts: pack.h).
// Include after a simd_*.h. Every template instance gives the same bits for a row: only the number of rows that share
// a weight differs.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kGroupQuads = kGroupLen / 4;
inline constexpr size_t kQuadBytes = 64;  // 4 elements of 16 channels
inline constexpr size_t kPrefetchDistance = 8192;

/// Where a matmul writes.
struct MatmulOut {
  float* data;
  size_t stride;
  int first_channel;  // lies at data
  int n_out;
  bool accumulate;
};

BASS_SIMD_INLINE void store_tile_row(const MatmulOut& out, size_t row, int tile, F32x16 acc) {
  const int channel = tile * kTileLen;
  const int n_valid = out.n_out - channel;
  float* p = out.data + static_cast<ptrdiff_t>(row * out.stride) + (channel - out.first_channel);
  if (n_valid >= kTileLen) {
    store(p, out.accumulate ? add(load(p), acc) : acc);
  } else {
    store_partial(p, n_valid, out.accumulate ? add(load_partial(p, n_valid, 0.0f), acc) : acc);
  }
}

/// Quantised activations from some row on.
struct QuantRows {
  const int8_t* q;
  const float* scale;
  const int32_t* sum;
  const float* scaled_sum;
  size_t n_cols;    // of one plane
  size_t n_groups;  // stride of scale, sum and scaled_sum
};

/// What makes an unsigned dot product the signed one of the format: sum over w x = sum over (w + offset) x - offset
/// sum.
template <DType kType>
BASS_SIMD_INLINE int32_t dot_start(int32_t sum) {
  if constexpr (kType == DType::kQ8_0) return -128 * sum;
  if constexpr (kType == DType::kQ4_0) return -8 * sum;
  return 0;
}

/// idot of kRows rows with one group of one tile. q: this group in row 0, plane 0.
template <DType kType, int kPlanes, int kRows>
BASS_SIMD_INLINE void group_dots(const std::byte* quants, const QuantRows& x, size_t g, I32x16 (&idot)[kRows]) {
  constexpr bool kNibbles = kType != DType::kQ8_0;
  const int8_t* q = x.q + g * kGroupLen;
  const size_t row_stride = kPlanes * x.n_cols;
  I32x16 acc[kRows][kPlanes];
  int32_t start[kRows];
  for (int r = 0; r < kRows; ++r) {
    start[r] = kType == DType::kQ4_1 ? 0 : dot_start<kType>(x.sum[static_cast<size_t>(r) * x.n_groups + g]);
    for (int p = 0; p < kPlanes; ++p) {
      const int32_t plane_start = p == kPlanes - 1 ? start[r] : 0;
      acc[r][p] = kNibbles ? dot_u4s8_start(plane_start) : broadcast_i32(plane_start);
    }
  }
  const auto step = [&](I32x16 w, int quad) __attribute__((always_inline)) {
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPlanes; ++p) {
        const int8_t* xq = q + static_cast<size_t>(r) * row_stride + static_cast<size_t>(p) * x.n_cols + quad * 4;
        acc[r][p] = kNibbles ? dot_u4s8(acc[r][p], w, xq) : dot_u8s8(acc[r][p], w, xq);
      }
    }
  };
  if constexpr (kNibbles) {
    const I32x16 low_nibbles = broadcast_i32(0x0F0F0F0F);
#pragma GCC unroll 8
    for (int i = 0; i < kGroupQuads / 2; ++i) {
      const I32x16 packed = load_i32(quants + i * kQuadBytes);
      step(bit_and(packed, low_nibbles), i);
      step(bit_and(shift_right_logical<4>(packed), low_nibbles), i + kGroupQuads / 2);
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kGroupQuads; ++i) step(load_i32(quants + i * kQuadBytes), i);
  }
  for (int r = 0; r < kRows; ++r) {
    const I32x16 last = kNibbles ? dot_u4s8_finish(acc[r][kPlanes - 1], start[r]) : acc[r][kPlanes - 1];
    if constexpr (kPlanes == 1) {
      idot[r] = last;
    } else {
      idot[r] = add(shift_left<8>(kNibbles ? dot_u4s8_finish(acc[r][0], 0) : acc[r][0]), last);
    }
  }
}

/// One tile and a block of rows.
struct TileJob {
  const std::byte* tile_data;
  int tile;
  size_t first_row;
  // The first block of rows streams the weights: it asks for those that come kPrefetchDistance bytes later (tiles
  // follow one another), so that reading memory and computing overlap. The hardware's own prefetch stops at each page.
  bool prefetches;
};

template <DType kType, int kPlanes, int kRows>
void quant_tile(const TileJob& job, const QuantRows& x, const MatmulOut& out) {
  constexpr size_t kGroupBytes = packed_group_bytes(kType);
  constexpr size_t kLoadedBytes = kGroupBytes + kTileLen * (kType == DType::kQ4_1 ? 4 : 2);  // with scales and minima
  const std::byte* tile_data = job.tile_data;
  const auto* scales = reinterpret_cast<const uint16_t*>(tile_data + x.n_groups * kGroupBytes);
  const uint16_t* minima = scales + x.n_groups * kTileLen;
  F32x16 acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = zero_f32();
  for (size_t g = 0; g < x.n_groups; ++g) {
    const std::byte* quants = tile_data + g * kGroupBytes;
    if (job.prefetches) {
      const std::byte* ahead = tile_data + kPrefetchDistance + g * kLoadedBytes;
      for (size_t line = 0; line < kLoadedBytes; line += 64) prefetch(ahead + line);
    }
    I32x16 idot[kRows];
    group_dots<kType, kPlanes, kRows>(quants, x, g, idot);
    const F32x16 d_w = load_f16(scales + g * kTileLen);
    for (int r = 0; r < kRows; ++r) {
      const F32x16 d = mul(d_w, broadcast(x.scale[static_cast<size_t>(r) * x.n_groups + g]));
      acc[r] = fma(d, to_f32(idot[r]), acc[r]);
    }
    if constexpr (kType == DType::kQ4_1) {
      const F32x16 m_w = load_f16(minima + g * kTileLen);
      for (int r = 0; r < kRows; ++r) {
        acc[r] = fma(m_w, broadcast(x.scaled_sum[static_cast<size_t>(r) * x.n_groups + g]), acc[r]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) store_tile_row(out, job.first_row + static_cast<size_t>(r), job.tile, acc[r]);
}

template <DType kType, int kPlanes, int kRows>
BASS_SIMD_INLINE void quant_tile_rows(int n_rows, const TileJob& job, const QuantRows& x, const MatmulOut& out) {
  if constexpr (kRows == 1) {
    quant_tile<kType, kPlanes, 1>(job, x, out);
  } else if (n_rows == kRows) {
    quant_tile<kType, kPlanes, kRows>(job, x, out);
  } else {
    quant_tile_rows<kType, kPlanes, kRows - 1>(n_rows, job, x, out);
  }
}

/// First row of block `block_idx` when n_rows are divided into n_blocks of sizes that differ by at most one.
BASS_SIMD_INLINE size_t block_begin(int n_rows, int n_blocks, int block_idx) {
  return static_cast<size_t>(static_cast<int64_t>(n_rows) * block_idx / n_blocks);
}

template <DType kType, int kPlanes>
void quant_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, const MatmulOut& out) {
  constexpr int kMaxRows = kPlanes == 1 ? kMatmulRows : kMatmulRows / 2;
  const size_t tile_bytes = packed_tile_bytes(kType, w.n_in);
  const auto n_cols = static_cast<size_t>(x.n_cols);
  const size_t n_groups = static_cast<size_t>(w.n_in) / kGroupLen;
  const int n_blocks = (n_rows + kMaxRows - 1) / kMaxRows;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    const std::byte* tile_data = w.data + static_cast<size_t>(tile) * tile_bytes;
    for (int b = 0; b < n_blocks; ++b) {
      const size_t first = block_begin(n_rows, n_blocks, b);
      const auto n_block_rows = static_cast<int>(block_begin(n_rows, n_blocks, b + 1) - first);
      const QuantRows rows{x.q + first * kPlanes * n_cols,
                           x.scale + first * n_groups,
                           x.sum + first * n_groups,
                           x.scaled_sum + first * n_groups,
                           n_cols,
                           n_groups};
      quant_tile_rows<kType, kPlanes, kMaxRows>(n_block_rows, {tile_data, tile, first, b == 0}, rows, out);
    }
  }
}

template <DType kType>
BASS_SIMD_INLINE F32x16 load_weights(const std::byte* tile_data, size_t k) {
  if constexpr (kType == DType::kF32) return load(reinterpret_cast<const float*>(tile_data) + k * kTileLen);
  const uint16_t* p = reinterpret_cast<const uint16_t*>(tile_data) + k * kTileLen;
  return kType == DType::kF16 ? load_f16(p) : load_bf16(p);
}

/// kTiles neighbouring tiles x kRows rows: as many FMA chains in flight.
template <DType kType, int kTiles, int kRows>
void float_tiles(const PackedMatrix& w, const ActivationRows& x, size_t first_row, int first_tile,
                 const MatmulOut& out) {
  const size_t tile_bytes = packed_tile_bytes(kType, w.n_in);
  const std::byte* data = w.data + static_cast<size_t>(first_tile) * tile_bytes;
  const auto stride = static_cast<size_t>(x.n_cols);
  const float* rows = x.f32 + first_row * stride;
  F32x16 acc[kTiles][kRows];
  for (int t = 0; t < kTiles; ++t) {
    for (int r = 0; r < kRows; ++r) acc[t][r] = zero_f32();
  }
  for (size_t k = 0; k < static_cast<size_t>(w.n_in); ++k) {
    for (int t = 0; t < kTiles; ++t) {
      const F32x16 weights = load_weights<kType>(data + static_cast<size_t>(t) * tile_bytes, k);
      for (int r = 0; r < kRows; ++r) {
        acc[t][r] = fma(weights, broadcast(rows[static_cast<size_t>(r) * stride + k]), acc[t][r]);
      }
    }
  }
  for (int t = 0; t < kTiles; ++t) {
    for (int r = 0; r < kRows; ++r) store_tile_row(out, first_row + static_cast<size_t>(r), first_tile + t, acc[t][r]);
  }
}

template <DType kType, int kTiles, int kRows>
BASS_SIMD_INLINE void float_tiles_rows(int n_rows, const PackedMatrix& w, const ActivationRows& x, size_t first_row,
                                       int first_tile, const MatmulOut& out) {
  if constexpr (kRows == 1) {
    float_tiles<kType, kTiles, 1>(w, x, first_row, first_tile, out);
  } else if (n_rows == kRows) {
    float_tiles<kType, kTiles, kRows>(w, x, first_row, first_tile, out);
  } else {
    float_tiles_rows<kType, kTiles, kRows - 1>(n_rows, w, x, first_row, first_tile, out);
  }
}

template <DType kType>
void float_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, const MatmulOut& out) {
  constexpr int kFewRows = 2;  // too few chains in one tile: take several tiles at once
  constexpr int kTiles = 4;
  int tile = tiles.begin;
  if (n_rows <= kFewRows) {
    for (; tile + kTiles <= tiles.end; tile += kTiles) {
      float_tiles_rows<kType, kTiles, kFewRows>(n_rows, w, x, 0, tile, out);
    }
  }
  const int n_blocks = (n_rows + kFloatMatmulRows - 1) / kFloatMatmulRows;
  for (; tile < tiles.end; ++tile) {
    for (int b = 0; b < n_blocks; ++b) {
      const size_t first = block_begin(n_rows, n_blocks, b);
      const auto n_block_rows = static_cast<int>(block_begin(n_rows, n_blocks, b + 1) - first);
      float_tiles_rows<kType, 1, kFloatMatmulRows>(n_block_rows, w, x, first, tile, out);
    }
  }
}

template <DType kType>
void quant_matmul_planes(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                         const MatmulOut& out) {
  if (x.n_planes == 2) {
    quant_matmul<kType, 2>(w, x, n_rows, tiles, out);
  } else {
    quant_matmul<kType, 1>(w, x, n_rows, tiles, out);
  }
}

}  // namespace detail

inline void matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out,
                   int out_stride, int first_channel, bool accumulate) {
  const detail::MatmulOut where{out, static_cast<size_t>(out_stride), first_channel, w.n_out, accumulate};
  switch (w.type) {
    case DType::kF32:
      return detail::float_matmul<DType::kF32>(w, x, n_rows, tiles, where);
    case DType::kF16:
      return detail::float_matmul<DType::kF16>(w, x, n_rows, tiles, where);
    case DType::kBF16:
      return detail::float_matmul<DType::kBF16>(w, x, n_rows, tiles, where);
    case DType::kQ8_0:
      return detail::quant_matmul_planes<DType::kQ8_0>(w, x, n_rows, tiles, where);
    case DType::kQ4_0:
      return detail::quant_matmul_planes<DType::kQ4_0>(w, x, n_rows, tiles, where);
    case DType::kQ4_1:
      return detail::quant_matmul_planes<DType::kQ4_1>(w, x, n_rows, tiles, where);
  }
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
