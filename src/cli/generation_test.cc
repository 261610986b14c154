#include "cli/generation.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(TakeFromBudget, LeavesTheRestOfIt) {
  Request request;
  EXPECT_TRUE(take_from_budget(5, &request));
  EXPECT_FALSE(request.time_budget_s.has_value()) << "there is none";
  request.time_budget_s = 2;
  EXPECT_TRUE(take_from_budget(0.5, &request));
  EXPECT_EQ(request.time_budget_s, 1.5);
}

TEST(TakeFromBudget, SaysWhereNothingIsLeft) {
  for (const double elapsed_s : {2.0, 7.0}) {
    Request request;
    request.time_budget_s = 2;
    EXPECT_FALSE(take_from_budget(elapsed_s, &request));
    EXPECT_GT(request.time_budget_s, 0) << "a request's budget is more than nothing";
  }
}

}  // namespace
}  // namespace bass
