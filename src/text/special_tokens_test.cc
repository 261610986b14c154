#include "text/special_tokens.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(SpecialTokensTest, TheLeftmostThenTheLongestMatches) {
  SpecialTokens special;
  special.add("<a>", {.id = 1}, false);
  special.add("<a><b>", {.id = 2}, false);
  special.add("a><", {.id = 3}, false);
  special.add("<a>", {.id = 4}, false);  // the first one counts
  special.add("", {.id = 5}, false);     // ignored
  const auto expect_match = [&](std::string_view text, size_t from, size_t begin, size_t n_bytes, TokenId id) {
    const std::optional<SpecialTokens::Match> match = special.find(text, from, from, true);
    ASSERT_TRUE(match.has_value()) << text;
    EXPECT_EQ(match->begin, begin);
    EXPECT_EQ(match->end - match->begin, n_bytes);
    EXPECT_EQ(match->id, id);
  };
  expect_match("<a>", 0, 0, 3, 1);
  expect_match("x<a><b>", 0, 1, 6, 2);
  expect_match("x<a><c>", 0, 1, 3, 1);
  expect_match("<a>..<a>", 1, 5, 3, 1);
  expect_match("<<a>", 0, 1, 3, 1);
  expect_match("<a><b>", 1, 1, 3, 3);
  EXPECT_FALSE(special.find("<a", 0, 0, true).has_value());
  EXPECT_FALSE(special.find("", 0, 0, true).has_value());
}

TEST(SpecialTokensTest, ControlTokensHideWhatOverlapsThem) {
  SpecialTokens special;
  special.add("<a>", {.id = 1}, true);
  special.add("a>b", {.id = 2}, false);
  EXPECT_EQ(special.find("<a>b", 0, 0, true)->id, 1);
  EXPECT_FALSE(special.find("<a>b", 0, 0, false).has_value());
  EXPECT_EQ(special.find("<a>a>b", 0, 0, false)->id, 2);
}

TEST(SpecialTokensTest, TokensTakeSpacesAndStandAlone) {
  SpecialTokens special;
  special.add("<m>", {.id = 1, .strips_left = true, .strips_right = true}, false);
  special.add("word", {.id = 2, .is_single_word = true}, false);
  const auto mask = special.find("a \u3000<m>\n b", 0, 0, false);
  EXPECT_EQ(mask->begin, 1u);
  EXPECT_EQ(mask->next, 8u);
  EXPECT_EQ(mask->end, 10u);
  EXPECT_EQ(special.find("a  <m>", 0, 2, false)->begin, 2u);  // the first space is taken
  EXPECT_EQ(special.find("swords word_ word", 0, 0, false)->begin, 13u);
  EXPECT_FALSE(special.find("\u00e9word", 0, 0, false).has_value());
}

TEST(SpecialTokensTest, NoneNeverMatch) { EXPECT_FALSE(SpecialTokens().find("abc", 0, 0, true).has_value()); }

}  // namespace
}  // namespace bass
