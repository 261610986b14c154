#include "speculation/policies/goodput.h"

#include <algorithm>

#include "base/check.h"
#include "speculation/policies/survival_estimate.h"

namespace bass {
namespace {

constexpr double kOptimism = 0.25;  // a step of a size that was never measured may cost so much less
constexpr double kMinGain = 1.02;   // over regular decoding, or nothing is drafted
constexpr int kGrowth = 2;          // rows of a step at most, in times of the most that was measured
constexpr float kThresholds[] = {0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f, 0.6f, 0.55f, 0.5f,
                                 0.45f, 0.4f, 0.35f, 0.3f, 0.25f, 0.2f, 0.15f, 0.1f, 0.05f};

struct Option {
  double goodput = 0;      // tokens a second
  float threshold = 2.0f;  // above 1: nothing is drafted
  bool uses_model = false;
};

// A batch whose next step is planned.
struct Batch {
  const GoodputState& learnt;
  const StepCosts& costs;
  int n_sequences;
  std::span<DraftCandidate> candidates;
};

// Sets the option's goodput. doubt: how little the costs of larger steps are trusted at least, 0 .. 1.
Option evaluate(const Batch& batch, Option option, double doubt) {
  double expected = batch.n_sequences;
  int n_rows = batch.n_sequences;
  int n_draft_steps = 0;
  int n_model_drafts = 0;
  for (const DraftCandidate& candidate : batch.candidates) {
    const ExpectedDraft draft = draft_above(batch.learnt, candidate, option.threshold, option.uses_model);
    expected += draft.expected;
    n_rows += draft.len;
    if (draft.source != DraftSource::kModel) continue;
    n_draft_steps = std::max(n_draft_steps, draft.len);
    n_model_drafts += draft.len;
  }
  if (n_rows > std::max(kGrowth * batch.costs.max_rows_seen, batch.n_sequences)) return option;
  if (n_rows == batch.n_sequences) doubt = 0;
  const double novelty = std::max(step_novelty(batch.costs, n_rows), doubt);
  const double step_s = predicted_step_seconds(batch.costs, n_rows) * (1 - kOptimism * novelty);
  const double seconds = step_s + predicted_draft_seconds(batch.costs, n_draft_steps, n_model_drafts);
  option.goodput = seconds > 0 ? expected / seconds : 0;
  return option;
}

Option best_option(const Batch& batch, double doubt) {
  Option best = evaluate(batch, {}, 0);
  best.goodput *= kMinGain;
  const bool has_model = std::any_of(batch.candidates.begin(), batch.candidates.end(), [](const auto& candidate) {
    return candidate.source == DraftSource::kModel || candidate.max_model_len > 0;
  });
  for (const bool uses_model : {false, true}) {
    if (uses_model && !has_model) break;
    for (const float threshold : kThresholds) {
      const Option option = evaluate(batch, {0, threshold, uses_model}, doubt);
      if (option.goodput > best.goodput) best = option;
    }
  }
  return best;
}

// When nothing was drafted for long, a try is due, with what would pay if steps were cheaper than was measured: that
// may be long ago, or bad luck.
void choose(const DraftLengthState& state, const StepCosts& costs, int n_sequences,
            std::span<DraftCandidate> candidates) {
  const GoodputState& learnt = state.goodput;
  for (DraftCandidate& candidate : candidates) candidate.len = 0;
  if (costs.max_rows_seen == 0) return;  // the first step is a regular one: it is measured
  const bool is_due = is_probe_due(learnt);
  const Option best = best_option({learnt, costs, n_sequences, candidates}, is_due ? 1.0 : 0.0);
  if (best.threshold > 1.0f) {
    if (is_due) probe(candidates);
    return;
  }
  if (is_step_stale(costs, n_sequences)) return;  // a regular step, which is what drafts must beat
  for (DraftCandidate& candidate : candidates) {
    const ExpectedDraft draft = draft_above(learnt, candidate, best.threshold, best.uses_model);
    candidate.source = draft.source;
    candidate.len = draft.len;
  }
}

Status parse(std::string_view arguments, DraftLengthSpec&) {
  if (arguments.empty()) return ok_status();
  return invalid_argument("draft length 'goodput' takes no parameters: it measures");
}

}  // namespace

constexpr DraftLengthPolicy kGoodputPolicy{
    "goodput", "goodput", parse, start_survival, keep_draft_length_state, choose, learn_survival, expected_accepted};

}  // namespace bass
