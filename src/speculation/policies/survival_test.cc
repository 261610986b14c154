#include "speculation/policies/survival.h"

#include <gtest/gtest.h>

#include <array>

#include <string>
#include <vector>

namespace bass {
namespace {

DraftLengthState start(const std::string& text) {
  const DraftLengthSpec spec = parse_draft_length(text).value();
  return spec.policy->start(spec);
}

void teach(DraftLengthState* state, const std::vector<DraftOutcome>& outcomes, int n_steps = 300) {
  for (int i = 0; i < n_steps; ++i) kSurvivalPolicy.learn(*state, outcomes);
}

// Of a draft model that is always as sure.
constexpr std::array<float, 8> kConfidences{0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};

// What a device makes of the choice: the candidate's len is what it drafts. The costs are of a machine on which each
// row costs a step: the policy does not care. n_looked_at: tokens whose confidence is known then
DraftCandidate choose(const DraftLengthState& state, DraftCandidate candidate, int* n_looked_at = nullptr) {
  StepCosts costs;
  for (int rows = 1; rows <= 64; ++rows) learn_step_cost({rows, 1.0 * rows, true}, &costs);
  kSurvivalPolicy.choose(state, costs, StepLoad{1}, {&candidate, 1});
  int n = 0;
  if (candidate.source == DraftSource::kModel)
    candidate.len = drafted_len(candidate.stop, std::span(kConfidences).first(candidate.len), &n);
  if (n_looked_at != nullptr) *n_looked_at = n;
  return candidate;
}

// Of four tokens one is accepted every other time, and else none: chances are 1/2, and 0 behind it.
const std::vector<DraftOutcome> kHalf = {{4, 1, DraftSource::kModel}, {4, 0, DraftSource::kModel}};

TEST(Survival, DraftsTheTokensWhoseChanceIsAtLeastTheThreshold) {
  DraftLengthState state = start("survival:min=0.3");
  teach(&state, kHalf);
  EXPECT_EQ(choose(state, {DraftSource::kModel, 8, 0, -1}).len, 1);
  state.min_survival = 0.7f;
  EXPECT_EQ(choose(state, {DraftSource::kModel, 8, 0, -1}).len, 0);
  state.min_survival = 0.0f;
  EXPECT_EQ(choose(state, {DraftSource::kModel, 8, 0, -1}).len, 8);
  EXPECT_EQ(choose(state, {DraftSource::kModel, 2, 0, -1}).len, 2) << "never more than there is";
}

TEST(Survival, TheFirstStepDraftsWhatIsBelievedOfADraftThatWasNeverTried) {
  EXPECT_EQ(choose(start("survival"), {DraftSource::kNgram5, 8, 0, -1}).len, 3);  // 0.6^3 >= 0.2 > 0.6^4
  EXPECT_EQ(choose(start("survival:min=0.5"), {DraftSource::kNgram5, 8, 0, -1}).len, 1);
}

TEST(Survival, TakesTheDrafterFromWhichMoreIsExpected) {
  DraftLengthState state = start("survival");
  teach(&state, {{4, 4, DraftSource::kNgram5}, {4, 0, DraftSource::kNgram2}, {4, 2, DraftSource::kModel}});
  EXPECT_EQ(choose(state, {DraftSource::kNgram5, 4, 8, -1}).source, DraftSource::kNgram5);
  EXPECT_EQ(choose(state, {DraftSource::kNgram2, 4, 8, -1}).source, DraftSource::kModel);
  EXPECT_EQ(choose(state, {DraftSource::kNgram2, 4, 0, -1}).len, 0) << "there is no draft model";
}

TEST(Survival, ABadDraftIsRarelyTriedAgainAndUsedWhenItIsGood) {
  DraftLengthState state = start("survival");
  teach(&state, {{4, 0, DraftSource::kModel}});
  std::vector<int> tries;
  bool is_good = false;
  int n_drafted_when_good = 0;
  for (int step = 0; step < 3000; ++step) {
    int n_looked_at = 0;
    const int len = choose(state, {DraftSource::kModel, 8, 0, -1}, &n_looked_at).len;
    if (len > 0 && !is_good) tries.push_back(step);
    if (is_good) n_drafted_when_good += len;
    is_good = step >= 1000;
    const std::vector<DraftOutcome> outcomes = {
        {len, is_good ? len : 0, DraftSource::kModel, {}, std::span<const float>(kConfidences).first(n_looked_at)}};
    teach(&state, n_looked_at > 0 ? outcomes : std::vector<DraftOutcome>{}, 1);
  }
  ASSERT_GE(tries.size(), 4u);
  EXPECT_LE(tries.size(), 25u);
  EXPECT_GT(n_drafted_when_good, 500);
}

}  // namespace
}  // namespace bass
