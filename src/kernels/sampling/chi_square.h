// A chi-square test for the tests: how far counts lie from what a distribution predicts.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace bass::testing {

/// Below this a test passes; a correct sampler exceeds it with probability 3.4e-6. Negative controls must exceed
/// kMustReject, which a correct sampler does with probability 6e-16.
inline constexpr double kMayHappen = 4.5;
inline constexpr double kMustReject = 8.0;

/// The chi-square statistic of counts against probabilities, as a standard normal number (Wilson and Hilferty 1931).
/// Cells that expect fewer than 8 are put together. A count where nothing can be gives infinity.
inline double chi_square_z(const std::vector<int64_t>& counts, const std::vector<double>& probabilities) {
  int64_t n = 0;
  for (const int64_t count : counts) n += count;
  double statistic = 0, rare_expected = 0, rare_count = 0;
  int n_cells = 0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++n_cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(n);
    if (expected <= 0 && counts[i] > 0) return INFINITY;
    if (expected >= 8) {
      add_cell(static_cast<double>(counts[i]), expected);
    } else {
      rare_expected += expected;
      rare_count += static_cast<double>(counts[i]);
    }
  }
  if (rare_expected > 1) add_cell(rare_count, rare_expected);
  const double freedom = n_cells - 1;
  if (freedom < 1) return 0;
  const double variance = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - variance)) / std::sqrt(variance);
}

}  // namespace bass::testing
