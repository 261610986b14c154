// What AMX has of its own beside the kernels of AVX-512 VNNI, for tiles of either kind (amx_tiles_impl.h). Include
// last.
#pragma once

#include "kernels/cpu/kernel_tables.h"
#include "kernels/cpu/matmul_amx_impl.h"
#include "kernels/cpu/quantise_amx_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

// Below that vectors are as fast or faster (docs/performance/emerald-rapids.md).
inline constexpr int kMinRowsOnTiles = 12;

inline void quantise_with_panels(const float* x, ptrdiff_t stride, WorkRange rows, WorkRange cols,
                                 const ActivationRows& out) {
  kAvx512VnniKernels.quantise(x, stride, rows, cols, out);
  if (out.panels != nullptr) fill_panels(rows, cols, out);
}

template <class Tiles>
void matmul_on_tiles(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out,
                     int out_stride, int first_channel, bool accumulate, FetchQueue* fetch) {
  if (n_rows < kMinRowsOnTiles || x.panels == nullptr || !w.is_quantised()) {
    kAvx512VnniKernels.matmul(w, x, n_rows, tiles, out, out_stride, first_channel, accumulate, fetch);
  } else {
    amx_matmul<Tiles>(w, x, n_rows, tiles,
                      {out, static_cast<size_t>(out_stride), first_channel, w.n_out, accumulate, w.bias}, fetch);
  }
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
