#include "speculation/step_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "speculation/step_prediction.h"

namespace bass {
namespace {

constexpr double kCommon = 0.8;  // of what a size takes more or less than before: the machine's doing, which all share
constexpr int kCommonTimes = 7;  // measurements of a size, none of them stale, before it says anything about others
constexpr double kMuchShorter = 0.8;    // than any time that an entry knows
constexpr double kEntryFading = 0.995;  // of an entry's measurements, with each step that measures others
constexpr double kScatterRate = 0.05;
constexpr double kMaxScatter = 0.5;
constexpr double kMaxSlowed = 5;
constexpr double kLeastOfMean = 0.1;  // of a row's share of a step, that it adds to one: less is noise
constexpr double kMostBehind = 0.8;   // of a pass, that reading what it was a little behind may have taken

// A token among others takes no longer than one alone, in a pass of its own: what says so was held up by other
// programs.
void learn_catch_up(double sample, StepCosts* costs) {
  const double pass_s = predicted_draft_seconds(*costs, 1, 1);
  add_time(static_cast<float>(pass_s > 0 ? std::min(sample, pass_s) : sample), RecentTimes::kMax,
           &costs->recent_catch_ups);
  costs->catch_up_s = typical_seconds(costs->recent_catch_ups);
}

bool is_kept(const StepCosts& costs, int rows) { return costs.last_measured[rows] == 0 && costs.step_s[rows] > 0; }
bool is_kept_draft(const StepCosts& costs, int size) { return costs.recent_drafts[size].n == 0; }

void scale(float factor, float* typical, RecentTimes* times) {
  *typical *= factor;
  for (float& seconds : times->seconds) seconds *= factor;
}

// How many times as long as an earlier run kept it steps take today: the median over the sizes that both know, by how
// often this run has measured them. A process' first steps take up to three times as long, and single sizes may have
// been kept wrong.
float kept_level(const StepCosts& costs) {
  struct Ratio {
    float ratio;
    int32_t weight;
  };
  std::array<Ratio, StepCosts::kMaxRows> ratios;
  size_t n = 0;
  int32_t weight = 0;
  for (int rows = 1; rows <= costs.max_rows_seen; ++rows) {
    if (costs.kept_s[rows] <= 0) continue;
    ratios[n] = {costs.step_s[rows] / costs.kept_s[rows], std::min(costs.recent[rows].n, StepCosts::kGoodTimes)};
    weight += ratios[n++].weight;
  }
  if (n == 0) return costs.kept_level;
  std::sort(ratios.begin(), ratios.begin() + static_cast<ptrdiff_t>(n),
            [](const Ratio& a, const Ratio& b) { return a.ratio < b.ratio; });
  size_t median = 0;
  for (int32_t below = ratios[0].weight; 2 * below < weight; below += ratios[median].weight) ++median;
  return ratios[median].ratio;
}

// What was kept is the table's shape: what this run has not measured yet follows what it has.
void move_kept_entries(StepCosts* costs) {
  const float level = kept_level(*costs);
  const float part = level / costs->kept_level;
  if (part == 1) return;
  costs->kept_level = level;
  for (int rows = 1; rows <= costs->max_rows_seen; ++rows) {
    if (is_kept(*costs, rows)) costs->step_s[rows] *= part;
  }
  for (int size = 0; size < StepCosts::kDraftSizes; ++size) {
    if (is_kept_draft(*costs, size)) costs->draft_step_s[size] *= part;
  }
  if (costs->recent_catch_ups.n == 0) costs->catch_up_s *= part;
}

// What all steps have in common, passes of the draft model too. The entry at idx has moved by itself.
void move_others(double factor, int idx, StepCosts* costs) {
  const auto part = static_cast<float>(factor);
  for (int rows = 1; rows <= costs->max_rows_seen; ++rows) {
    if (rows != idx && !is_kept(*costs, rows)) scale(part, &costs->step_s[rows], &costs->recent[rows]);
  }
  for (int size = 0; size < StepCosts::kDraftSizes; ++size) {
    if (!is_kept_draft(*costs, size)) scale(part, &costs->draft_step_s[size], &costs->recent_drafts[size]);
  }
  if (costs->recent_catch_ups.n > 0) scale(part, &costs->catch_up_s, &costs->recent_catch_ups);
  costs->log_level += std::log(part);
}

// An engine may run for months: of the steps behind kMaxSteps an older half is forgotten.
void count_step(StepCosts* costs) {
  if (++costs->n_steps < StepCosts::kMaxSteps) return;
  constexpr int32_t kForgotten = StepCosts::kMaxSteps / 2;
  costs->n_steps -= kForgotten;
  for (int32_t& last : costs->last_measured) {
    if (last != 0) last = std::max(last - kForgotten, 1);
  }
}

void note_measured(int idx, StepCosts* costs) {
  costs->last_measured[idx] = costs->n_steps;
  costs->log_level_at[idx] = costs->log_level;
}

// Others' work makes no time shorter: where an entry was not measured lately, or was moved up with the table since, a
// time far below all that it knows says that these are old. So one step that is taken to see whether it got cheaper is
// enough. If it had only followed others, it was wrong to, and they need not follow it; else the machine
// may have become faster, and they follow as they do where what is typical moves.
void forget_longer_times(double sample, int idx, StepCosts* costs) {
  const bool was_moved_up = costs->log_level - costs->log_level_at[idx] > step_prediction::kMaxMove;
  const bool is_old = was_moved_up || costs->n_steps - costs->last_measured[idx] > StepCosts::kStaleSteps;
  if (!is_old || costs->recent[idx].n == 0) return;
  const auto times = std::span(costs->recent[idx].seconds).first(static_cast<size_t>(costs->recent[idx].n));
  const float shortest = *std::min_element(times.begin(), times.end());
  if (sample >= kMuchShorter * shortest) return;
  scale(static_cast<float>(sample) / shortest, &costs->step_s[idx], &costs->recent[idx]);
  if (was_moved_up) costs->n_in_row[idx] = 0;
}

// freshness: what the entry's measurements so far count, 0 .. 1
void add_step_time(double sample, double freshness, int idx, StepCosts* costs) {
  if (is_kept(*costs, idx)) {
    costs->kept_s[idx] = costs->step_s[idx] / costs->kept_level;
    costs->n_measured[idx] = 0;
  }
  forget_longer_times(sample, idx, costs);
  const auto n_kept = static_cast<int>(std::lround(freshness * costs->recent[idx].n));
  add_time(static_cast<float>(sample), n_kept, &costs->recent[idx]);
  costs->step_s[idx] = typical_seconds(costs->recent[idx]);
  const int n_in_row =
      costs->n_steps - costs->last_measured[idx] <= 2 * StepCosts::kStaleSteps ? costs->n_in_row[idx] + 1 : 1;
  costs->n_in_row[idx] = static_cast<uint8_t>(std::min(n_in_row, kCommonTimes));
  if (costs->n_measured[idx] < UINT16_MAX) ++costs->n_measured[idx];
  note_measured(idx, costs);
}

void learn_step_entry(double sample, int idx, StepCosts* costs) {
  const bool was_kept = is_kept(*costs, idx);
  const double before = costs->step_s[idx];
  const double freshness = std::pow(kEntryFading, costs->n_steps - costs->last_measured[idx] - 1);
  add_step_time(sample, freshness, idx, costs);
  if (before > 0 && !was_kept && costs->n_in_row[idx] >= kCommonTimes) {
    const double moved = costs->step_s[idx] / before;
    if (moved != 1) move_others(std::pow(moved, kCommon * freshness), idx, costs);
  }
  move_kept_entries(costs);
  if (before <= 0 || was_kept) return;
  const double distance = std::min(std::abs(std::log(sample / before)), kMaxScatter);
  costs->scatter += static_cast<float>(kScatterRate * (distance - costs->scatter));
  costs->slowed += static_cast<float>(kScatterRate * (std::min(sample / before, kMaxSlowed) - costs->slowed));
}

// What slowed the step's products slowed its attention, too.
double undisturbed_attention_seconds(const StepCost& cost, double rows_s, const StepCosts& costs) {
  const int idx = StepCosts::row_idx(cost.n_rows);
  if (costs.recent[idx].n < StepCosts::kGoodTimes) return cost.attention_s;
  return cost.attention_s * std::min(1.0, costs.step_s[idx] / rows_s);
}

// Passes that read much they had not followed say what reading takes, all others what drafting takes.
void learn_draft_cost(const StepCost& cost, StepCosts* costs) {
  if (cost.n_draft_steps <= 0 || cost.draft_s <= 0) return;
  if (cost.n_caught_up > 0) {
    const double reading_s = cost.draft_s - predicted_draft_seconds(*costs, cost.n_draft_steps, cost.n_model_drafts);
    if (reading_s <= 0) return;
    learn_catch_up(reading_s / cost.n_caught_up, costs);
    return;
  }
  const double behind_s = std::min(predicted_catch_up_seconds(*costs, cost.n_behind), kMostBehind * cost.draft_s);
  const int size = StepCosts::draft_size(cost.n_draft_steps, cost.n_model_drafts);
  add_time(static_cast<float>((cost.draft_s - behind_s) / cost.n_draft_steps), RecentTimes::kMax,
           &costs->recent_drafts[size]);
  costs->draft_step_s[size] = typical_seconds(costs->recent_drafts[size]);
}

// Of a step without attention; of one with more rows than the table has, what kMaxRows would take: the f whose
// times_beyond_table makes it the step's time.
double table_seconds(const StepCost& cost, const StepCosts& costs) {
  constexpr int kFull = StepCosts::kMaxRows;
  const double rows_s = cost.step_s - cost.attention_s;
  if (cost.n_rows <= kFull) return rows_s;
  const double half_s = predicted_rows_seconds(costs, kFull / 2);
  const double beyond = (cost.n_rows - kFull) / (kFull / 2.0);
  if (half_s <= 0) return rows_s;
  return std::min(rows_s, std::max((rows_s + beyond * half_s) / (1 + beyond), rows_s * kFull / cost.n_rows));
}

}  // namespace

void learn_chunk_cost(const StepCost& cost, int n_chunk_rows, const StepLoad& regular, StepCosts* costs) {
  if (n_chunk_rows <= 0 || cost.step_s <= 0) return;
  const int n_rows = cost.n_rows + n_chunk_rows;
  const int n_more = n_rows - regular.n_rows;
  const double mean_s = cost.step_s / n_rows;
  const double regular_s = regular.n_rows > 0 ? predicted_step_seconds(*costs, regular) : 0;
  costs->chunk_row_s =
      static_cast<float>(std::clamp((cost.step_s - regular_s) / n_more, kLeastOfMean * mean_s, mean_s));
}

void learn_step_cost(const StepCost& cost, StepCosts* costs) {
  const double rows_s = table_seconds(cost, *costs);
  if (!cost.is_clean || cost.n_rows <= 0 || rows_s <= 0) return;
  const int idx = StepCosts::row_idx(cost.n_rows);
  count_step(costs);
  costs->max_rows_seen = std::max(costs->max_rows_seen, idx);
  learn_attention_cost(cost.load(), undisturbed_attention_seconds(cost, rows_s, *costs), &costs->attention);
  learn_step_entry(rows_s, idx, costs);
  learn_draft_cost(cost, costs);
}

}  // namespace bass
