#include "speculation/policies/goodput.h"

#include <algorithm>

#include "base/check.h"

namespace bass {
namespace {

constexpr float kFirstSurvival = 0.7f;  // what is believed of a source that was never tried
constexpr float kSurvivalRate = 0.04f;  // weight of a new observation
constexpr float kCostRate = 0.15f;
constexpr float kCostClip = 1.5f;    // a measurement counts as at most so many times the old value: outliers
constexpr float kDriftRate = 0.03f;  // contexts grow and machines slow down: the whole table follows
constexpr double kMinGain = 1.05;    // over regular decoding, or nothing is drafted
constexpr int kGrowth = 2;           // rows of a step at most, in times of the most that was measured
constexpr int kProbeInterval = 96;   // steps without a draft after which one is tried again
constexpr float kThresholds[] = {0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f, 0.65f, 0.6f, 0.55f, 0.5f,
                                 0.45f, 0.4f, 0.35f, 0.3f, 0.25f, 0.2f, 0.15f, 0.1f, 0.05f};

int row_idx(int n_rows) { return std::clamp(n_rows, 1, GoodputState::kMaxRows); }

// Drafted tokens of one candidate whose survival is at least `threshold`, and the sum of their survivals.
int tokens_above(const GoodputState& state, const DraftCandidate& candidate, float threshold, double* expected) {
  const float* survival = state.survival[static_cast<size_t>(candidate.source)];
  float product = 1.0f;
  int len = 0;
  for (; len < std::min(candidate.max_len, GoodputState::kMaxLen); ++len) {
    product *= survival[len];
    if (product < threshold) break;
    *expected += product;
  }
  return len;
}

struct Option {
  double goodput = 0;      // tokens a second
  float threshold = 2.0f;  // above 1: nothing is drafted
};

Option evaluate(const GoodputState& state, int n_sequences, std::span<const DraftCandidate> candidates,
                float threshold) {
  double expected = n_sequences;
  int n_rows = n_sequences;
  int n_draft_steps = 0;
  for (const DraftCandidate& candidate : candidates) {
    const int len = tokens_above(state, candidate, threshold, &expected);
    n_rows += len;
    if (candidate.source == DraftSource::kModel) n_draft_steps = std::max(n_draft_steps, len);
  }
  if (n_rows > std::max(kGrowth * state.max_rows_seen, n_sequences)) return {};
  const double seconds =
      predicted_step_seconds(state, n_rows) + n_draft_steps * static_cast<double>(state.draft_step_s);
  return {seconds > 0 ? expected / seconds : 0, threshold};
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

void choose(const DraftLengthState& state, int n_sequences, std::span<DraftCandidate> candidates) {
  const GoodputState& learnt = state.goodput;
  for (DraftCandidate& candidate : candidates) candidate.len = 0;
  if (learnt.max_rows_seen == 0) return;  // the first step is a regular one: it is measured
  if (learnt.n_idle_steps >= kProbeInterval) return probe(candidates);
  const Option regular = evaluate(learnt, n_sequences, candidates, 2.0f);
  Option best{regular.goodput * kMinGain, 2.0f};
  for (const float threshold : kThresholds) {
    const Option option = evaluate(learnt, n_sequences, candidates, threshold);
    if (option.goodput > best.goodput) best = option;
  }
  if (best.threshold > 1.0f) return;
  for (DraftCandidate& candidate : candidates) {
    double unused = 0;
    candidate.len = tokens_above(learnt, candidate, best.threshold, &unused);
  }
}

void blend(float* value, float sample, float rate) {
  const float clipped = *value > 0 ? std::min(sample, kCostClip * *value) : sample;
  *value = *value > 0 ? *value + rate * (clipped - *value) : clipped;
}

// Entries that are not measured any more would go stale, and look cheaper than they are.
void follow_drift(GoodputState& state, const StepCost& cost) {
  const double predicted = predicted_step_seconds(state, cost.n_rows);
  if (predicted <= 0) return;
  const double ratio = std::clamp(cost.step_s / predicted, 1.0 / kCostClip, static_cast<double>(kCostClip));
  const auto factor = static_cast<float>(1.0 + kDriftRate * (ratio - 1.0));
  for (float& seconds : state.step_s) seconds *= factor;
}

void learn(DraftLengthState& state, std::span<const DraftOutcome> outcomes, const StepCost& cost) {
  GoodputState& learnt = state.goodput;
  bool has_drafts = false;
  for (const DraftOutcome& outcome : outcomes) {
    has_drafts |= outcome.n_drafted > 0;
    float* survival = learnt.survival[static_cast<size_t>(outcome.source)];
    // Tokens behind the first rejected one were not looked at.
    const int n_seen = std::min({outcome.n_drafted, outcome.n_accepted + 1, GoodputState::kMaxLen});
    for (int j = 0; j < n_seen; ++j)
      survival[j] += kSurvivalRate * ((j < outcome.n_accepted ? 1.0f : 0.0f) - survival[j]);
  }
  learnt.n_idle_steps = has_drafts ? 0 : learnt.n_idle_steps + 1;
  if (!cost.is_clean || cost.n_rows <= 0) return;
  follow_drift(learnt, cost);
  learnt.max_rows_seen = std::max(learnt.max_rows_seen, row_idx(cost.n_rows));
  blend(&learnt.step_s[row_idx(cost.n_rows)], static_cast<float>(cost.step_s), kCostRate);
  if (cost.n_draft_steps > 0) {
    blend(&learnt.draft_step_s, static_cast<float>(cost.draft_s / cost.n_draft_steps), kCostRate);
  }
}

Status parse(std::string_view arguments, DraftLengthSpec&) {
  if (arguments.empty()) return ok_status();
  return invalid_argument("draft length 'goodput' takes no parameters: it measures");
}

DraftLengthState start(const DraftLengthSpec&) {
  DraftLengthState state;
  state.len = GoodputState::kMaxLen;
  for (auto& source : state.goodput.survival) std::fill(std::begin(source), std::end(source), kFirstSurvival);
  return state;
}

DraftLengthState next(const DraftLengthSpec&, DraftLengthState state, std::span<const DraftOutcome>) { return state; }

}  // namespace

double predicted_step_seconds(const GoodputState& state, int n_rows) {
  const int wanted = row_idx(n_rows);
  int below = 0, before_below = 0, above = 0;
  for (int rows = 1; rows <= state.max_rows_seen; ++rows) {
    if (state.step_s[rows] <= 0) continue;
    if (rows <= wanted) {
      before_below = below;
      below = rows;
    } else if (above == 0) {
      above = rows;
    }
  }
  if (below == 0) return above == 0 ? 0 : state.step_s[above];
  const double at_below = state.step_s[below];
  const int from = above != 0 ? below : before_below;
  const int to = above != 0 ? above : below;
  if (from == 0 || wanted == below) return at_below;
  const double slope = (state.step_s[to] - state.step_s[from]) / static_cast<double>(to - from);
  return at_below + std::max(slope, 0.0) * (wanted - below);  // more rows never cost less: noise
}

constexpr DraftLengthPolicy kGoodputPolicy{"goodput", "goodput", parse, start, next, choose, learn};

}  // namespace bass
