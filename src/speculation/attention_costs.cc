#include "speculation/attention_costs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace bass {
namespace {

constexpr int kTerms = AttentionFit::kTerms;
constexpr double kFitFading = 0.97;  // of earlier steps, with each step: machines slow down
constexpr double kClip = 3.0;        // a measurement counts as at most so many times what was predicted
constexpr int kFirst = 4;            // measurements before anything is an outlier
constexpr double kRidge = 0.01;    // of a term's own sum: where terms cannot be told apart, tokens that are read count
constexpr double kBelief = 1e3;    // tokens by which it is believed that
constexpr double kSeenPart = 0.3;  // a further row costs this part of reading the token
// Steps of a kind may come seldom, and all fits describe a kind that comes alone.
constexpr double kErrorFading = 0.99;
constexpr double kBetter = 0.9;  // so much less than the error of the best one: then another one is
constexpr double kMaxError = 1.0;

using Terms = std::array<double, kTerms>;

Terms terms_of(const StepLoad& load, int free_rows) {
  return {static_cast<double>(load.n_rows), load.n_read, further_seen(load, free_rows)};
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

void solve_fit(AttentionFit* fit) {
  System system{};
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) system[i][j] = fit->products[i][j];
    system[i][i] += (i == 1 ? 0 : kRidge) * fit->products[i][i] + 1e-9;
    system[i][kTerms] = fit->targets[i];
  }
  // One more equation: kBelief (l - kSeenPart k) = 0.
  system[1][1] += kBelief * kBelief * kSeenPart * kSeenPart;
  system[1][2] -= kBelief * kBelief * kSeenPart;
  system[2][1] -= kBelief * kBelief * kSeenPart;
  system[2][2] += kBelief * kBelief;
  const Terms result = solve_not_negative(system);
  std::copy(result.begin(), result.end(), fit->seconds);
}

void note_error(double measured, double predicted, AttentionFit* fit) {
  const double distance = predicted > 0 ? std::log(measured / predicted) : kMaxError;
  fit->error += (1 - kErrorFading) * (std::min(distance * distance, kMaxError) - fit->error);
}

void learn(const Terms& terms, double seconds, AttentionFit* fit) {
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) fit->products[i][j] = fit->products[i][j] * kFitFading + terms[i] * terms[j];
    fit->targets[i] = fit->targets[i] * kFitFading + terms[i] * seconds;
  }
  solve_fit(fit);
}

void choose_best(AttentionCosts* costs) {
  for (int i = 0; i < AttentionCosts::kFits; ++i) {
    if (costs->fits[i].error < kBetter * costs->fit().error) costs->best = i;
  }
}

}  // namespace

// The other fits begin with the same cost of reading, and with the usual belief of what further rows take.
AttentionCosts known_attention_costs(std::span<const double, kTerms> seconds, int free_rows) {
  constexpr Terms kStep{8, 1e3, 1e3};  // about what steps ask for
  BASS_CHECK(free_rows >= 1 && free_rows <= AttentionCosts::kFits);
  AttentionCosts costs;
  costs.best = free_rows - 1;
  for (AttentionFit& fit : costs.fits) {
    const bool is_known = &fit == &costs.fit();
    for (size_t i = 0; i < kTerms; ++i) {
      fit.seconds[i] = is_known || i < 2 ? seconds[i] : kSeenPart * seconds[1];
      fit.products[i][i] = kStep[i] * kStep[i];
      fit.targets[i] = kStep[i] * kStep[i] * fit.seconds[i];
    }
  }
  return costs;
}

void learn_attention_cost(const StepLoad& load, double seconds, AttentionCosts* costs) {
  if (seconds <= 0 || load.n_rows <= 0) return;
  const double expected = predicted_attention_seconds(*costs, load);
  const bool is_known = costs->n_measured >= kFirst && expected > 0;
  if (is_known) seconds = std::clamp(seconds, expected / kClip, expected * kClip);
  for (int i = 0; i < AttentionCosts::kFits; ++i) {
    if (is_known) note_error(seconds, predicted_by_fit(*costs, i, load), &costs->fits[i]);
    learn(terms_of(load, i + 1), seconds, &costs->fits[i]);
  }
  costs->n_measured = std::min(costs->n_measured + 1, kFirst);  // an engine may run for months
  choose_best(costs);
}

}  // namespace bass
