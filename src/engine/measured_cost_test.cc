#include "engine/measured_cost.h"

#include <gtest/gtest.h>

#include <vector>

#include "speculation/step_prediction.h"

namespace bass {
namespace {

// Two sequences at positions 9 and 19, of which the first verifies two tokens that a draft model drafted.
class MeasuredCost : public ::testing::Test {
 protected:
  MeasuredCost() : plan_{}, result_{} {
    plan_.segments.resize(2);
    plan_.segments[0].start = 9;
    plan_.segments[0].n_model_drafts = 2;
    plan_.segments[1].start = 19;
    result_.segments.resize(2);
    result_.segments[0].n_drafted = 2;
    result_.draft_times.n_first = 1;
    result_.draft_times.n_later = 1;
    result_.draft_times.first_s = 0.25;
    result_.draft_times.later_s = 0.125;
  }

  [[nodiscard]] StepCost cost(bool has_chunk = false) const {
    return measured_cost(plan_, result_, kRegular, 1.0, has_chunk);
  }

  static constexpr StepLoad kRegular{2, 32, 30};
  StepPlan plan_;
  StepResult result_;
};

TEST_F(MeasuredCost, DraftedTokensAreRowsAndThePassesOfTheDraftAreApart) {
  const StepCost found = cost();
  EXPECT_TRUE(found.is_clean);
  EXPECT_EQ(found.n_rows, 4);
  EXPECT_EQ(found.n_seen, 30 + 2 * 10);
  EXPECT_EQ(found.n_read, 32);
  EXPECT_EQ(found.step_s, 0.625);
  EXPECT_EQ(found.draft_s, 0.375);
  EXPECT_EQ(found.n_draft_steps, 2);
  EXPECT_EQ(found.n_model_drafts, 2);
}

TEST_F(MeasuredCost, ATokenThatWasDroppedWasDraftedToo) {
  result_.segments[0].confidences = {0.9f, 0.8f, 0.1f};
  EXPECT_EQ(cost().n_model_drafts, 3);
  EXPECT_EQ(cost().n_rows, 4) << "but nobody verified it";
}

TEST_F(MeasuredCost, NGramsAreRowsButNoWorkOfTheDraftModel) {
  plan_.segments[0].n_model_drafts = 0;
  EXPECT_EQ(cost().n_rows, 4);
  EXPECT_EQ(cost().n_model_drafts, 0);
}

TEST_F(MeasuredCost, CatchingUpIsCountedByTheToken) {
  const std::vector<TokenId> missed(40, TokenId{1});
  plan_.segments[0].draft_tokens = missed;
  EXPECT_EQ(cost().n_caught_up, 40);
  EXPECT_EQ(cost().n_behind, 0);
  plan_.segments[0].draft_tokens = std::span(missed).first(5);
  EXPECT_EQ(cost().n_caught_up, 0);
  EXPECT_EQ(cost().n_behind, 3);
}

TEST_F(MeasuredCost, StepsThatTheDeviceCouldNotDoTeachNothing) {
  result_.segments[0].failed = true;  // the model's numbers were none, but it was computed
  EXPECT_TRUE(cost().is_clean);
  EXPECT_TRUE(was_run(plan_, result_));
  result_.segments[0].error = Status(StatusCode::kResourceExhausted, "no memory");
  EXPECT_FALSE(cost().is_clean);
  EXPECT_FALSE(was_run(plan_, result_));
}

TEST_F(MeasuredCost, StepsThatRecordGraphsOrReadPromptsTeachNothing) {
  EXPECT_FALSE(cost(/*has_chunk=*/true).is_clean);
  result_.graphs.replayed = 1;
  EXPECT_TRUE(cost().is_clean);
  result_.graphs.recorded = 1;
  EXPECT_FALSE(cost().is_clean);
  StepCosts costs;
  learn_step_cost(cost(), &costs);
  EXPECT_EQ(predicted_step_seconds(costs, {4, 32, 50}), 0);
  result_.graphs.recorded = 0;
  learn_step_cost(cost(), &costs);
  EXPECT_GT(predicted_step_seconds(costs, {4, 32, 50}), 0);
}

}  // namespace
}  // namespace bass
