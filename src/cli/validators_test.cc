#include "cli/validators.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(Validators, WholeNumbers) {
  const CLI::Validator check = whole_number(1, 1000);
  EXPECT_EQ(check("1"), "");
  EXPECT_EQ(check("1000"), "");
  for (const char* bad : {"0", "1001", "-1", "1.0", "010", "x", "", "1 ", "99999999999999999999"}) {
    EXPECT_EQ(check(bad), std::string(bad) + ": must be a whole number from 1 to 1000");
  }
  EXPECT_EQ(check.get_description(), "");
}

TEST(Validators, Numbers) {
  EXPECT_EQ(number_from(0, 1)("0.5"), "");
  EXPECT_EQ(number_from(0, 1)("1"), "");
  EXPECT_EQ(number_from(0, 1)("nan"), "nan: must be a number from 0 to 1");
  EXPECT_EQ(positive_number()("1e-3"), "");
  for (const char* bad : {"0", "-1", "inf", "nan", ""}) {
    EXPECT_EQ(positive_number()(bad), std::string(bad) + ": must be a number > 0");
  }
}

TEST(Validators, Texts) {
  EXPECT_EQ(not_empty()("a"), "");
  EXPECT_EQ(not_empty()(""), ": must be a text that is not empty");
}

TEST(Validators, Names) {
  EXPECT_EQ(one_of({"a", "b"})("b"), "");
  EXPECT_EQ(one_of({"a", "b"})("c"), "c: must be a or b");
  EXPECT_EQ(one_of({"a", "b", "c"})("d"), "d: must be a, b or c");
}

}  // namespace
}  // namespace bass
