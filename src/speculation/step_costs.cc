#include "speculation/step_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace bass {
namespace {

constexpr double kScaleRate = 0.15;  // of the whole table, by each step
constexpr double kOwnRate = 0.05;    // of an entry that was measured often; at first it is the mean
constexpr double kClip = 1.5;        // a measurement counts as at most so many times the old value: outliers
constexpr double kFar = 1.3;         // times what is believed: others' work, which comes in bursts of a few steps,
constexpr int kMaxFar = 8;           // until so many in a row say that the machine is slower
constexpr float kMaxMove = 0.22f;    // of the whole table (logarithm), after which what was measured before is doubtful
constexpr double kFading = 0.98;     // of an entry's measurements, with each step that measures others
constexpr int kNear = 12;            // steps of a twelfth more or fewer rows are about the same
constexpr double kBeside = 0.25;     // of a measurement, that sizes are worth which lie on both sides within twice
constexpr int kStaleSteps = 64;      // in which nothing of the kind was measured
constexpr int kFirstMeasurements = 2;

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

// freshness: what the measurements so far count, 0 .. 1
void learn_entry(double sample, double freshness, float* value, uint16_t* n_measured) {
  const double n = std::min<double>(*n_measured, 1 / kOwnRate) * freshness + 1;
  if (*n_measured < UINT16_MAX) ++*n_measured;
  *value = *value > 0 ? moved(*value, sample, std::max(kOwnRate, 1 / n)) : static_cast<float>(sample);
}

template <class Visit>
void for_each_near(int n_rows, Visit visit) {
  const int reach = row_idx(n_rows) / kNear;
  for (int rows = row_idx(n_rows - reach); rows <= row_idx(n_rows + reach); ++rows) visit(rows);
}

bool is_kept(const StepCosts& costs, int rows) { return costs.last_measured[rows] == 0 && costs.step_s[rows] > 0; }

// Without attention.
double predicted_rows_seconds(const StepCosts& costs, int n_rows) {
  const int wanted = row_idx(n_rows);
  const auto is_known = [&](int rows) { return costs.step_s[rows] > 0; };
  int below = wanted;
  while (below > 0 && !is_known(below)) --below;
  if (below == wanted) return costs.step_s[wanted];
  int above = wanted + 1;
  while (above <= costs.max_rows_seen && !is_known(above)) ++above;
  if (above > costs.max_rows_seen) above = 0;
  int before_below = below - 1;
  while (before_below > 0 && !is_known(before_below)) --before_below;
  if (below == 0) return above == 0 ? 0 : costs.step_s[above];
  const double at_below = costs.step_s[below];
  const int from = above != 0 ? below : before_below;
  const int to = above != 0 ? above : below;
  if (from <= 0) return at_below;
  const double slope = (costs.step_s[to] - costs.step_s[from]) / static_cast<double>(to - from);
  return at_below + std::max(slope, 0.0) * (wanted - below);  // more rows never cost less: noise
}

// The first of them says how fast the machine is, each further one says less.
void replace_kept_entry(double sample, int idx, StepCosts* costs) {
  const double factor = std::pow(sample / costs->step_s[idx], 1.0 / ++costs->n_kept_seen);
  for (int rows = 1; rows <= costs->max_rows_seen; ++rows) {
    if (is_kept(*costs, rows)) costs->step_s[rows] *= static_cast<float>(factor);
  }
  costs->step_s[idx] = static_cast<float>(sample);
  costs->n_measured[idx] = 1;
}

// What all steps have in common, passes of the draft model too.
void move_table(double sample, double rate, int idx, StepCosts* costs) {
  const auto predicted = static_cast<float>(predicted_rows_seconds(*costs, idx));
  const float factor = moved(predicted, sample, rate) / predicted;
  for (float& seconds : costs->step_s) seconds *= factor;
  for (float& seconds : costs->draft_step_s) seconds *= factor;
  costs->catch_up_s *= factor;
  costs->log_level += std::log(factor);
}

void note_measured(int idx, StepCosts* costs) {
  costs->last_measured[idx] = costs->n_steps;
  costs->log_level_at[idx] = costs->log_level;
}

// Whether the step is to teach nothing. Steps of one size would learn what a burst does to all, and look dearer than
// the others behind it.
bool count_disturbance(double sample, int idx, StepCosts* costs) {
  const double believed = costs->step_s[idx];
  if (believed <= 0) return false;  // says nothing of itself
  const bool is_far = sample > kFar * believed;
  costs->n_far_in_row = is_far ? std::min(costs->n_far_in_row + 1, kMaxFar) : 0;
  costs->n_far[idx] = static_cast<uint8_t>(is_far ? std::min(costs->n_far[idx] + 1, kMaxFar) : 0);
  return is_far && costs->n_far_in_row < kMaxFar && costs->n_far[idx] < kMaxFar;
}

void learn_step_entry(double sample, int idx, StepCosts* costs) {
  const double freshness = std::pow(kFading, costs->n_steps - costs->last_measured[idx] - 1);
  // A size that was never seen says nothing about the others.
  if (step_novelty(*costs, idx) <= 0.25) move_table(sample, kScaleRate * freshness, idx, costs);
  learn_entry(sample, freshness, &costs->step_s[idx], &costs->n_measured[idx]);
}

// Passes that read much they had not followed say what reading takes, all others what drafting takes.
void learn_draft_cost(const StepCost& cost, StepCosts* costs) {
  if (cost.n_draft_steps <= 0 || cost.draft_s <= 0) return;
  if (cost.n_caught_up > 0) {
    const double reading_s = cost.draft_s - predicted_draft_seconds(*costs, cost.n_draft_steps, cost.n_model_drafts);
    if (reading_s <= 0) return;
    learn_entry(reading_s / cost.n_caught_up, 1, &costs->catch_up_s, &costs->n_catch_ups_measured);
    return;
  }
  const int size = draft_size(cost.n_draft_steps, cost.n_model_drafts);
  learn_entry(cost.draft_s / cost.n_draft_steps, 1, &costs->draft_step_s[size], &costs->n_drafts_measured[size]);
}

}  // namespace

void learn_step_cost(const StepCost& cost, StepCosts* costs) {
  const double rows_s = cost.step_s - cost.attention_s;
  if (!cost.is_clean || cost.n_rows <= 0 || rows_s <= 0) return;
  const int idx = row_idx(cost.n_rows);
  ++costs->n_steps;
  const bool is_first_of_kept = is_kept(*costs, idx);
  costs->max_rows_seen = std::max(costs->max_rows_seen, idx);
  if (!is_first_of_kept && count_disturbance(rows_s, idx, costs)) {
    note_measured(idx, costs);  // else it would be measured again and again while others work
    return;
  }
  learn_attention_cost(cost.load(), cost.attention_s, &costs->attention);
  if (is_first_of_kept) {
    replace_kept_entry(rows_s, idx, costs);
  } else {
    learn_step_entry(rows_s, idx, costs);
  }
  note_measured(idx, costs);
  learn_draft_cost(cost, costs);
}

double predicted_step_seconds(const StepCosts& costs, const StepLoad& load) {
  return predicted_rows_seconds(costs, load.n_rows) + predicted_attention_seconds(costs.attention, load);
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

double predicted_catch_up_seconds(const StepCosts& costs, int n_unread) {
  return static_cast<double>(costs.catch_up_s) * std::max(n_unread, 0);
}

double step_novelty(const StepCosts& costs, int n_rows) {
  int n = 0;
  for_each_near(n_rows, [&](int rows) { n += costs.n_measured[rows]; });
  const int idx = row_idx(n_rows);
  const auto n_within = [&](int begin, int end) {
    return std::accumulate(costs.n_measured + begin, costs.n_measured + std::min(end, costs.max_rows_seen + 1), 0);
  };
  const int n_beside =
      idx < costs.max_rows_seen ? std::min(n_within((idx + 1) / 2, idx), n_within(idx + 1, 2 * idx)) : 0;
  return 1.0 / (1.0 + n + kBeside * n_beside);
}

bool is_step_stale(const StepCosts& costs, int n_rows) {
  int n = 0;
  int last = 0;
  float log_level = 0;
  for_each_near(n_rows, [&](int rows) {
    if (costs.last_measured[rows] == 0) return;
    n += costs.n_measured[rows];
    if (costs.last_measured[rows] < last) return;
    last = costs.last_measured[rows];
    log_level = costs.log_level_at[rows];
  });
  if (n < kFirstMeasurements || costs.n_steps - last >= std::min(4 * (1 + n), kStaleSteps)) return true;
  return std::abs(costs.log_level - log_level) > kMaxMove;
}

}  // namespace bass
