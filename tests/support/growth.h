// How the time that something takes grows with its input, on machines of any speed that do other things as well.
#pragma once

#include <algorithm>
#include <ctime>
#include <limits>

namespace bass::testing {

/// How many times as long the calling thread computes for 4 n as for n; the least of three times each. Where time is
/// proportional it is 4, where it grows with the square 16. work(n): computes
template <class Work>
double growth(int n, Work work) {
  const auto thread_s = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto least_s = [&](int size) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      const double begin = thread_s();
      work(size);
      least = std::min(least, thread_s() - begin);
    }
    return least;
  };
  return least_s(4 * n) / least_s(n);
}

/// Between both, with room for what a machine does beside.
inline constexpr double kMostGrowth = 9;

}  // namespace bass::testing
