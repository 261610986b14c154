// Rows that a kernel has written in parts, as bytes for a library's product.
#pragma once

#include "kernels/cuda/rows/quantise_row.h"

namespace bass::cuda {

struct QuantiseTokens {
  static constexpr const char* kName = "quantise_tokens";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = true;

  const float* x = nullptr;  // [n_rows, n]
  int32_t n_rows = 0;
  int32_t n = 0;
  TokenQuants out;

  [[nodiscard]] LaunchShape shape() const {
    return {{n_rows, 1, 1}, kMaxThreads, SharedBytes().add<uint32_t>(kMaxThreads / kWarpLen).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    uint32_t* largest_of_warps = context.template shared<uint32_t>(kMaxThreads / kWarpLen);
    const int row = context.block().x;
    quantise_token(context, x + int64_t{row} * n, largest_of_warps, row, n, out);
  }
};

}  // namespace bass::cuda
