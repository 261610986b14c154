#include "text/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "text/grammar/grammar_testing.h"

namespace bass {
namespace {

using ::testing::HasSubstr;
using Sequence = Grammar::Sequence;

Grammar finished(GrammarBuilder& builder, const Sequence& root) {
  Result<Grammar> grammar = builder.finish(root);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  return std::move(grammar).value();
}

// By the table of Unicode's chapter 3.9, surrogates too.
std::string utf8(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(static_cast<uint8_t>(value)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 + c / 64), byte(0x80 + c % 64)};
  if (c < 0x10000) return {byte(0xE0 + c / 4096), byte(0x80 + c / 64 % 64), byte(0x80 + c % 64)};
  return {byte(0xF0 + c / 262144), byte(0x80 + c / 4096 % 64), byte(0x80 + c / 64 % 64), byte(0x80 + c % 64)};
}

// Each code point near a border, and some of all others.
void expect_exactly(const std::vector<CodePointRange>& ranges) {
  GrammarBuilder builder;
  const Grammar grammar = finished(builder, builder.character(ranges));
  size_t n_wrong = 0;
  EarleyRecogniser recogniser(grammar);
  for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
    bool is_in = false;
    for (const CodePointRange& range : ranges) is_in |= range.first <= c && c <= range.last;
    is_in &= c < 0xD800 || c > 0xDFFF;
    // Far from every border, each 251st is enough.
    bool is_near = c < 0x900;
    for (const char32_t border : {char32_t{0xD7FF}, char32_t{0xDFFF}, char32_t{0xFFFF}, kMaxCodePoint})
      is_near |= c + 80 > border && c < border + 80;
    for (const CodePointRange& range : ranges) {
      for (const char32_t border : {range.first, range.last}) is_near |= c + 80 > border && c < border + 80;
    }
    if (!is_near && c % 251 != 0) continue;
    n_wrong += recogniser.matches(utf8(c)) != is_in ? 1 : 0;
  }
  EXPECT_EQ(n_wrong, 0U) << "from " << static_cast<uint32_t>(ranges.front().first);
}

TEST(GrammarTest, CharactersAreUtf8) {
  expect_exactly({{0, kMaxCodePoint}});
  expect_exactly({{0x7F, 0x80}});
  expect_exactly({{0x7FF, 0x800}});
  expect_exactly({{0xD7FF, 0xE000}});
  expect_exactly({{0xFFFF, 0x10000}});
  expect_exactly({{0x10FFFF, 0x10FFFF}});
  expect_exactly({{0x41, 0x5A}, {0xE4, 0xFC}, {0x20AC, 0x20AC}, {0x1F600, 0x1F64F}});
  expect_exactly({{0x7E, 0x10FFFE}});
  expect_exactly({{0x345, 0x12345}});
  expect_exactly({{0x10401, 0x50403}});
}

TEST(GrammarTest, NoCharacterIsASurrogateOrTwoBytesTooLong) {
  GrammarBuilder builder;
  const Grammar grammar = finished(builder, builder.character(std::vector<CodePointRange>{{0, kMaxCodePoint}}));
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\x80", "\xFF", "\xC3", "", "ab"}) {
    EXPECT_FALSE(matches(grammar, text)) << ::testing::PrintToString(text);
  }
  GrammarBuilder other;
  const Grammar none = finished(other, other.character(std::vector<CodePointRange>{{0xD800, 0xDFFF}}));
  EXPECT_FALSE(matches(none, ""));
  EXPECT_FALSE(matches(none, "\xED\xA0\x80"));
}

TEST(GrammarTest, Repeats) {
  struct Case {
    int min;
    std::optional<int> max;
  };
  for (const Case& times :
       std::initializer_list<Case>{{0, 0}, {0, 1}, {2, 2}, {1, 4}, {0, std::nullopt}, {3, std::nullopt}}) {
    GrammarBuilder builder;
    const Grammar grammar = finished(builder, builder.repeat(builder.text("ab"), times.min, times.max));
    std::string text;
    for (int n = 0; n < 8; ++n, text += "ab") {
      EXPECT_EQ(matches(grammar, text), n >= times.min && (!times.max || n <= *times.max)) << times.min << " " << n;
      EXPECT_FALSE(matches(grammar, text + "a"));
    }
  }
}

TEST(GrammarTest, OptionalPartsNest) {
  GrammarBuilder builder;
  const Sequence inner = builder.optional(builder.text("c"));
  const Sequence middle = builder.optional(builder.concat({builder.text("b"), inner}));
  const Sequence maybe_twice = builder.repeat(builder.optional(middle), 0, std::nullopt);
  const Grammar grammar = finished(builder, builder.concat({builder.text("a"), maybe_twice}));
  for (const char* text : {"a", "ab", "abc", "abb", "abcb", "abcbc"}) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const char* text : {"", "b", "ac", "abcc", "aa"}) EXPECT_FALSE(matches(grammar, text)) << text;
}

TEST(GrammarTest, RulesMayReferToThemselvesFromWithin) {
  GrammarBuilder builder;
  const Grammar::RuleId nest = builder.declare();
  builder.define(nest, {builder.concat({builder.text("("), builder.rule(nest), builder.text(")")}), {}});
  const Grammar grammar = finished(builder, builder.rule(nest));
  for (const char* text : {"", "()", "((()))"}) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const char* text : {"(", ")(", "(()", "()()"}) EXPECT_FALSE(matches(grammar, text)) << text;
}

TEST(GrammarTest, NoAlternativeMatchesNothing) {
  GrammarBuilder builder;
  const Grammar grammar = finished(builder, builder.any_of({}));
  EXPECT_FALSE(matches(grammar, ""));
  EXPECT_FALSE(matches(grammar, "a"));
}

TEST(GrammarTest, LeftRecursionIsRefused) {
  GrammarBuilder direct;
  const Grammar::RuleId sum = direct.declare();
  direct.define(sum, {direct.concat({direct.rule(sum), direct.text("+1")}), direct.text("1")});
  EXPECT_THAT(direct.finish(direct.rule(sum)).status().message(), HasSubstr("refers to itself"));

  GrammarBuilder hidden;  // behind what may be empty, and by way of another
  const Grammar::RuleId a = hidden.declare(), b = hidden.declare();
  hidden.define(a, {hidden.concat({hidden.optional(hidden.text("-")), hidden.rule(b)}), hidden.text("1")});
  hidden.define(b, {hidden.concat({hidden.rule(a), hidden.text("!")})});
  EXPECT_THAT(hidden.finish(hidden.rule(a)).status().message(), HasSubstr("refers to itself"));
}

TEST(GrammarTest, TooManyPartsAreRefused) {
  GrammarBuilder builder;
  const Sequence many = builder.repeat(builder.text("abcdefgh"), 200000, std::nullopt);
  const Status status = builder.finish(many).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("too large"));
}

TEST(GrammarTest, ListedTextsAreATree) {
  std::vector<std::string> texts{"", "a", "ab", "abc", "abd", "b", "bcd", "abc"};
  for (int i = 0; i < 5000; ++i) texts.push_back("value number " + std::to_string(i));
  GrammarBuilder builder;
  const Grammar grammar = builder.finish(builder.any_text(texts)).value();
  for (const std::string& text : texts) ASSERT_TRUE(matches(grammar, text)) << text;
  for (const char* text : {"ac", "abcd", "bc", "value number ", "value number 5000", "value number 01", "x"}) {
    EXPECT_FALSE(matches(grammar, text)) << text;
  }
  for (const Grammar::Rule& rule : grammar.rules()) EXPECT_LE(rule.alternatives.size(), 11u);
}

}  // namespace
}  // namespace bass
