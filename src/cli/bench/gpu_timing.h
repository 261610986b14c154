// What the measurements of a GPU's kernels share.
#pragma once

#include <fmt/format.h>

#include "base/check.h"
#include "kernels/cuda/device.h"

namespace bass {

inline Status no_gpu_memory(size_t n_bytes, const cuda::Device& device) {
  return {StatusCode::kResourceExhausted,
          fmt::format("the GPU's memory is too small: {} MiB more are needed, {} MiB are free", n_bytes >> 20,
                      device.free_bytes() >> 20)};
}

/// Seconds from one mark of the device's queue to the next, around `run`.
template <class Run>
Result<double> seconds_on_gpu(cuda::Device& device, Run run) {
  device.mark(0);
  run();
  device.mark(1);
  BASS_RETURN_IF_ERROR(device.synchronize());
  return device.seconds_between(0, 1);
}

/// Bytes read and written by copies within the device's memory, 10^9 a second. Takes half a GiB of it for a moment.
Result<double> measure_copy_gb_s(cuda::Device& device);

}  // namespace bass
