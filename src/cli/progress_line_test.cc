#include "cli/progress_line.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(DurationText, CountsSecondsMinutesAndHours) {
  EXPECT_EQ(duration_text(-1), "0 s");
  EXPECT_EQ(duration_text(59.9), "59 s");
  EXPECT_EQ(duration_text(60), "1:00");
  EXPECT_EQ(duration_text(725), "12:05");
  EXPECT_EQ(duration_text(3599), "59:59");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(1e300), "100:00:00");
}

TEST(TimeLeftText, IsWhatTheRestTakesAtThisPace) {
  EXPECT_EQ(time_left_text(10, 30, 60), "  3:01 left");
  EXPECT_EQ(time_left_text(1, 1, 0.5), "  1 s left");
  EXPECT_EQ(time_left_text(1, int64_t{1} << 62, 1), "  100:00:00 left");
}

TEST(TimeLeftText, IsEmptyWhereNothingIsKnownOrLeft) {
  EXPECT_EQ(time_left_text(0, 30, 60), "");
  EXPECT_EQ(time_left_text(10, 0, 60), "");
  EXPECT_EQ(time_left_text(10, 30, 0), "");
}

}  // namespace
}  // namespace bass
