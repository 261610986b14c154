#include "speculation/recent_times.h"

#include <algorithm>

namespace bass {
namespace {

constexpr float kPart = 0.3f;

}  // namespace

void add_time(float seconds, int n_kept, RecentTimes* times) {
  const int n_left = std::clamp(n_kept, 0, std::min(times->n, RecentTimes::kMax - 1));
  std::copy_backward(times->seconds, times->seconds + n_left, times->seconds + n_left + 1);
  times->seconds[0] = seconds;
  times->n = n_left + 1;
}

float typical_seconds(const RecentTimes& times) {
  if (times.n == 0) return 0;
  const float place = kPart * static_cast<float>(times.n - 1);
  const auto below = static_cast<int>(place);
  const int above = std::min(below + 1, times.n - 1);
  float sorted[RecentTimes::kMax];
  std::partial_sort_copy(times.seconds, times.seconds + times.n, sorted, sorted + above + 1);
  return sorted[below] + (place - static_cast<float>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace bass
