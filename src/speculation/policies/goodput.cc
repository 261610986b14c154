#include "speculation/policies/goodput.h"

#include <algorithm>

#include "base/check.h"

namespace bass {
namespace {

constexpr float kFirstSurvival = 0.7f;  // what is believed of a source that was never tried
constexpr float kPriorWeight = 4.0f;    // observations that a belief is worth
constexpr float kMemory = 40.0f;        // observations that are remembered: drafts turn good and bad
constexpr double kOptimism = 0.25;      // a step of a size that was never measured may cost so much less
constexpr double kMinGain = 1.02;       // over regular decoding, or nothing is drafted
constexpr int kGrowth = 2;              // rows of a step at most, in times of the most that was measured
constexpr int kFirstProbe = 12;         // steps without a draft after which one is tried again; twice as many each time
constexpr int kLastProbe = 192;         // that it is in vain, up to this
constexpr float kThresholds[] = {0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f, 0.6f, 0.55f, 0.5f,
                                 0.45f, 0.4f, 0.35f, 0.3f, 0.25f, 0.2f, 0.15f, 0.1f, 0.05f};

// That token j is accepted if those before it were: what was seen of it, and while that is little, what is believed of
// the token before it. Lengths that were never tried are not held against a good draft.
float belief(const GoodputState& state, DraftSource source, int j, float before) {
  const float weight = state.weight[static_cast<size_t>(source)][j];
  const float seen = state.survival[static_cast<size_t>(source)][j];
  return (weight * seen + kPriorWeight * before) / (weight + kPriorWeight);
}

// Drafted tokens of one candidate whose survival is at least `threshold`, and the sum of their survivals.
int tokens_above(const GoodputState& state, const DraftCandidate& candidate, float threshold, double* expected) {
  float product = 1.0f;
  float survival = kFirstSurvival;
  int len = 0;
  for (; len < std::min(candidate.max_len, GoodputState::kMaxLen); ++len) {
    survival = belief(state, candidate.source, len, survival);
    product *= survival;
    if (product < threshold) break;
    *expected += product;
  }
  return len;
}

struct Option {
  double goodput = 0;      // tokens a second
  float threshold = 2.0f;  // above 1: nothing is drafted
};

// A batch whose next step is planned.
struct Batch {
  const GoodputState& learnt;
  const StepCosts& costs;
  int n_sequences;
  std::span<DraftCandidate> candidates;
};

// doubt: how little the costs of larger steps are trusted at least, 0 .. 1.
Option evaluate(const Batch& batch, float threshold, double doubt) {
  double expected = batch.n_sequences;
  int n_rows = batch.n_sequences;
  int n_draft_steps = 0;
  for (const DraftCandidate& candidate : batch.candidates) {
    const int len = tokens_above(batch.learnt, candidate, threshold, &expected);
    n_rows += len;
    if (candidate.source == DraftSource::kModel) n_draft_steps = std::max(n_draft_steps, len);
  }
  if (n_rows > std::max(kGrowth * batch.costs.max_rows_seen, batch.n_sequences)) return {};
  if (n_rows == batch.n_sequences) doubt = 0;
  const double novelty = std::max(step_novelty(batch.costs, n_rows), doubt);
  const double step_s = predicted_step_seconds(batch.costs, n_rows) * (1 - kOptimism * novelty);
  const double seconds = step_s + n_draft_steps * static_cast<double>(batch.costs.draft_step_s);
  return {seconds > 0 ? expected / seconds : 0, threshold};
}

Option best_option(const Batch& batch, double doubt) {
  const Option regular = evaluate(batch, 2.0f, 0);
  Option best{regular.goodput * kMinGain, 2.0f};
  for (const float threshold : kThresholds) {
    const Option option = evaluate(batch, threshold, doubt);
    if (option.goodput > best.goodput) best = option;
  }
  return best;
}

// One token for an eighth of the candidates: enough to see whether drafts have become good again.
void probe(std::span<DraftCandidate> candidates) {
  size_t n_left = (candidates.size() + 7) / 8;
  for (DraftCandidate& candidate : candidates) {
    if (n_left == 0 || candidate.max_len == 0) continue;
    candidate.len = 1;
    --n_left;
  }
}

// When nothing was drafted for long, a try is due, with what would pay if steps were cheaper than was measured: that
// may be long ago, or bad luck.
void choose(const DraftLengthState& state, const StepCosts& costs, int n_sequences,
            std::span<DraftCandidate> candidates) {
  const GoodputState& learnt = state.goodput;
  for (DraftCandidate& candidate : candidates) candidate.len = 0;
  if (costs.max_rows_seen == 0) return;  // the first step is a regular one: it is measured
  const bool is_due = learnt.n_idle_steps >= learnt.probe_interval;
  const Option best = best_option({learnt, costs, n_sequences, candidates}, is_due ? 1.0 : 0.0);
  if (best.threshold > 1.0f) {
    if (is_due) probe(candidates);
    return;
  }
  for (DraftCandidate& candidate : candidates) {
    double unused = 0;
    candidate.len = tokens_above(learnt, candidate, best.threshold, &unused);
  }
}

// Tokens behind the first rejected one were not looked at.
void learn_survival(const DraftOutcome& outcome, GoodputState* learnt) {
  float* survival = learnt->survival[static_cast<size_t>(outcome.source)];
  float* weight = learnt->weight[static_cast<size_t>(outcome.source)];
  const int n_seen = std::min({outcome.n_drafted, outcome.n_accepted + 1, GoodputState::kMaxLen});
  for (int j = 0; j < n_seen; ++j) {
    ++weight[j];
    survival[j] += ((j < outcome.n_accepted ? 1.0f : 0.0f) - survival[j]) / std::min(weight[j], kMemory);
  }
}

void learn(DraftLengthState& state, std::span<const DraftOutcome> outcomes) {
  GoodputState& learnt = state.goodput;
  bool has_drafts = false;
  for (const DraftOutcome& outcome : outcomes) {
    has_drafts |= outcome.n_drafted > 0;
    learn_survival(outcome, &learnt);
  }
  const bool is_probe = learnt.n_idle_steps >= learnt.probe_interval;
  ++learnt.n_idle_steps;
  if (!has_drafts) return;
  learnt.n_idle_steps = 0;
  learnt.probe_interval = is_probe ? std::min(2 * learnt.probe_interval, kLastProbe) : kFirstProbe;
}

Status parse(std::string_view arguments, DraftLengthSpec&) {
  if (arguments.empty()) return ok_status();
  return invalid_argument("draft length 'goodput' takes no parameters: it measures");
}

DraftLengthState start(const DraftLengthSpec&) {
  DraftLengthState state;
  state.len = GoodputState::kMaxLen;
  state.goodput.probe_interval = kFirstProbe;
  return state;
}

DraftLengthState next(const DraftLengthSpec&, DraftLengthState state, std::span<const DraftOutcome>) { return state; }

}  // namespace

constexpr DraftLengthPolicy kGoodputPolicy{"goodput", "goodput", parse, start, next, choose, learn};

}  // namespace bass
