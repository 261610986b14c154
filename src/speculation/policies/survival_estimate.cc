#include "speculation/policies/survival_estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "speculation/policies/expected_drafts.h"

namespace bass {
namespace {

constexpr float kMemory = 40.0f;          // observations that are remembered: drafts turn good and bad
constexpr float kErrorRate = 0.1f;        // of the latest error in the mean ones
constexpr float kNewsRate = 0.5f;         // of an error that is all news in the estimate
constexpr float kLuck = 0.15f;            // mean error of a good draft's run of successes: no news
constexpr float kLeastNews = 0.05f;       // of a model's token: what was seen once is not certain
constexpr float kMaxWeight = 400.0f;      // observations that count against what is believed
constexpr float kForget = 0.998f;         // of that weight, in each step that does not look: so much is tried again
constexpr float kHopeFading = 0.8f;       // with each step that looks at the draft model's tokens
constexpr int32_t kMaxCounted = 1 << 30;  // steps: an engine may run for months
constexpr int kFirstProbe = 12;  // steps without a draft after which one is tried again; twice as many each time
                                 // that it is in vain, up to GoodputState::kLastProbe

constexpr int kStepsBetween = 16;  // computations of what is expected of confidences
constexpr float kMove = 0.2f;      // of the terms, after which it is computed at once

constexpr std::array<float, GoodputState::kMaxLen> filled_with(float value) {
  std::array<float, GoodputState::kMaxLen> values{};
  values.fill(value);
  return values;
}

float offset_of_class(int idx) {
  constexpr int kMiddle = GoodputState::kOffsets / 2;
  return expected_drafts::kOffsetStep * static_cast<float>(idx - kMiddle);
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

// How much of an error goes into the estimate because it is news. What has gone into it is no error any more.
// believed: the chance that the error is of
float learn_error(float error, float label_weight, float believed, size_t source, int j, GoodputState* learnt) {
  float& drift = learnt->drift[source][j];
  float& spread = learnt->spread[source][j];
  const float rate = kErrorRate * label_weight;
  drift += rate * (error - drift);
  spread += rate * (std::abs(error) - spread);
  const float signal = expected_drafts::tracking_signal(*learnt, source, j, kLuck * believed);
  const float news = kNewsRate * label_weight * signal * signal * signal * signal;
  drift *= 1 - news;
  spread *= 1 - news;
  return news;
}

// A mean of the chances by their weights: the mean over drafts whose tokens before it were accepted, whatever became of
// this one. Where it has changed, what was seen of the tokens behind it is old, too.
void learn_ngram(const DraftOutcome& outcome, GoodputState* learnt) {
  const auto source = static_cast<size_t>(outcome.source);
  float* survival = learnt->survival[source];
  float* weight = learnt->weight[source];
  float before = first_survival(outcome.source);
  for (int j = 0; j < n_looked_at(outcome); ++j) {
    const AcceptanceLabel label = label_of(outcome, j);
    if (label.weight <= 0) continue;
    before = survival_belief(*learnt, outcome.source, j, before);
    if (outcome.skills != nullptr) {
      DraftSkill& skill = outcome.skills->ngram;
      learn_skill(expected_drafts::with_offset(before, skill.offset), label.chance, label.weight, &skill);
    }
    const float error = label.chance - survival[j];
    const float news = learn_error(error, label.weight, survival[j], source, j, learnt);
    weight[j] = std::min(weight[j] + label.weight, kMaxWeight);
    survival[j] += std::max(label.weight / std::min(weight[j], kMemory), news) * error;
    for (int k = j + 1; k < GoodputState::kMaxLen; ++k) weight[k] *= 1 - news;
  }
}

// Where the draft model has turned good or bad, what is known of its confidence counts less.
void learn_news(const AcceptanceLabel& label, float believed, GoodputState* learnt) {
  constexpr auto kSource = static_cast<size_t>(DraftSource::kModel);
  float& weight = learnt->weight[kSource][0];
  weight = std::min(weight + label.weight, kMaxWeight);
  const float news = learn_error(label.chance - believed, label.weight, believed, kSource, 0, learnt);
  for (float& sum : learnt->confidence.information) sum *= 1 - news;
  const float distance =
      confidence_log_odds(std::clamp(label.chance, kLeastNews, 1 - kLeastNews)) - confidence_log_odds(believed);
  learnt->confidence.model.bias += news * distance;
}

// A mean of chances alone would take drafts for good that end before their bad tokens.
void learn_model(const DraftOutcome& outcome, GoodputState* learnt) {
  DraftSkill unknown;
  DraftSkill& skill = outcome.skills != nullptr ? outcome.skills->model : unknown;
  ConfidenceState& state = learnt->confidence;
  constexpr auto kUnknownConfidences = filled_with(kUnknownConfidence);
  const std::span<const float> confidences =
      outcome.confidences.empty()
          ? std::span(kUnknownConfidences)
                .first(static_cast<size_t>(std::clamp(outcome.n_drafted, 0, GoodputState::kMaxLen)))
          : outcome.confidences;
  const int n = std::min(n_looked_at(outcome), static_cast<int>(confidences.size()));
  for (int j = 0; j < n; ++j) {
    const AcceptanceLabel label = label_of(outcome, j);
    const float confidence = confidences[static_cast<size_t>(j)];
    const float believed = confident_chance(state.model, confidence, skill.offset);
    if (j == 0) learn_news(label, believed, learnt);
    learn_skill(believed, label.chance, label.weight, &skill);
    learn_chance(confidence, skill.offset, label.chance, label.weight, &state);
  }
  learn_confidences(confidences, &state);
}

void expect_stops(GoodputState* learnt) {
  for (int i = 0; i < GoodputState::kOffsets; ++i)
    learnt->stops[i] = expected_stops(learnt->confidence, offset_of_class(i));
  learnt->n_until_stops = kStepsBetween;
  learnt->stops_of = learnt->confidence.model;
}

// Since then.
bool has_moved(const GoodputState& learnt) {
  const ConfidenceTerms& now = learnt.confidence.model;
  return std::abs(now.bias - learnt.stops_of.bias) + std::abs(now.slope - learnt.stops_of.slope) > kMove;
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

// The same for all: what is expected takes as long as a small model's step, and each request asks.
DraftLengthState start_survival(const DraftLengthSpec&) {
  static const DraftLengthState first = [] {
    DraftLengthState state;
    state.len = GoodputState::kMaxLen;
    state.goodput.probe_interval = kFirstProbe;
    expect_stops(&state.goodput);
    return state;
  }();
  return first;
}

void learn_survival(DraftLengthState& state, std::span<const DraftOutcome> outcomes) {
  GoodputState& learnt = state.goodput;
  bool has_drafts = false;
  bool has_verified = false;
  bool has_looked = false;
  for (const DraftOutcome& outcome : outcomes) {
    const bool is_draft = outcome.n_drafted > 0 || !outcome.confidences.empty();
    has_drafts |= is_draft;
    has_verified |= is_draft && !outcome.is_look;
    if (outcome.source == DraftSource::kModel) {
      learn_model(outcome, &learnt);
      has_looked |= outcome.n_drafted > 0;  // tokens that were dropped tell nothing
    } else {
      learn_ngram(outcome, &learnt);
    }
  }
  fade_chances(has_looked, &learnt.confidence);
  if (has_looked) learnt.hope *= kHopeFading;
  if (--learnt.n_until_stops <= 0 || has_moved(learnt)) expect_stops(&learnt);
  forget_unseen(outcomes, &learnt);
  const bool is_try = is_probe_due(learnt);
  const bool is_used = std::exchange(learnt.has_verified, has_verified);  // this is no try
  const auto count = [](int32_t* n) { *n = std::min(*n + 1, kMaxCounted); };
  count(&learnt.n_idle_steps);
  count(&learnt.n_untried_steps);
  count(&learnt.n_drafted_steps);
  if (!has_verified) learnt.n_drafted_steps = 0;
  if (!has_drafts) return;
  learnt.n_idle_steps = 0;
  if (!has_verified || (!is_used && !is_try)) return;
  learnt.n_untried_steps = 0;
  learnt.probe_interval = is_used ? kFirstProbe : std::min(2 * learnt.probe_interval, GoodputState::kLastProbe);
}

double expected_accepted(const DraftLengthState& state, const DraftOutcome& outcome) {
  const SequenceSkills skills = outcome.skills != nullptr ? *outcome.skills : SequenceSkills{};
  if (outcome.source != DraftSource::kModel)
    return ngram_above(state.goodput, outcome.source, outcome.n_drafted, 0.0f, skills.ngram.offset).expected;
  double expected = 0;
  float survival = 1;
  for (int j = 0; j < outcome.n_drafted; ++j) {
    const auto i = static_cast<size_t>(j);
    const float confidence = i < outcome.confidences.size() ? outcome.confidences[i] : kUnknownConfidence;
    survival *= confident_chance(state.goodput.confidence.model, confidence, skills.model.offset);
    expected += survival;
  }
  return expected;
}

}  // namespace bass
