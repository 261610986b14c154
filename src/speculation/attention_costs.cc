#include "speculation/attention_costs.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace bass {
namespace {

constexpr int kTerms = AttentionCosts::kTerms;
constexpr double kFading = 0.97;   // of earlier steps, with each step: machines slow down
constexpr double kClip = 3.0;      // a measurement counts as at most so many times what was predicted
constexpr int kFirst = 4;          // measurements before anything is an outlier
constexpr double kRidge = 0.01;    // of a term's own sum: where terms cannot be told apart, tokens that are read count
constexpr double kBelief = 1e3;    // tokens by which it is believed that
constexpr double kSeenPart = 0.3;  // a further row costs this part of reading the token

using Terms = std::array<double, kTerms>;

Terms terms_of(const StepLoad& load) {
  return {static_cast<double>(load.n_rows), load.n_read, std::max(load.n_seen - load.n_read, 0.0)};
}

double dot(const Terms& terms, const double* seconds) {
  double sum = 0;
  for (int i = 0; i < kTerms; ++i) sum += terms[static_cast<size_t>(i)] * seconds[i];
  return sum;
}

using System = std::array<std::array<double, kTerms + 1>, kTerms>;  // [A | b]

// Gauss-Jordan without the rows and columns of terms that are held at zero. A is positive definite.
Terms solve(System system, const std::array<bool, kTerms>& is_zero) {
  for (size_t i = 0; i < kTerms; ++i) {
    if (is_zero[i]) continue;
    for (size_t row = 0; row < kTerms; ++row) {
      if (row == i || is_zero[row]) continue;
      const double factor = system[row][i] / system[i][i];
      for (size_t col = 0; col <= kTerms; ++col) system[row][col] -= factor * system[i][col];
    }
  }
  Terms result{};
  for (size_t i = 0; i < kTerms; ++i) {
    if (!is_zero[i]) result[i] = system[i][kTerms] / system[i][i];
  }
  return result;
}

// As least squares whose terms may not be negative want it: the most negative one is zero, and so on.
Terms solve_not_negative(const System& system) {
  std::array<bool, kTerms> is_zero{};
  for (int i = 0; i < kTerms; ++i) {
    const Terms result = solve(system, is_zero);
    const auto least = std::min_element(result.begin(), result.end());
    if (*least >= 0) return result;
    is_zero[static_cast<size_t>(least - result.begin())] = true;
  }
  return {};
}

void fit(AttentionCosts* costs) {
  System system{};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) system[i][j] = costs->products[i][j];
    system[i][i] += (i == 1 ? 0 : kRidge) * costs->products[i][i] + 1e-9;
    system[i][kTerms] = costs->targets[i];
  }
  // One more equation: kBelief (l - kSeenPart k) = 0.
  system[1][1] += kBelief * kBelief * kSeenPart * kSeenPart;
  system[1][2] -= kBelief * kBelief * kSeenPart;
  system[2][1] -= kBelief * kBelief * kSeenPart;
  system[2][2] += kBelief * kBelief;
  const Terms result = solve_not_negative(system);
  std::copy(result.begin(), result.end(), costs->seconds);
}

}  // namespace

AttentionCosts known_attention_costs(std::span<const double, kTerms> seconds) {
  constexpr Terms kStep{8, 1e3, 1e3};  // about what steps ask for
  AttentionCosts costs;
  for (size_t i = 0; i < kTerms; ++i) {
    costs.products[i][i] = kStep[i] * kStep[i];
    costs.targets[i] = kStep[i] * kStep[i] * seconds[i];
    costs.seconds[i] = seconds[i];
  }
  return costs;
}

void learn_attention_cost(const StepLoad& load, double seconds, AttentionCosts* costs) {
  if (seconds <= 0 || load.n_rows <= 0) return;
  const Terms terms = terms_of(load);
  const double predicted = dot(terms, costs->seconds);
  if (costs->n_measured >= kFirst && predicted > 0) seconds = std::clamp(seconds, predicted / kClip, predicted * kClip);
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) costs->products[i][j] = costs->products[i][j] * kFading + terms[i] * terms[j];
    costs->targets[i] = costs->targets[i] * kFading + terms[i] * seconds;
  }
  ++costs->n_measured;
  fit(costs);
}

double predicted_attention_seconds(const AttentionCosts& costs, const StepLoad& load) {
  return dot(terms_of(load), costs.seconds);
}

}  // namespace bass
