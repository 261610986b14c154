#include "engine/machine.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

constexpr MachineLimits kLimits{.bandwidth_gb_s = 10, .peak_tops = {2, 0.5}};

Work make_work(double bytes, double int8_operations, double f32_operations) {
  return {.bytes = bytes, .operations = {int8_operations, f32_operations}};
}

TEST(Limit, IsReadingWhereThatTakesLonger) {
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(20e9, 1e12, 0.25e12), kLimits), 2);
}

TEST(Limit, IsTheSumOverTheClassesWhereComputingTakesLonger) {
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(1e9, 2e12, 0.5e12), kLimits), 2);  // neither alone: each takes 1 s
}

TEST(Limit, LeavesOutWhatWasNotMeasured) {
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(1e9, 2e12, 1e12), {.bandwidth_gb_s = 0, .peak_tops = {2, 0}}), 1);
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(1e9, 2e12, 1e12), {}), 0);
}

TEST(Limit, FractionIsLimitOverTime) {
  EXPECT_DOUBLE_EQ(limit_fraction(make_work(20e9, 0, 0), kLimits, 8), 0.25);
  EXPECT_DOUBLE_EQ(limit_fraction(make_work(20e9, 0, 0), kLimits, 0), 0);
}

TEST(Limit, RaisingKeepsTheHigherOfEach) {
  MachineLimits limits = kLimits;
  limits.raise({.bandwidth_gb_s = 5, .peak_tops = {3, 0.1}});
  EXPECT_DOUBLE_EQ(limits.bandwidth_gb_s, 10);
  EXPECT_DOUBLE_EQ(limits.peak_tops[0], 3);
  EXPECT_DOUBLE_EQ(limits.peak_tops[1], 0.5);
}

TEST(Limit, EveryClassHasAPeak) {
  const Result<MachineLimits> limits = measure_limits(1, 1 << 20);
  ASSERT_TRUE(limits.ok());
  EXPECT_GT(limits.value().bandwidth_gb_s, 0);
  for (const double peak : limits.value().peak_tops) EXPECT_GT(peak, 0);
}

}  // namespace
}  // namespace bass
