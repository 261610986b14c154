#include "speculation/step_costs.h"

#include <gtest/gtest.h>

#include "speculation/step_prediction.h"

namespace bass {
namespace {

void measure(StepCosts& costs, int n_rows, double seconds, int n_times = 1) {
  for (int i = 0; i < n_times; ++i) learn_step_cost({n_rows, seconds, true}, &costs);
}

float predicted(const StepCosts& costs, int n_rows) {
  return static_cast<float>(predicted_step_seconds(costs, StepLoad{n_rows}));
}

TEST(StepCosts, PredictsBetweenAndBeyondWhatWasMeasured) {
  StepCosts costs;
  EXPECT_EQ(predicted(costs, 5), 0);
  costs.max_rows_seen = 20;
  costs.step_s[8] = 2.0f;
  EXPECT_FLOAT_EQ(predicted(costs, 4), 1.4f) << "a further row is believed to cost a part of those before it";
  EXPECT_FLOAT_EQ(predicted(costs, 24), 4.4f);
  costs.step_s[20] = 5.0f;
  costs.scatter = 0;
  EXPECT_FLOAT_EQ(predicted(costs, 12), 3.0f);
  EXPECT_FLOAT_EQ(predicted(costs, 24), 6.0f);
  costs.step_s[20] = 1.0f;
  EXPECT_GT(predicted(costs, 12), 1.4f) << "noise: more rows never count as cheaper";
}

// Else drafts behind the table's last entry would look free, and what they took would be held against that entry.
TEST(StepCosts, StepsOfMoreRowsThanTheTableHasFollowItsSlope) {
  constexpr int kFull = StepCosts::kMaxRows;
  const auto rising = [](int n_rows) { return 1.0 + 0.02 * n_rows; };
  StepCosts costs;
  for (int n_rows = kFull / 8; n_rows <= kFull; n_rows += kFull / 8) measure(costs, n_rows, rising(n_rows), 20);
  EXPECT_NEAR(predicted(costs, 2 * kFull) / rising(2 * kFull), 1.0, 0.02);
  measure(costs, 2 * kFull, rising(2 * kFull), 40);
  EXPECT_NEAR(predicted(costs, kFull) / rising(kFull), 1.0, 0.02);
  EXPECT_NEAR(predicted(costs, 2 * kFull) / rising(2 * kFull), 1.0, 0.02);

  StepCosts free;
  for (int n_rows = kFull / 8; n_rows <= kFull; n_rows += kFull / 8) measure(free, n_rows, 1.0, 20);
  EXPECT_NEAR(predicted(free, 2 * kFull), 1.0, 0.02);

  measure(free, 4 * kFull, 1.3, 40);
  EXPECT_NEAR(predicted(free, 4 * kFull), 1.3, 0.1);
  EXPECT_LT(predicted(free, kFull), 1.3);

  StepCosts unknown;  // all steps are larger
  measure(unknown, 2 * kFull, 3.0, 20);
  EXPECT_NEAR(predicted(unknown, 2 * kFull), 3.0, 0.1);
}

TEST(StepCosts, AnEngineMayRunForMonths) {
  StepCosts costs;
  measure(costs, 4, 1.0, 20);
  costs.n_steps = StepCosts::kMaxSteps - 2;
  measure(costs, 8, 2.0);
  EXPECT_TRUE(is_step_stale(costs, 4));
  for (int i = 0; i < 3; ++i) measure(costs, 8, 2.0);
  EXPECT_LT(costs.n_steps, StepCosts::kMaxSteps);
  EXPECT_EQ(costs.last_measured[8], costs.n_steps);
  EXPECT_EQ(costs.last_measured[4], 1) << "long ago, and not never";
  EXPECT_EQ(costs.last_measured[5], 0);
  EXPECT_TRUE(is_step_stale(costs, 4));
  EXPECT_NEAR(predicted(costs, 8), 2.0, 0.01);
}

TEST(StepCosts, WhereTimesScatterSizesAroundItCountAndWhereNotEdgesStay) {
  StepCosts even;
  StepCosts uneven;
  for (int round = 0; round < 4; ++round) {
    for (int rows = 20; rows <= 40; ++rows) {
      const double edge = rows > 32 ? 2.0 : 1.0;
      measure(even, rows, edge);
      // Others' work, of which 36 rows are spared and 37 get too much.
      const double disturbed = rows == 36 ? 1.0 : rows == 37 ? 2.0 : round % 2 == 0 ? 1.0 : 2.0;
      measure(uneven, rows, rows / 30.0 * disturbed);
    }
  }
  EXPECT_GT(predicted(even, 33) / predicted(even, 32), 1.8f);
  EXPECT_LT(predicted(uneven, 37) / predicted(uneven, 36), 1.5f) << "by their own times: 2";
}

// The sizes around it would hide that nine rows take longer than eight, as long as nothing else is known of eight.
TEST(StepCosts, ATilesEdgeStaysWhereTimesScatter) {
  const auto edged = [](int n_rows) { return n_rows <= 8 ? 1.0 + 0.02 * n_rows : 1.8; };
  StepCosts costs;
  for (const int n_rows : {4, 6, 7, 9, 10, 12, 16}) measure(costs, n_rows, edged(n_rows), 12);
  costs.scatter = 0.2f;
  EXPECT_NEAR(predicted(costs, 8), edged(8), 0.05);
  EXPECT_NEAR(predicted(costs, 11), edged(11), 0.05);
}

TEST(StepCosts, AFirstMeasurementCountsBesideWhatWasKept) {
  StepCosts costs;
  costs.max_rows_seen = 16;
  for (const int n_rows : {4, 8, 16}) {
    costs.step_s[n_rows] = n_rows == 8 ? 1.2f : 2.0f;
    costs.n_measured[n_rows] = 4;
  }
  costs.step_s[4] = 1.0f;
  costs.scatter = 0.15f;
  measure(costs, 4, 1.0, 12);
  const float kept = predicted(costs, 8);
  measure(costs, 8, 1.2);
  EXPECT_NEAR(predicted(costs, 8), kept, 0.01) << "it was measured to be as it was: no reason to believe others more";
}

TEST(StepCosts, OthersWorkIsInTheMeanAndNotInWhatIsCompared) {
  StepCosts costs;
  for (int i = 0; i < 200; ++i) measure(costs, 8, i % 4 == 0 ? 3.0 : 1.0);
  EXPECT_NEAR(predicted(costs, 8), 1.0, 0.01);
  EXPECT_NEAR(mean_step_seconds(costs, StepLoad{8}), 1.5, 0.15);
}

// Of a size that only a burst of others' work was met in, the others say that it cannot be so dear.
TEST(StepCosts, AFirstTimeThatWasDisturbedDoesNotMakeLargerStepsDear) {
  StepCosts costs;
  measure(costs, 1, 1.0, 12);
  measure(costs, 2, 1.1, 12);
  measure(costs, 3, 3.6);
  EXPECT_LT(predicted(costs, 3), 2.0f);
  EXPECT_LT(predicted(costs, 4), 3.0f);
}

TEST(StepCosts, OneOutlierCountsLittleAndPromptsNothing) {
  StepCosts costs;
  measure(costs, 4, 1.0, 50);
  measure(costs, 4, 100.0);
  EXPECT_LT(predicted_step_seconds(costs, StepLoad{4}), 1.2);
  learn_step_cost({4, 100.0, /*is_clean=*/false}, &costs);
  EXPECT_LT(predicted_step_seconds(costs, StepLoad{4}), 1.2);
}

TEST(StepCosts, ABurstOfSlowStepsTeachesLittle) {
  StepCosts costs;
  measure(costs, 8, 1.0, 20);
  measure(costs, 10, 1.2, 20);
  measure(costs, 8, 1.0, 20);
  const double before = predicted_step_seconds(costs, StepLoad{8});
  for (const double seconds : {2.7, 1.7, 1.5}) measure(costs, 8, seconds);
  EXPECT_DOUBLE_EQ(predicted_step_seconds(costs, StepLoad{8}), before);
  measure(costs, 8, 1.5, 60);
  EXPECT_NEAR(predicted_step_seconds(costs, StepLoad{8}), 1.5, 0.1) << "many say that the machine is slower";
}

TEST(StepCosts, ASizeThatIsMeasuredNowAndThenIsLearntToBeDearer) {
  StepCosts costs;
  for (int i = 0; i < 20; ++i) {
    measure(costs, 8, 1.0);
    measure(costs, 10, 1.2);
  }
  for (int i = 0; i < 40; ++i) {
    measure(costs, 8, 1.0);
    measure(costs, 10, 2.0);
  }
  EXPECT_GT(predicted_step_seconds(costs, StepLoad{10}) / predicted_step_seconds(costs, StepLoad{8}), 1.6);
}

// A size that is tried now and then, to see whether it got cheaper, and one that followed others while it was not
// measured. Longer times are believed as before: any may be another program's doing.
TEST(StepCosts, OneMuchShorterTimeIsEnoughWhereWhatIsKnownIsOld) {
  constexpr int kTried = 8, kUsed = 32;
  StepCosts costs;
  measure(costs, kTried, 2.0, 20);
  const StepCosts recent = costs;
  measure(costs, kUsed, 4.0, 2 * StepCosts::kStaleSteps);
  const StepCosts old = costs;
  measure(costs, kTried, 1.0);
  EXPECT_NEAR(costs.step_s[kTried], 1.0, 0.02);
  EXPECT_NEAR(costs.step_s[kUsed], 4.0, 0.02) << "others do not follow a single time";
  costs = recent;
  measure(costs, kUsed, 4.0, StepCosts::kStaleSteps + 1);
  measure(costs, kTried, 1.0);
  EXPECT_NEAR(costs.step_s[kTried], 1.0, 0.02);
  EXPECT_LT(costs.step_s[kUsed], 3.0) << "both were measured lately: the machine may be faster";
  measure(costs, kUsed, 4.0, 12);
  EXPECT_NEAR(costs.step_s[kUsed], 4.0, 0.02) << "or not";
  costs = old;
  measure(costs, kTried, 3.0);
  EXPECT_NEAR(costs.step_s[kTried], 2.0, 0.02);
  costs = old;
  measure(costs, kTried, 1.7);
  EXPECT_GT(costs.step_s[kTried], 1.8) << "times differ by so much";
  costs = recent;
  measure(costs, kTried, 1.0);
  EXPECT_GT(costs.step_s[kTried], 1.8) << "measured just now: one of twelve";

  // What is used gets dearer, and what is not is believed to: but it is as it was.
  costs = StepCosts();
  measure(costs, kTried, 2.0, 20);
  measure(costs, kUsed, 4.0, 20);
  measure(costs, kUsed, 40.0, 20);
  EXPECT_GT(costs.step_s[kTried], 6.0);
  measure(costs, kTried, 2.0);
  EXPECT_NEAR(costs.step_s[kTried], 2.0, 0.02);
  EXPECT_NEAR(costs.step_s[kUsed], 40.0, 0.5);
}

TEST(StepCosts, WhatWasMeasuredBeforeTheMachineChangedIsStale) {
  StepCosts costs;
  measure(costs, 4, 1.0, 50);
  measure(costs, 16, 2.0, 10);
  EXPECT_FALSE(is_step_stale(costs, 4));
  for (const double seconds : {2.4, 2.9, 3.5}) measure(costs, 16, seconds, 20);
  EXPECT_TRUE(is_step_stale(costs, 4));
}

TEST(StepCosts, APassThatCatchesUpSaysNothingOfOthers) {
  StepCosts costs;
  learn_step_cost({6, 1.0, true, 1, 1, 0.1}, &costs);
  StepCost caught_up{6, 1.0, true, 1, 1, 5.0};
  caught_up.n_caught_up = 100;
  learn_step_cost(caught_up, &costs);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 1, 1)), 0.1f);
}

// A process' first steps take longer than later ones. The sizes that were not measured yet must not be held back by
// them.
TEST(StepCosts, WhatWasKeptFollowsTheShorterOfTheLatestSteps) {
  StepCosts costs;
  costs.max_rows_seen = 8;
  for (const int n_rows : {1, 4, 8}) {
    costs.step_s[n_rows] = 1.0f + 0.1f * static_cast<float>(n_rows);
    costs.n_measured[n_rows] = 4;
  }
  costs.draft_step_s[0] = 0.1f;
  measure(costs, 1, 3.3);  // three times as long as it was
  EXPECT_FLOAT_EQ(costs.step_s[8], 5.4f) << "a slower machine, for all that is known";
  measure(costs, 4, 1.4, 3);
  EXPECT_FLOAT_EQ(costs.step_s[8], 1.8f);
  EXPECT_NEAR(predicted_draft_seconds(costs, 1, 1), 0.1, 0.01);
  measure(costs, 4, 2.8, 12);
  EXPECT_FLOAT_EQ(costs.step_s[8], 3.6f) << "now it is slower";
}

// A pass that looks dear is not taken, so nothing would correct it.
TEST(StepCosts, APassThatAnotherProgramMadeLongIsDoubtedUntilItIsMeasuredAgain) {
  StepCosts costs;
  for (const int n_rows : {1, 2, 4, 8}) measure(costs, n_rows, 1.0 + 0.1 * n_rows, 20);
  costs.draft_step_s[0] = 0.1f;
  costs.draft_step_s[2] = 0.9f;  // an earlier run's
  EXPECT_LT(predicted_draft_seconds(costs, 1, 4), 0.3);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 1, 1)), 0.1f);
  for (int i = 0; i < StepCosts::kGoodTimes; ++i) learn_step_cost({8, 1.8, true, 1, 4, 0.9}, &costs);
  EXPECT_NEAR(predicted_draft_seconds(costs, 1, 4), 0.9, 0.01);
}

TEST(StepCosts, ReadingWhatWasNotFollowedIsLearntByTheToken) {
  StepCosts costs;
  EXPECT_EQ(predicted_catch_up_seconds(costs, 50), 0) << "not measured";
  learn_step_cost({6, 1.0, true, 1, 1, 0.1}, &costs);
  StepCost caught_up{6, 1.0, true, 1, 1, 5.1};
  caught_up.n_caught_up = 100;
  learn_step_cost(caught_up, &costs);
  EXPECT_NEAR(predicted_catch_up_seconds(costs, 50), 2.5, 1e-5);
  EXPECT_EQ(predicted_catch_up_seconds(costs, -1), 0);
  measure(costs, 6, 1.25, 60);
  EXPECT_GT(predicted_catch_up_seconds(costs, 50), 2.6) << "follows the machine";
}

// Else one pass that other programs held up makes drafts look dear for good: nobody reads any more, so nobody measures.
TEST(StepCosts, AReadingThatWasHeldUpIsBoundedAndForgotten) {
  StepCosts costs;
  learn_step_cost({6, 1.0, true, 1, 1, 0.1}, &costs);
  const auto read = [&](double seconds) {
    StepCost caught_up{6, 1.0, true, 1, 1, seconds};
    caught_up.n_caught_up = 10;
    learn_step_cost(caught_up, &costs);
    return predicted_catch_up_seconds(costs, 10);
  };
  EXPECT_NEAR(read(200), 1.0, 1e-5) << "ten passes of a token";
  for (int i = 0; i < 3; ++i) read(0.2);
  EXPECT_NEAR(read(0.2), 0.1, 1e-5);
}

TEST(StepCosts, WhatAPassReadsOfALittleIsTakenOutOfIt) {
  StepCosts costs;
  for (int i = 0; i < 20; ++i) learn_step_cost({6, 1.0, true, 1, 1, 0.1}, &costs);
  StepCost caught_up{6, 1.0, true, 1, 1, 5.1};
  caught_up.n_caught_up = 100;  // 0.05 a token
  learn_step_cost(caught_up, &costs);
  StepCost behind{6, 1.0, true, 1, 1, 0.45};
  behind.n_behind = 7;
  for (int i = 0; i < 20; ++i) learn_step_cost(behind, &costs);
  EXPECT_NEAR(predicted_draft_seconds(costs, 1, 1), 0.1, 1e-3);
  behind.n_behind = 0;
  for (int i = 0; i < 20; ++i) learn_step_cost(behind, &costs);
  EXPECT_NEAR(predicted_draft_seconds(costs, 1, 1), 0.45, 1e-3) << "else it is the pass that takes so long";
}

TEST(StepCosts, PassesOfTheDraftModelFollowTheMachine) {
  StepCosts costs;
  for (int i = 0; i < 20; ++i) learn_step_cost({6, 1.0, true, 1, 1, 0.1}, &costs);
  measure(costs, 6, 1.25, 60);
  EXPECT_GT(predicted_draft_seconds(costs, 1, 1), 0.11);
}

TEST(StepCosts, WhatIsNotMeasuredAnyMoreFollowsTheMachine) {
  StepCosts costs;
  measure(costs, 4, 1.0, 50);
  measure(costs, 16, 2.0, 50);
  const double before = predicted_step_seconds(costs, StepLoad{4});
  measure(costs, 16, 6.0, 200);
  EXPECT_NEAR(predicted_step_seconds(costs, StepLoad{16}), 6.0, 0.3);
  EXPECT_GT(predicted_step_seconds(costs, StepLoad{4}), 1.5 * before) << "the machine is slower for fewer rows too";
}

TEST(StepCosts, AnEntryOfAnEarlierRunGivesWayAndTheOthersFollow) {
  StepCosts costs;
  costs.max_rows_seen = 16;
  for (const int rows : {4, 8, 16}) {
    costs.step_s[rows] = static_cast<float>(rows);
    costs.n_measured[rows] = 4;
  }
  measure(costs, 4, 8.0);
  EXPECT_FLOAT_EQ(costs.step_s[4], 8.0f);
  EXPECT_FLOAT_EQ(costs.step_s[16], 32.0f) << "the machine is half as fast today";
  measure(costs, 16, 32.0 * 4);
  EXPECT_FLOAT_EQ(costs.step_s[16], 128.0f);
  EXPECT_FLOAT_EQ(costs.step_s[8], 16.0f) << "by the faster of both: the other one may have been disturbed";
  EXPECT_FLOAT_EQ(costs.step_s[4], 8.0f) << "what is measured stays";
}

TEST(StepCosts, AnEntryThatWasNotMeasuredForLongMovesAlone) {
  StepCosts costs;
  measure(costs, 4, 2.0, 50);
  measure(costs, 16, 2.0, 200);
  EXPECT_TRUE(is_step_stale(costs, 4));
  EXPECT_FALSE(is_step_stale(costs, 16));
  EXPECT_TRUE(is_step_stale(costs, 8)) << "never measured";
  measure(costs, 4, 1.0, 3);
  EXPECT_FALSE(is_step_stale(costs, 4));
  EXPECT_LT(predicted_step_seconds(costs, StepLoad{4}), 1.7);
  EXPECT_GT(predicted_step_seconds(costs, StepLoad{16}), 1.95);
}

// Of a step that reads prompts the sequences' own part is left out, or few rows of a prompt would look dear.
TEST(StepCosts, WhatARowAddsToAStepThatReadsPrompts) {
  const auto row_s = [](int n_chunk_rows, int n_drafted, double step_s) {
    StepCosts costs;
    for (int i = 0; i < 20; ++i) learn_step_cost({4, 0.004, true}, &costs);
    learn_chunk_cost({4 + n_drafted, step_s}, n_chunk_rows, {4}, &costs);
    return costs.chunk_row_s;
  };
  EXPECT_NEAR(row_s(256, 0, 0.132), 0.0005, 1e-6);
  EXPECT_NEAR(row_s(250, 6, 0.132), 0.0005, 1e-6);
  EXPECT_NEAR(row_s(3, 0, 0.0043), 0.0001, 1e-6) << "not a seventh of the step";
  EXPECT_NEAR(row_s(3, 0, 0.0035), 0.00005, 1e-6) << "faster than without: a tenth of its mean";
  EXPECT_NEAR(row_s(1, 0, 0.0500), 0.0100, 1e-6) << "held up: no more than its mean";
  EXPECT_EQ(row_s(0, 4, 0.005), 0) << "no prompt was read";
  StepCosts first;
  learn_chunk_cost({0, 0.1}, 200, {}, &first);
  EXPECT_NEAR(first.chunk_row_s, 0.0005, 1e-6);
}

TEST(StepCosts, PassesOfTheDraftModelAreCountedOneByOneAndByTheirSize) {
  StepCosts costs;
  EXPECT_EQ(predicted_draft_seconds(costs, 3, 3), 0);
  learn_step_cost({6, 1.0, true, 5, 5, 0.5}, &costs);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_step_seconds(costs, StepLoad{6})), 1.0f);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 3, 3)), 0.3f);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 2, 80)), 0.2f) << "the nearest that was measured";
  learn_step_cost({40, 1.0, true, 2, 64, 0.8}, &costs);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 2, 80)), 0.8f);
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 3, 3)), 0.3f);
  EXPECT_EQ(predicted_draft_seconds(costs, 0, 0), 0);
  learn_step_cost({512, 1.0, true, 1, 100000, 2.0}, &costs);  // more than there are sizes
  EXPECT_FLOAT_EQ(static_cast<float>(predicted_draft_seconds(costs, 1, 2000)), 2.0f);
}

}  // namespace
}  // namespace bass
