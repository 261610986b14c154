#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTest, AHistogramCountsWhatTookAtMostSoLong) {
  SecondsHistogram histogram;
  for (const double seconds : {0.0, 0.001, 0.0011, 0.3, 60.0, 61.0}) histogram.add(seconds);
  const auto cumulative = histogram.cumulative();
  EXPECT_EQ(cumulative[0], 2);  // a bound is its own bucket's
  EXPECT_EQ(cumulative[1], 3);
  EXPECT_EQ(cumulative[7], 3);                                     // 0.2 s
  EXPECT_EQ(cumulative[8], 4);                                     // 0.5 s
  EXPECT_EQ(cumulative[SecondsHistogram::kBounds.size() - 1], 5);  // 60 s
  EXPECT_EQ(cumulative.back(), 6);
  EXPECT_DOUBLE_EQ(histogram.sum_s(), 121.3021);
}

TEST(MetricsTest, Text) {
  CallTimes times;
  times.first_token.add(0.25);
  const std::string text =
      metrics_text({.running = 3, .answered = 5}, {.waiting = 1, .running = 2}, times, EngineStats{});
  EXPECT_THAT(text, HasSubstr("# TYPE bass_calls_running gauge\nbass_calls_running 3\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE bass_calls_answered_total counter\nbass_calls_answered_total 5\n"));
  EXPECT_THAT(text, HasSubstr("\nbass_prompts_waiting 1\n"));
  EXPECT_THAT(text, HasSubstr("\nbass_prompts_running 2\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE bass_time_to_first_token_seconds histogram\n"
                              "bass_time_to_first_token_seconds_bucket{le=\"0.001\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("_bucket{le=\"0.2\"} 0\nbass_time_to_first_token_seconds_bucket{le=\"0.5\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("bass_time_to_first_token_seconds_bucket{le=\"+Inf\"} 1\n"
                              "bass_time_to_first_token_seconds_sum 0.25\n"
                              "bass_time_to_first_token_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("bass_call_duration_seconds_count 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace bass
