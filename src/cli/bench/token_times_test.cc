#include "cli/bench/token_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TokenTimes::Time at(double seconds) {
  return TokenTimes::Time(
      std::chrono::duration_cast<TokenTimes::Time::duration>(std::chrono::duration<double>(seconds)));
}

TEST(TokenTimes, CountFromWhenAllHaveBegun) {
  TokenTimes times;
  times.note(7, 1, at(1));
  times.note(7, 1, at(2));  // others' prompts were read
  times.note(8, 1, at(3));
  times.note(7, 2, at(4));
  times.note(8, 2, at(5));
  times.note(8, 2, at(6));
  times.note(7, 1, at(9));
  EXPECT_THAT(times.seconds_per_token(), ElementsAre(DoubleNear(3.0 / 4, 1e-6), DoubleNear(6.0 / 3, 1e-6)))
      << "8 ended first";
}

TEST(TokenTimes, SayNothingOfSequencesThatDidNotRunTogether) {
  TokenTimes times;
  times.note(1, 1, at(1));
  times.note(1, 5, at(2));
  times.note(2, 1, at(3));
  times.note(2, 5, at(4));
  EXPECT_TRUE(times.seconds_per_token().empty());
  EXPECT_TRUE(TokenTimes().seconds_per_token().empty());
}

}  // namespace
}  // namespace bass
