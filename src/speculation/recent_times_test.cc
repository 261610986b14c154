#include "speculation/recent_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <random>

namespace bass {
namespace {

RecentTimes times_of(std::initializer_list<float> seconds) {
  RecentTimes times;
  for (const float s : seconds) add_time(s, RecentTimes::kMax, &times);
  return times;
}

TEST(RecentTimes, TheTypicalOneIsAmongTheShorter) {
  EXPECT_EQ(typical_seconds({}), 0);
  EXPECT_FLOAT_EQ(typical_seconds(times_of({2})), 2.0f);
  EXPECT_FLOAT_EQ(typical_seconds(times_of({2, 1})), 1.3f);
  EXPECT_FLOAT_EQ(typical_seconds(times_of({9, 1, 1, 50, 1})), 1.0f);
}

TEST(RecentTimes, OnlyTheLatestCount) {
  RecentTimes times;
  for (int i = 0; i < RecentTimes::kMax; ++i) add_time(1, RecentTimes::kMax, &times);
  for (int i = 0; i < RecentTimes::kMax - 1; ++i) add_time(3, RecentTimes::kMax, &times);
  EXPECT_EQ(times.n, RecentTimes::kMax);
  EXPECT_FLOAT_EQ(typical_seconds(times), 3.0f);
  add_time(5, 0, &times);
  EXPECT_EQ(times.n, 1);
  EXPECT_FLOAT_EQ(typical_seconds(times), 5.0f);
  add_time(4, 100, &times);
  EXPECT_EQ(times.seconds[0], 4) << "newest first";
  EXPECT_EQ(times.seconds[1], 5);
}

// What others' work does to a quarter of the times moves the mean by a third.
TEST(RecentTimes, OthersWorkHardlyMovesTheTypicalOne) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> uniform;
  double sum_typical = 0, sum_mean = 0;
  constexpr int kRuns = 1000;
  for (int run = 0; run < kRuns; ++run) {
    RecentTimes times;
    double mean = 0;
    for (int i = 0; i < RecentTimes::kMax; ++i) {
      const float seconds = uniform(random) < 0.25f ? 1.5f + 2 * uniform(random) : 0.97f + 0.06f * uniform(random);
      add_time(seconds, RecentTimes::kMax, &times);
      mean += seconds / RecentTimes::kMax;
    }
    sum_typical += std::abs(std::log(typical_seconds(times)));
    sum_mean += std::abs(std::log(mean));
  }
  EXPECT_LT(sum_typical / kRuns, 0.02);
  EXPECT_GT(sum_mean / kRuns, 0.2) << "control";
}

}  // namespace
}  // namespace bass
