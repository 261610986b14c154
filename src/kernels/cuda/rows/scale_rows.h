// Rows times a number.
#pragma once

#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

/// x *= factor
struct ScaleRows {
  static constexpr const char* kName = "scale_rows";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = false;

  float* x;  // [n]
  int64_t n;
  float factor;

  [[nodiscard]] LaunchShape shape() const {
    return {{static_cast<int>((n + kMaxThreads - 1) / kMaxThreads), 1, 1}, kMaxThreads, 0};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int64_t i = int64_t{context.block().x} * context.n_threads() + context.thread();
    if (i < n) x[i] = x[i] * factor;
  }
};

}  // namespace bass::cuda
