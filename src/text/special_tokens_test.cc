#include "text/special_tokens.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(SpecialTokensTest, TheLeftmostThenTheLongestMatches) {
  SpecialTokens special;
  special.add("<a>", 1);
  special.add("<a><b>", 2);
  special.add("a><", 3);
  special.add("<a>", 4);  // the first one counts
  special.add("", 5);     // ignored
  const auto expect_match = [&](std::string_view text, size_t from, size_t begin, size_t n_bytes, TokenId id) {
    const std::optional<SpecialTokens::Match> match = special.find(text, from);
    ASSERT_TRUE(match.has_value()) << text;
    EXPECT_EQ(match->begin, begin);
    EXPECT_EQ(match->n_bytes, n_bytes);
    EXPECT_EQ(match->id, id);
  };
  expect_match("<a>", 0, 0, 3, 1);
  expect_match("x<a><b>", 0, 1, 6, 2);
  expect_match("x<a><c>", 0, 1, 3, 1);
  expect_match("<a>..<a>", 1, 5, 3, 1);
  expect_match("<<a>", 0, 1, 3, 1);
  expect_match("<a><b>", 1, 1, 3, 3);
  EXPECT_FALSE(special.find("<a", 0).has_value());
  EXPECT_FALSE(special.find("", 0).has_value());
}

TEST(SpecialTokensTest, NoneNeverMatch) { EXPECT_FALSE(SpecialTokens().find("abc", 0).has_value()); }

}  // namespace
}  // namespace bass
