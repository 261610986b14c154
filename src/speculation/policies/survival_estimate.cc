#include "speculation/policies/survival_estimate.h"

#include <algorithm>

namespace bass {
namespace {

constexpr float kPriorWeight = 4.0f;  // observations that a belief is worth
constexpr float kMemory = 40.0f;      // observations that are remembered: drafts turn good and bad
constexpr float kMaxWeight = 400.0f;  // observations that count against what is believed
constexpr float kForget = 0.998f;     // of that weight, in each step that does not look: so much is tried again
constexpr int kFirstProbe = 12;       // steps without a draft after which one is tried again; twice as many each time
constexpr int kLastProbe = 192;       // that it is in vain, up to this

// The tokens of a source whose survival is at least `threshold`.
ExpectedDraft tokens_above(const GoodputState& state, DraftSource source, int max_len, float threshold) {
  ExpectedDraft draft{source};
  float product = 1.0f;
  float survival = kFirstSurvival;
  for (; draft.len < std::min(max_len, GoodputState::kMaxLen); ++draft.len) {
    survival = survival_belief(state, source, draft.len, survival);
    product *= survival;
    if (product < threshold) break;
    draft.expected += product;
  }
  return draft;
}

// Without labels: tokens behind the first rejected one were not looked at.
int n_looked_at(const DraftOutcome& outcome) {
  const int n = outcome.labels.empty() ? std::min(outcome.n_drafted, outcome.n_accepted + 1)
                                       : static_cast<int>(outcome.labels.size());
  return std::min(n, GoodputState::kMaxLen);
}

AcceptanceLabel label_of(const DraftOutcome& outcome, int j) {
  if (outcome.labels.empty()) return {j < outcome.n_accepted ? 1.0f : 0.0f, 1.0f};
  return outcome.labels[static_cast<size_t>(j)];
}

// A mean of the chances by their weights: the mean over drafts whose tokens before it were accepted, whatever became of
// this one.
void learn_outcome(const DraftOutcome& outcome, GoodputState* learnt) {
  float* survival = learnt->survival[static_cast<size_t>(outcome.source)];
  float* weight = learnt->weight[static_cast<size_t>(outcome.source)];
  for (int j = 0; j < n_looked_at(outcome); ++j) {
    const AcceptanceLabel label = label_of(outcome, j);
    weight[j] = std::min(weight[j] + label.weight, kMaxWeight);
    if (label.weight > 0) survival[j] += label.weight * (label.chance - survival[j]) / std::min(weight[j], kMemory);
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

}  // namespace

DraftLengthState start_survival(const DraftLengthSpec&) {
  DraftLengthState state;
  state.len = GoodputState::kMaxLen;
  state.goodput.probe_interval = kFirstProbe;
  return state;
}

void learn_survival(DraftLengthState& state, std::span<const DraftOutcome> outcomes) {
  GoodputState& learnt = state.goodput;
  bool has_drafts = false;
  for (const DraftOutcome& outcome : outcomes) {
    has_drafts |= outcome.n_drafted > 0;
    learn_outcome(outcome, &learnt);
  }
  forget_unseen(outcomes, &learnt);
  const bool is_probe = is_probe_due(learnt);
  ++learnt.n_idle_steps;
  if (!has_drafts) return;
  learnt.n_idle_steps = 0;
  learnt.probe_interval = is_probe ? std::min(2 * learnt.probe_interval, kLastProbe) : kFirstProbe;
}

float survival_belief(const GoodputState& state, DraftSource source, int j, float before) {
  const float weight = state.weight[static_cast<size_t>(source)][j];
  const float seen = state.survival[static_cast<size_t>(source)][j];
  return (weight * seen + kPriorWeight * before) / (weight + kPriorWeight);
}

ExpectedDraft draft_above(const GoodputState& state, const DraftCandidate& candidate, float threshold,
                          bool uses_model) {
  const bool is_ngram = candidate.source != DraftSource::kModel;
  const int max_model_len = is_ngram ? candidate.max_model_len : candidate.max_len;
  ExpectedDraft draft{candidate.source};
  if (is_ngram) draft = tokens_above(state, candidate.source, candidate.max_len, threshold);
  if (!uses_model || max_model_len == 0) return draft;
  const ExpectedDraft other = tokens_above(state, DraftSource::kModel, max_model_len, threshold);
  return other.expected > draft.expected ? other : draft;
}

double expected_accepted(const DraftLengthState& state, const DraftOutcome& outcome) {
  return tokens_above(state.goodput, outcome.source, outcome.n_drafted, 0.0f).expected;
}

bool is_probe_due(const GoodputState& state) { return state.n_idle_steps >= state.probe_interval; }

void probe(std::span<DraftCandidate> candidates) {
  size_t n_left = (candidates.size() + 7) / 8;
  for (DraftCandidate& candidate : candidates) {
    if (n_left == 0 || candidate.max_len == 0) continue;
    candidate.len = 1;
    --n_left;
  }
}

}  // namespace bass
