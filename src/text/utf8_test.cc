#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace bass {
namespace {

TEST(Utf8Test, EveryCodePointRoundTrips) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    std::string text;
    append_utf8(code_point, text);
    const Utf8Char c = first_utf8_char(text);
    const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
    ASSERT_EQ(c.valid, !is_surrogate) << static_cast<uint32_t>(code_point);
    if (is_surrogate) continue;
    ASSERT_EQ(c.code_point, code_point);
    ASSERT_EQ(c.n_bytes, text.size());
  }
}

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("na\u00efve \U0001F600"));
  EXPECT_EQ(find_invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(find_invalid_utf8("\u00e9\x80"), 2u);
  EXPECT_EQ(find_invalid_utf8("a\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(find_invalid_utf8("a\xE0\x9F\xBF"), 1u);      // overlong
  EXPECT_EQ(find_invalid_utf8("a\xED\xA0\x80"), 1u);      // surrogate
  EXPECT_EQ(find_invalid_utf8("a\xF4\x90\x80\x80"), 1u);  // beyond U+10FFFF
  EXPECT_EQ(find_invalid_utf8("a\xF5\x80\x80\x80"), 1u);
  EXPECT_EQ(find_invalid_utf8("a\xE2\x82"), 1u);
}

// The examples of the Unicode standard, tables 3-8 to 3-11.
TEST(Utf8Test, ReplacesMaximalSubparts) {
  const std::string r(kReplacementChar);
  EXPECT_EQ(to_valid_utf8("a\xF1\x80\x80\xE1\x80\xC2"
                          "b\x80"
                          "c\x80\xBF"
                          "d"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                          "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                          "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(to_valid_utf8("\xF4\x91\x92\x93\xFF"
                          "A\x80\xBF"
                          "B"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                          "A"),
            r + r + r + r + "A");
  EXPECT_EQ(to_valid_utf8("A\xF0\x9F\x98"), "A" + r);
}

TEST(Utf8Test, TellsCutFromBroken) {
  EXPECT_TRUE(first_utf8_char("\xF0\x9F\x98").cut);
  EXPECT_TRUE(first_utf8_char("\xE2").cut);
  EXPECT_FALSE(first_utf8_char("\xE2"
                               "a")
                   .cut);
  EXPECT_FALSE(first_utf8_char("\xE0\x80").cut);
  EXPECT_FALSE(first_utf8_char("\xFF").cut);
}

}  // namespace
}  // namespace bass
