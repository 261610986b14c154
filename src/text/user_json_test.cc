#include "text/user_json.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support/growth.h"

namespace bass {
namespace {

std::string nested(int depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

std::string json_error(const std::string& text) { return parse_user_json(text).status().message(); }

TEST(UserJson, KeepsTheOrderOfKeys) {
  const auto json = parse_user_json(R"({"b": 1, "a": [true, null]})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json.value().dump(), R"({"b":1,"a":[true,null]})");
}

TEST(UserJson, ReadsEveryKindOfValue) {
  const std::string text =
      R"({"a":[],"b":{},"c":[-1,18446744073709551615,0.5,1e-3,true,false,null,"\u00e9\n"],"d":{"e":{"f":[[1]]}}})";
  const auto json = parse_user_json(text);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json.value(), nlohmann::ordered_json::parse(text));
  EXPECT_EQ(parse_user_json(" 7 ").value(), 7);
  EXPECT_EQ(parse_user_json("\"a\"").value(), "a");
}

// A megabyte is read in less than a second; where time grew with the square of its parts, in minutes.
TEST(UserJson, TakesNoLongerForManyParts) {
  std::string objects = "[{}", keys = "{\"k\": 0";
  for (int i = 0; i < 300'000; ++i) objects += ",{}";
  for (int i = 0; i < 100'000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(parse_user_json(objects + "]").value().size(), 300'001);
  EXPECT_EQ(parse_user_json(keys + "}").value().size(), 100'001);
}

TEST(UserJson, LineEndsAreEscapedWhereverTheyAre) {
  EXPECT_EQ(with_escaped_line_ends(""), "");
  EXPECT_EQ(with_escaped_line_ends("\u00e9\u201c\u00a0"), "\u00e9\u201c\u00a0");
  EXPECT_EQ(with_escaped_line_ends("\u0085\u2028a\u00e9\u2029\u0085"), "\\u0085\\u2028a\u00e9\\u2029\\u0085");
  EXPECT_EQ(with_escaped_line_ends("a\xC2"), "a\xC2") << "cut";
}

TEST(UserJson, EscapingManyLineEndsTakesNoLongTime) {
  const auto escape = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "\u2028";
    EXPECT_EQ(with_escaped_line_ends(std::move(text)).size(), static_cast<size_t>(6 * n));
  };
  EXPECT_LT(testing::growth(100'000, escape), testing::kMostGrowth);
}

TEST(UserJson, RefusesWhatIsNestedTooDeep) {
  EXPECT_TRUE(parse_user_json(nested(kMaxJsonDepth, "[", "]")).ok());
  EXPECT_TRUE(parse_user_json(nested(kMaxJsonDepth, "{\"a\":", "}")).ok());
  for (const int depth : {kMaxJsonDepth + 1, 1'000'000}) {
    EXPECT_EQ(json_error(nested(depth, "[", "]")), "nested deeper than 64 levels; make it flatter");
    EXPECT_EQ(json_error(nested(depth, "{\"a\":", "}")), "nested deeper than 64 levels; make it flatter");
    EXPECT_EQ(json_error(nested(depth, "[{\"a\":", "")), "nested deeper than 64 levels; make it flatter");
  }
}

TEST(UserJson, RefusesAKeyThatIsThereTwice) {
  EXPECT_EQ(json_error(R"({"a": 1, "a": 2})"), "\"a\": is there twice");
  EXPECT_EQ(json_error(R"([{"x": {"b": 1, "b": 2}}])"), "\"b\": is there twice");
  EXPECT_TRUE(parse_user_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})").ok());
}

TEST(UserJson, SaysWhereItStopsBeingJson) {
  EXPECT_EQ(json_error("[1, 2"), "not valid JSON (at byte 6)");
  EXPECT_EQ(json_error(std::string("[1]\0[2]", 7)), "not valid JSON (at byte 3)");
  EXPECT_EQ(json_error("[1e999]"), "holds a number that is too large");
  EXPECT_EQ(json_error("[1] 2"), "not valid JSON (at byte 5)");
  EXPECT_EQ(json_error("{\"a\" 1}"), "not valid JSON (at byte 6)");
  EXPECT_FALSE(parse_user_json("").ok());
  EXPECT_FALSE(parse_user_json("\"\xFF\"").ok());
}

}  // namespace
}  // namespace bass
