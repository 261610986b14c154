#include "speculation/policies/goodput.h"

#include <algorithm>

#include "base/check.h"

namespace bass {
namespace {

constexpr float kFirstSurvival = 0.7f;  // what is believed of a source that was never tried
constexpr float kPriorWeight = 4.0f;    // observations that a belief is worth
constexpr float kMemory = 40.0f;        // observations that are remembered: drafts turn good and bad
constexpr float kMaxWeight = 400.0f;    // observations that count against what is believed
constexpr float kForget = 0.998f;       // of that weight, in each step that does not look: so much is tried again
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

struct Draft {
  DraftSource source = DraftSource::kModel;
  int len = 0;
  double expected = 0;  // tokens that are accepted
};

// The tokens of a source whose survival is at least `threshold`.
Draft tokens_above(const GoodputState& state, DraftSource source, int max_len, float threshold) {
  Draft draft{source};
  float product = 1.0f;
  float survival = kFirstSurvival;
  for (; draft.len < std::min(max_len, GoodputState::kMaxLen); ++draft.len) {
    survival = belief(state, source, draft.len, survival);
    product *= survival;
    if (product < threshold) break;
    draft.expected += product;
  }
  return draft;
}

struct Option {
  double goodput = 0;      // tokens a second
  float threshold = 2.0f;  // above 1: nothing is drafted
  bool uses_model = false;
};

// What a candidate drafts under an option: where both drafters could, the one from which more is expected. An n-gram's
// tokens cost nothing to draft, so it goes first among equals.
Draft draft_of(const GoodputState& state, const DraftCandidate& candidate, const Option& option) {
  const bool is_ngram = candidate.source != DraftSource::kModel;
  const int max_model_len = is_ngram ? candidate.max_model_len : candidate.max_len;
  Draft draft{candidate.source};
  if (is_ngram) draft = tokens_above(state, candidate.source, candidate.max_len, option.threshold);
  if (!option.uses_model || max_model_len == 0) return draft;
  const Draft other = tokens_above(state, DraftSource::kModel, max_model_len, option.threshold);
  return other.expected > draft.expected ? other : draft;
}

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
    const Draft draft = draft_of(batch.learnt, candidate, option);
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
    const Draft draft = draft_of(learnt, candidate, best);
    candidate.source = draft.source;
    candidate.len = draft.len;
  }
}

// Tokens behind the first rejected one were not looked at.
int n_looked_at(const DraftOutcome& outcome) {
  return std::min({outcome.n_drafted, outcome.n_accepted + 1, GoodputState::kMaxLen});
}

void learn_survival(const DraftOutcome& outcome, GoodputState* learnt) {
  float* survival = learnt->survival[static_cast<size_t>(outcome.source)];
  float* weight = learnt->weight[static_cast<size_t>(outcome.source)];
  for (int j = 0; j < n_looked_at(outcome); ++j) {
    weight[j] = std::min(weight[j] + 1, kMaxWeight);
    survival[j] += ((j < outcome.n_accepted ? 1.0f : 0.0f) - survival[j]) / std::min(weight[j], kMemory);
  }
}

// What nobody looked at in this step may have changed: another drafter took its place, or shorter drafts.
void forget_unseen(std::span<const DraftOutcome> outcomes, GoodputState* learnt) {
  int n_seen[kNumDraftSources] = {};
  for (const DraftOutcome& outcome : outcomes) {
    int& n = n_seen[static_cast<size_t>(outcome.source)];
    n = std::max(n, n_looked_at(outcome));
  }
  for (int source = 0; source < kNumDraftSources; ++source) {
    for (int j = n_seen[source]; j < GoodputState::kMaxLen; ++j) learnt->weight[source][j] *= kForget;
  }
}

void learn(DraftLengthState& state, std::span<const DraftOutcome> outcomes) {
  GoodputState& learnt = state.goodput;
  bool has_drafts = false;
  for (const DraftOutcome& outcome : outcomes) {
    has_drafts |= outcome.n_drafted > 0;
    learn_survival(outcome, &learnt);
  }
  forget_unseen(outcomes, &learnt);
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
