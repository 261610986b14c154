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

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
