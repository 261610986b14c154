// Tokens that the host does not know when it queues a pass: the passes in front of it draft them.
#pragma once

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/step_rows.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

/// Puts drafted tokens where rows say drafted_later.
struct ReadDrafted {
  static constexpr const char* kName = "read_drafted";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;

  DeviceRow* rows = nullptr;  // [n_rows]
  int32_t n_rows = 0;
  const int32_t* drafted = nullptr;

  [[nodiscard]] LaunchShape shape() const { return {{ceil_div(n_rows, kMaxThreads), 1, 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().x * context.n_threads() + context.thread();
    if (i < n_rows && rows[i].token < 0) rows[i].token = drafted[drafted_later(rows[i].token)];
  }
};

}  // namespace bass::cuda
