#include "engine/account.h"

#include <algorithm>
#include <cmath>

#include "speculation/step_prediction.h"

namespace bass {
namespace {

static_assert(SpeculationAccount::kSources == kNumDraftSources, "one entry a source");

SpeculationAccount::Kind kind_of(const StepFacts& facts) {
  const bool has_rows = facts.cost.n_rows > facts.regular.n_rows;
  if (!has_rows && facts.cost.n_model_drafts == 0) return SpeculationAccount::kRegular;
  return facts.cost.n_model_drafts > 0 ? SpeculationAccount::kModel : SpeculationAccount::kNgram;
}

// A regular step of more sequences like these.
StepLoad with_sequences(const StepLoad& regular, int n_sequences) {
  const double factor = static_cast<double>(n_sequences) / regular.n_rows;
  return {n_sequences, factor * regular.n_read, factor * regular.n_seen};
}

// Below the smallest step that was measured the table is flat, so regular decoding looks slower than it is.
bool is_guess(const StepCosts& costs, int n_sequences) {
  const int last = std::min(n_sequences, StepCosts::kMaxRows);
  return std::none_of(costs.step_s, costs.step_s + last + 1, [](float seconds) { return seconds > 0; });
}

void add_prediction(const StepFacts& facts, double predicted_s, SpeculationAccount* account) {
  const auto& limits = SpeculationAccount::kSizes;
  const auto idx = std::lower_bound(limits.begin(), limits.end(), facts.cost.n_rows) - limits.begin();
  StepSizeSums& size = account->sizes[static_cast<size_t>(idx)];
  ++size.n_steps;
  size.step_s += facts.cost.step_s;
  size.predicted_s += predicted_s;
  size.n_rows += facts.cost.n_rows;
  account->step_error_s += std::abs(facts.cost.step_s - predicted_s);
}

// What the step with its drafts was expected to take, and regular steps in its place for the tokens that were expected
// of it: the policy knows of the sequences that run.
void add_expectation(const StepFacts& facts, double expected_s, double regular_s, StepKindSums* kind,
                     SpeculationAccount* account) {
  const double expected_regular_s = regular_s * (1 + *facts.expected / facts.regular.n_rows);
  kind->expected_s += expected_s;
  kind->expected_regular_s += expected_regular_s;
  if (expected_regular_s >= expected_s) return;
  ++account->n_unpromising;
  account->unpromising_s += facts.cost.draft_s + facts.cost.step_s + facts.rest_s;
}

// Whatever is drafted, and also where nothing is: this is why.
void add_price(const StepLoad& regular, const StepCosts& costs, SpeculationAccount* account) {
  const double regular_s = predicted_step_seconds(costs, regular);
  if (regular_s <= 0) return;
  const double with_drafts_s = predicted_step_seconds(costs, {2 * regular.n_rows, regular.n_read, 2 * regular.n_seen});
  ++account->n_priced;
  account->row_price += std::max(0.0, with_drafts_s / regular_s - 1);
  account->pass_price += predicted_draft_seconds(costs, 1, regular.n_rows) / regular_s;
}

}  // namespace

void add_round(const DraftOutcome& outcome, std::optional<double> expected, SpeculationAccount* account) {
  if (outcome.n_drafted == 0) return;  // the draft model has found nothing that is worth a row
  DraftSourceSums& source = account->sources[static_cast<size_t>(outcome.source)];
  ++source.rounds;
  source.drafted += outcome.n_drafted;
  source.accepted += outcome.n_accepted;
  for (int j = 0; j < std::min(outcome.n_drafted, DraftSourceSums::kPositions); ++j) {
    source.reached_at[static_cast<size_t>(j)] += j <= outcome.n_accepted ? 1 : 0;
    source.accepted_at[static_cast<size_t>(j)] += j < outcome.n_accepted ? 1 : 0;
  }
  if (!expected) return;
  ++source.n_expected;
  source.expected += *expected;
  source.accepted_of_expected += outcome.n_accepted;
}

void add_step(const StepFacts& facts, const StepCosts& costs, SpeculationAccount* account) {
  const StepCost& cost = facts.cost;
  const SpeculationAccount::Kind kind_idx = kind_of(facts);
  const bool has_drafts = kind_idx != SpeculationAccount::kRegular;
  StepKindSums& kind = account->kinds[kind_idx];
  ++kind.n_steps;
  kind.n_tokens += facts.n_tokens;
  kind.draft_s += cost.draft_s;
  kind.step_s += cost.step_s;
  kind.rest_s += facts.rest_s;

  add_price(facts.regular, costs, account);
  const double predicted_s = mean_step_seconds(costs, cost.load());
  if (predicted_s > 0) add_prediction(facts, predicted_s, account);
  const double predicted_draft_s =
      costs.slowed * predicted_draft_seconds(costs, cost.n_draft_steps, cost.n_model_drafts);
  account->n_draft_passes += cost.n_draft_steps;
  account->predicted_draft_s += predicted_draft_s;

  // A regular step is its own measurement. Regular decoding hands out the same tokens, so that it takes as long.
  const bool is_measured = cost.n_rows == facts.regular.n_rows && facts.n_regular == facts.regular.n_rows;
  const double regular_s = is_measured ? 0 : mean_step_seconds(costs, with_sequences(facts.regular, facts.n_regular));
  const bool is_known = regular_s > 0;
  const double n_regular_steps = static_cast<double>(facts.n_tokens) / facts.n_regular;
  kind.regular_s += facts.rest_s + (is_known ? n_regular_steps * regular_s : cost.step_s);
  if (!has_drafts) return;
  kind.n_guessed += is_guess(costs, facts.n_regular) ? 1 : 0;
  const double step_s = mean_step_seconds(costs, facts.regular);
  if (facts.expected && is_known) add_expectation(facts, predicted_s + predicted_draft_s, step_s, &kind, account);
}

}  // namespace bass
