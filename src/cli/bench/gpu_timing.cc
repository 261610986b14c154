#include "cli/bench/gpu_timing.h"

#include <algorithm>
#include <cmath>

namespace bass {

Result<double> measure_copy_gb_s(cuda::Device& device) {
  constexpr int kCopies = 5;  // of which the fastest counts
  constexpr int kByte = 0x3C;
  constexpr size_t kBytes = size_t{256} << 20;
  const cuda::DeviceBuffer from(&device, kBytes), to(&device, kBytes);
  if (!from.ok() || !to.ok()) return no_gpu_memory(2 * kBytes, device);
  device.fill(from.data(), kByte, kBytes);
  double best_s = INFINITY;
  for (int i = 0; i < kCopies; ++i) {
    BASS_ASSIGN_OR_RETURN(const double seconds,
                          seconds_on_gpu(device, [&] { device.copy(to.data(), from.data(), kBytes); }));
    best_s = std::min(best_s, seconds);
  }
  return 2 * kBytes / best_s * 1e-9;
}

}  // namespace bass
