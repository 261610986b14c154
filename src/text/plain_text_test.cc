#include "text/plain_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PlainText, LowersLettersAndTakesBlanksAway) {
  EXPECT_EQ(lower_case("Q4_K \xC3\x89z"), "q4_k \xC3\x89z");
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(PlainText, SizesAreReadable) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(98362432), "93.8 MiB");
  EXPECT_THAT(bytes_text(int64_t{1} << 62), Not(HasSubstr("B B")));
}

}  // namespace
}  // namespace bass
