#include "speculation/policies/bass.h"

#include <gtest/gtest.h>

#include <vector>

namespace bass {
namespace {

// One step of a trace: accepted drafts of the sequences (all of which drafted the current length), and the length and s
// that Algorithm 1 gives next. All traces are worked out by hand.
struct TraceStep {
  std::vector<int> accepted;
  int len;
  int n_shrinks;
};

void expect_trace(const std::string& text, const std::vector<TraceStep>& steps) {
  const Result<DraftLengthSpec> spec = parse_draft_length(text);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  DraftLengthState state = spec.value().policy->start(spec.value());
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<DraftOutcome> outcomes;
    for (const int n_accepted : steps[i].accepted) outcomes.push_back({state.len, n_accepted});
    state = spec.value().policy->next(spec.value(), state, outcomes);
    EXPECT_EQ(state.len, steps[i].len) << text << ", step " << i;
    EXPECT_EQ(state.n_shrinks, steps[i].n_shrinks) << text << ", step " << i;
  }
}

TEST(BassDraftLength, GrowsByTwoWhileOneSequenceAcceptsAll) {
  expect_trace("bass", {{{7, 0, 3}, 9, 0}, {{1, 9}, 11, 0}, {{11}, 13, 0}, {{13, 13}, 15, 0}});
}

TEST(BassDraftLength, ShrinksByATenthAndFasterAfterAShrink) {
  // 7 - ceil(.7) = 6; 6 - 1 - 1 = 4; 4 - 1 - 1 = 2; 2 - 1 - 1 = 0, at least 1; then stays at 1.
  expect_trace("bass", {{{0, 2}, 6, 1}, {{1, 0}, 4, 1}, {{0}, 2, 1}, {{0}, 1, 1}, {{0}, 1, 1}, {{1}, 3, 0}});
}

TEST(BassDraftLength, NeverBelowTheBestAcceptedLength) {
  // 7 - 1 = 6 against max(x) = 6; then 6 - 1 - 1 = 4 against 5; then 5 - 1 - 1 = 3 against 4; s cleared by growth.
  expect_trace("bass", {{{6, 1}, 6, 1}, {{5, 0, 2}, 5, 1}, {{4}, 4, 1}, {{4, 0}, 6, 0}, {{2}, 5, 1}});
}

TEST(BassDraftLength, StopsAtTheLimit) {
  expect_trace("bass:l0=29", {{{29}, 31, 0}, {{31}, 32, 0}, {{32, 4}, 32, 0}, {{31}, 31, 1}, {{0}, 26, 1}});
  // 32 - ceil(3.2) - 0 = 28 when nobody holds it up; 28 - 3 - 1 = 24.
  expect_trace("bass:l0=32", {{{0}, 28, 1}, {{3, 2}, 24, 1}});
}

TEST(BassDraftLength, OtherParameters) {
  // l0 4, inc 3, max 9, div 4: 4 -> 7 -> 9 (capped); 9 - ceil(9/4) = 6; 6 - 2 - 1 = 3.
  expect_trace("bass:l0=4,inc=3,max=9,div=4", {{{4}, 7, 0}, {{7}, 9, 0}, {{1}, 6, 1}, {{0}, 3, 1}});
}

TEST(BassDraftLength, BatchThatShrinksAndSequencesThatDraftedLess) {
  const DraftLengthSpec spec = parse_draft_length("bass").value();
  // Three sequences; the one that ran out of tokens drafted 2 and accepted both: it says nothing about length 7.
  BassLength state = next_bass_length(spec, {7, 0}, std::vector<DraftOutcome>{{7, 3}, {2, 2}, {7, 1}});
  EXPECT_EQ(state.len, 6);
  EXPECT_EQ(state.n_shrinks, 1);
  // Two are left, one of them without a draft.
  state = next_bass_length(spec, state, std::vector<DraftOutcome>{{6, 6}, {0, 0}});
  EXPECT_EQ(state.len, 8);
  EXPECT_EQ(state.n_shrinks, 0);
  // One is left and its drafter found only 5 tokens: no sequence drafted 8, nothing changes.
  state = next_bass_length(spec, state, std::vector<DraftOutcome>{{5, 5}});
  EXPECT_EQ(state.len, 8);
  // Nobody is left.
  state = next_bass_length(spec, state, {});
  EXPECT_EQ(state.len, 8);
  EXPECT_EQ(state.n_shrinks, 0);
}

}  // namespace
}  // namespace bass
