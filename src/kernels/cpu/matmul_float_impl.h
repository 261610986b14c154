// Matrix products of float weights. Include after a simd_*.h.
#pragma once

#include "kernels/cpu/matmul_out_impl.h"
#include "kernels/cpu/pack.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// First row of block `block_idx` when n_rows are divided into n_blocks of sizes that differ by at most one.
BASS_SIMD_INLINE size_t block_begin(int n_rows, int n_blocks, int block_idx) {
  return static_cast<size_t>(static_cast<int64_t>(n_rows) * block_idx / n_blocks);
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

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
