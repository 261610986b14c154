// The machine's limits for memory of different sizes: what fits a cache is read faster than what does not.
#pragma once

#include <map>

#include "engine/machine.h"

namespace bass {

class SizedLimits {
 public:
  /// Measures the peaks.
  static Result<SizedLimits> measure(int n_threads);

  /// The limits of work that reads n_bytes again and again. Measured once for each power of two.
  Result<MachineLimits> of(double n_bytes);

  /// The same, of this moment: beside work that takes long, while which a shared machine's bandwidth moves.
  Result<MachineLimits> of_now(double n_bytes);

  [[nodiscard]] int n_threads() const { return n_threads_; }

 private:
  int n_threads_ = 1;
  MachineLimits peaks_;
  std::map<int64_t, double> bandwidths_;  // by bytes
};

}  // namespace bass
