// Where the matrix products write. Include after a simd_*.h.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// Where a matmul writes.
struct MatmulOut {
  float* data;
  size_t stride;
  int first_channel;  // lies at data
  int n_out;
  bool accumulate;
  const float* bias;
};

/// Where a row's channels of a tile lie.
BASS_SIMD_INLINE float* tile_row(const MatmulOut& out, size_t row, int tile) {
  return out.data + static_cast<ptrdiff_t>(row * out.stride) + (tile * kTileLen - out.first_channel);
}

BASS_SIMD_INLINE void store_tile_row(const MatmulOut& out, size_t row, int tile, F32x16 acc) {
  const int channel = tile * kTileLen;
  const int n_valid = out.n_out - channel;
  float* p = tile_row(out, row, tile);
  if (out.bias != nullptr) {
    acc = add(acc, n_valid >= kTileLen ? load(out.bias + channel) : load_partial(out.bias + channel, n_valid, 0.0f));
  }
  if (n_valid >= kTileLen) {
    store(p, out.accumulate ? add(load(p), acc) : acc);
  } else {
    store_partial(p, n_valid, out.accumulate ? add(load_partial(p, n_valid, 0.0f), acc) : acc);
  }
}

/// Rows first_row .. first_row + n_rows - 1 of a tile, n_rows <= kRows. What is the same for all rows is asked once:
/// with few columns of weights this would else take as long as a tenth of the product.
template <int kRows>
BASS_SIMD_INLINE void store_tile(const MatmulOut& out, int first_row, int n_rows, int tile, F32x16 (&acc)[kRows]) {
  const int channel = tile * kTileLen;
  if (out.n_out - channel < kTileLen) {
    for (int r = 0; r < n_rows; ++r) store_tile_row(out, static_cast<size_t>(first_row + r), tile, acc[r]);
    return;
  }
  if (out.bias != nullptr) {
    const F32x16 bias = load(out.bias + channel);
#pragma GCC unroll kUnrolled
    for (int r = 0; r < kRows; ++r) acc[r] = add(acc[r], bias);
  }
  float* p = tile_row(out, static_cast<size_t>(first_row), tile);
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r, p += out.stride) {
    if (r >= n_rows) break;
    store(p, out.accumulate ? add(load(p), acc[r]) : acc[r]);
  }
}

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
