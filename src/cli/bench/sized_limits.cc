#include "cli/bench/sized_limits.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace bass {

Result<SizedLimits> SizedLimits::measure(int n_threads) {
  SizedLimits limits;
  limits.n_threads_ = n_threads;
  for (size_t i = 0; i < kOperationClasses; ++i) {
    BASS_ASSIGN_OR_RETURN(limits.peaks_.peak_tops[i], measure_peak_tops(static_cast<OperationClass>(i), n_threads));
  }
  return limits;
}

namespace {

int64_t measured_size(double n_bytes) {
  constexpr double kMin = 1 << 14, kMax = 1 << 29;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp(n_bytes, kMin, kMax))));
}

}  // namespace

Result<MachineLimits> SizedLimits::of_now(double n_bytes) {
  bandwidths_.erase(measured_size(n_bytes));
  return of(n_bytes);
}

Result<MachineLimits> SizedLimits::of(double n_bytes) {
  const int64_t size = measured_size(n_bytes);
  double& bandwidth = bandwidths_[size];
  if (bandwidth == 0) {
    BASS_ASSIGN_OR_RETURN(bandwidth, measure_bandwidth_gb_s(n_threads_, size));
  }
  MachineLimits limits = peaks_;
  limits.bandwidth_gb_s = bandwidth;
  return limits;
}

}  // namespace bass
