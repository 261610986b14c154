#include "speculation/policies/survival.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "speculation/draft_testing.h"

namespace bass {
namespace {

DraftLengthState start(const std::string& text) {
  const DraftLengthSpec spec = parse_draft_length(text).value();
  return spec.policy->start(spec);
}

void teach(DraftLengthState* state, const std::vector<DraftOutcome>& outcomes, int n_steps = 300) {
  for (int i = 0; i < n_steps; ++i) kSurvivalPolicy.learn(*state, outcomes);
}

// What a device makes of the choice: the candidate's len is what it drafts. The costs are of a machine on which each
// row costs a step: the policy does not care. confidences: of the tokens that the draft model has looked at
DraftCandidate choose(const DraftLengthState& state, DraftCandidate candidate,
                      std::span<const float>* confidences = nullptr) {
  StepCosts costs;
  for (int rows = 1; rows <= 64; ++rows) learn_step_cost({rows, 1.0 * rows, true}, &costs);
  kSurvivalPolicy.choose(state, costs, StepLoad{1}, {&candidate, 1});
  const std::span<const float> looked_at = testing::end_draft(&candidate);
  if (confidences != nullptr) *confidences = looked_at;
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
  state.min_survival = 1e-6f;  // tokens of so little survival are planned, and end by the stop
  EXPECT_EQ(choose(state, {DraftSource::kModel, 8, 0, -1}).len, 8);
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
    std::span<const float> confidences;
    const int len = choose(state, {DraftSource::kModel, 8, 0, -1}, &confidences).len;
    if (len > 0 && !is_good) tries.push_back(step);
    if (is_good) n_drafted_when_good += len;
    is_good = step >= 1000;
    const std::vector<DraftOutcome> outcomes = {{len, is_good ? len : 0, DraftSource::kModel, {}, confidences}};
    teach(&state, confidences.empty() ? std::vector<DraftOutcome>{} : outcomes, 1);
  }
  ASSERT_GE(tries.size(), 4u);
  EXPECT_LE(tries.size(), 25u);
  EXPECT_GT(n_drafted_when_good, 500);
}

}  // namespace
}  // namespace bass
