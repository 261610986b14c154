// Matrix products of packed weights with rows of activations (the arithmetic: kernels.h, the layouts: pack.h).
// Include after a simd_*.h. Every template instance gives the same bits for a row: only the number of rows that share
// a weight differs.
#pragma once

#include "kernels/cpu/matmul_float_impl.h"
#include "kernels/cpu/matmul_quant_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline void matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out,
                   int out_stride, int first_channel, bool accumulate, FetchQueue* fetch) {
  const detail::MatmulOut where{out, static_cast<size_t>(out_stride), first_channel, w.n_out, accumulate, w.bias};
  switch (w.type) {
    case DType::kF32:
      return detail::float_matmul<DType::kF32>(w, x, n_rows, tiles, where);
    case DType::kF16:
      return detail::float_matmul<DType::kF16>(w, x, n_rows, tiles, where);
    case DType::kBF16:
      return detail::float_matmul<DType::kBF16>(w, x, n_rows, tiles, where);
    case DType::kQ8_0:
      return detail::quant_matmul_planes<DType::kQ8_0>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ4_0:
      return detail::quant_matmul_planes<DType::kQ4_0>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ4_1:
      return detail::quant_matmul_planes<DType::kQ4_1>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ5_0:
      return detail::quant_matmul_planes<DType::kQ5_0>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ5_1:
      return detail::quant_matmul_planes<DType::kQ5_1>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ2_K:
      return detail::quant_matmul_planes<DType::kQ2_K>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ3_K:
      return detail::quant_matmul_planes<DType::kQ3_K>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ4_K:
      return detail::quant_matmul_planes<DType::kQ4_K>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ5_K:
      return detail::quant_matmul_planes<DType::kQ5_K>(w, x, n_rows, tiles, where, fetch);
    case DType::kQ6_K:
      return detail::quant_matmul_planes<DType::kQ6_K>(w, x, n_rows, tiles, where, fetch);
    case DType::kIQ4_NL:  // packed as Q8_0
      return;
  }
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
