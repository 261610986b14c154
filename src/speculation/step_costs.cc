#include "speculation/step_costs.h"

#include <algorithm>
#include <bit>

namespace bass {
namespace {

constexpr double kScaleRate = 0.15;  // of the whole table, by each step
constexpr double kOwnRate = 0.05;    // of an entry that was measured often; at first it is the mean
constexpr double kClip = 1.5;        // a measurement counts as at most so many times the old value: outliers

int row_idx(int n_rows) { return std::clamp(n_rows, 1, StepCosts::kMaxRows); }

// The entry of passes that draft so many tokens on average.
int draft_size(int n_draft_steps, int n_model_drafts) {
  const auto mean = static_cast<uint32_t>(std::max(n_model_drafts / n_draft_steps, 1));
  return std::min(static_cast<int>(std::bit_width(mean)) - 1, StepCosts::kDraftSizes - 1);
}

// `value` moved towards `sample`, whose distance is bounded.
float moved(float value, double sample, double rate) {
  const double ratio = std::clamp(sample / value, 1.0 / kClip, kClip);
  return static_cast<float>(value * (1.0 + rate * (ratio - 1.0)));
}

void learn_entry(double sample, float* value, uint16_t* n_measured) {
  if (*n_measured < UINT16_MAX) ++*n_measured;
  *value = *value > 0 ? moved(*value, sample, std::max(kOwnRate, 1.0 / *n_measured)) : static_cast<float>(sample);
}

}  // namespace

void learn_step_cost(const StepCost& cost, StepCosts* costs) {
  if (!cost.is_clean || cost.n_rows <= 0 || cost.step_s <= 0) return;
  const int idx = row_idx(cost.n_rows);
  if (step_novelty(*costs, idx) <= 0.25) {  // a size that was never seen says nothing about the others
    const auto predicted = static_cast<float>(predicted_step_seconds(*costs, idx));
    const float factor = moved(predicted, cost.step_s, kScaleRate) / predicted;
    for (float& seconds : costs->step_s) seconds *= factor;
  }
  costs->max_rows_seen = std::max(costs->max_rows_seen, idx);
  learn_entry(cost.step_s, &costs->step_s[idx], &costs->n_measured[idx]);
  if (cost.n_draft_steps > 0 && cost.draft_s > 0) {
    const int size = draft_size(cost.n_draft_steps, cost.n_model_drafts);
    learn_entry(cost.draft_s / cost.n_draft_steps, &costs->draft_step_s[size], &costs->n_drafts_measured[size]);
  }
}

double predicted_step_seconds(const StepCosts& costs, int n_rows) {
  const int wanted = row_idx(n_rows);
  int below = 0, before_below = 0, above = 0;
  for (int rows = 1; rows <= costs.max_rows_seen; ++rows) {
    if (costs.step_s[rows] <= 0) continue;
    if (rows <= wanted) {
      before_below = below;
      below = rows;
    } else if (above == 0) {
      above = rows;
    }
  }
  if (below == 0) return above == 0 ? 0 : costs.step_s[above];
  const double at_below = costs.step_s[below];
  const int from = above != 0 ? below : before_below;
  const int to = above != 0 ? above : below;
  if (from == 0 || wanted == below) return at_below;
  const double slope = (costs.step_s[to] - costs.step_s[from]) / static_cast<double>(to - from);
  return at_below + std::max(slope, 0.0) * (wanted - below);  // more rows never cost less: noise
}

double predicted_draft_seconds(const StepCosts& costs, int n_draft_steps, int n_model_drafts) {
  if (n_draft_steps <= 0) return 0;
  const int wanted = draft_size(n_draft_steps, n_model_drafts);
  for (int distance = 0; distance < StepCosts::kDraftSizes; ++distance) {
    for (const int size : {wanted - distance, wanted + distance}) {
      if (size < 0 || size >= StepCosts::kDraftSizes || costs.draft_step_s[size] <= 0) continue;
      return n_draft_steps * static_cast<double>(costs.draft_step_s[size]);
    }
  }
  return 0;
}

double step_novelty(const StepCosts& costs, int n_rows) {
  constexpr int kNear = 12;  // a twelfth more or less
  const int reach = row_idx(n_rows) / kNear;
  int n = 0;
  for (int rows = row_idx(n_rows - reach); rows <= row_idx(n_rows + reach); ++rows) n += costs.n_measured[rows];
  return 1.0 / (1.0 + n);
}

}  // namespace bass
