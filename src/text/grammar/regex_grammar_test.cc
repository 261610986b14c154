#include "text/grammar/regex_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "support/growth.h"
#include "text/grammar/grammar_testing.h"
#include "text/utf8.h"

namespace bass {
namespace {

using ::testing::HasSubstr;
using ::testing::PrintToString;

Grammar grammar_of(std::string_view pattern, RegexText text = RegexText::kPlain) {
  GrammarBuilder builder;
  Result<Grammar::Sequence> sequence = regex_sequence(builder, pattern, text);
  EXPECT_TRUE(sequence.ok()) << pattern << ": " << sequence.status().message();
  return builder.finish(sequence.value()).value();
}

struct Case {
  std::string pattern;
  std::vector<std::string> accepted;
  std::vector<std::string> rejected;
};

void expect(const Case& c, RegexText text) {
  const Grammar grammar = grammar_of(c.pattern, text);
  for (const std::string& t : c.accepted)
    EXPECT_TRUE(matches(grammar, t)) << c.pattern << " wants " << PrintToString(t);
  for (const std::string& t : c.rejected) EXPECT_FALSE(matches(grammar, t)) << c.pattern << " not " << PrintToString(t);
}

TEST(RegexGrammarTest, Characters) {
  const std::vector<Case> cases{
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"\xC3\xA4\xF0\x9F\x98\x80", {"\xC3\xA4\xF0\x9F\x98\x80"}, {"\xC3\xA4", "\xC3\xA5\xF0\x9F\x98\x80"}},
      {".",
       {"a", "\xC3\xA4", "\xF0\x9F\x98\x80", "\r", std::string(1, '\0')},
       {"\n", "", "ab", "\xC3", "\xED\xA0\x80"}},
      {"\\d\\D", {"1a", "0\xC3\xA4"}, {"a1", "11"}},
      {"\\w\\W", {"_-", "Z ", "9\xC3\xA4"}, {"-_", "ab", "\xC3\xA4-"}},
      {"\\s\\S", {" a", "\tb", "\v-", "\n1"}, {"a ", "  ", "\xC2\xA0z"}},
      {"\\n\\t\\r\\f\\v\\0", {std::string("\n\t\r\f\v\0", 6)}, {"ntrfv0"}},
      {"\\\\\\.\\*\\/\\-\\$\\^\\{", {"\\.*/-$^{"}, {"\\a*/-$^{"}},
      {"\\x41\\u00e4\\u20AC", {"A\xC3\xA4\xE2\x82\xAC"}, {"A\xC3\xA5\xE2\x82\xAC"}},
      {"\\uD83D\\uDE00", {"\xF0\x9F\x98\x80"}, {"\xF0\x9F\x98\x81"}},
      {"a{b}", {"a{b}"}, {"ab"}},
      {"{x}]", {"{x}]"}, {}},
  };
  for (const Case& c : cases) expect(c, RegexText::kPlain);
}

TEST(RegexGrammarTest, Classes) {
  const std::vector<Case> cases{
      {"[abc]", {"a", "b", "c"}, {"d", "", "ab"}},
      {"[a-cx-z]", {"b", "y"}, {"d", "w", "-"}},
      {"[^a-c]", {"d", "\n", "\xC3\xA4", "\xF4\x8F\xBF\xBF"}, {"a", "c", ""}},
      {"[-a]", {"-", "a"}, {"b"}},
      {"[a-]", {"-", "a"}, {"b"}},
      {"[a\\-z]", {"-", "a", "z"}, {"b"}},
      {"[\\d_.]", {"4", "_", "."}, {"a"}},
      {"[^\\s\\d]", {"a"}, {" ", "1"}},
      {"[\\]\\\\[]", {"]", "\\", "["}, {"a"}},
      {"[\\x00-\\x1f]", {std::string(1, '\0'), "\x1f"}, {" "}},
      {"[\\b]", {"\b"}, {"b"}},
      {"[\xC3\xA4-\xC3\xBC]", {"\xC3\xA4", "\xC3\xB6", "\xC3\xBC"}, {"\xC3\xBD", "a"}},
      {"[*+?.(){}|$]", {"*", "$", "|", "("}, {"a"}},
  };
  for (const Case& c : cases) expect(c, RegexText::kPlain);
}

TEST(RegexGrammarTest, GroupsAndRepetitions) {
  const std::vector<Case> cases{
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"(a|b)c", {"ac", "bc"}, {"a", "c", "abc"}},
      {"(?:ab)+", {"ab", "abab"}, {"", "aba"}},
      {"(?<name>a)(?P<other>b)", {"ab"}, {"a", "name"}},
      {"a*b+c?", {"b", "aabbc", "bc"}, {"a", "ac", "bcc"}},
      {"a*?b+?c??", {"b", "aabbc", "bc"}, {"a", "ac", "bcc"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaaa"}, {"a"}},
      {"(ab){1,3}?", {"ab", "abab", "ababab"}, {"", "abababab"}},
      {"a{0}b", {"b"}, {"ab"}},
      {"\xC3\xA4{2}", {"\xC3\xA4\xC3\xA4"}, {"\xC3\xA4", "\xC3\xA4\xA4"}},
      {"(a*)*b", {"b", "aaab"}, {"a"}},
      {"((a?b?)*|c)*d", {"d", "abcad", "ccd"}, {"abc"}},
      {"(){3}x()*", {"x"}, {""}},
      {"^abc$", {"abc"}, {"^abc$", "abcd"}},
      {"^a$|^b$", {"a", "b"}, {"c"}},
  };
  for (const Case& c : cases) expect(c, RegexText::kPlain);
}

TEST(RegexGrammarTest, RepetitionsOfRepetitionsStaySmall) {
  const Grammar grammar = grammar_of("(([a-z]{1000}){1000}){1000}");
  EXPECT_LT(grammar.rules().size(), 10U);
}

TEST(RegexGrammarTest, AgreesWithTheStandardLibrary) {
  const std::vector<std::string> patterns{"(a|ab)(c|bcd)*",  "[ab]{1,3}c?",      "(a*b)*|c",   "a(b|c(a|b)+)?c*",
                                          "(a|b)*abb",       "[^a][^b]?[ac]*",   "(aa|aab?)*", "a?a?a?aaa",
                                          "(?:a{0,2}b){2,}", "(|a|bb)c(|c|(ab))"};
  for (const std::string& pattern : patterns) {
    const Grammar grammar = grammar_of(pattern);
    const std::regex expected(pattern);
    std::vector<std::string> texts{""};
    for (size_t i = 0; texts[i].size() < 6; ++i) {
      for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
    }
    for (const std::string& text : texts) {
      if (text.size() == 6 && text.front() != text.back()) continue;  // a third of the longest is enough
      EXPECT_EQ(matches(grammar, text), std::regex_match(text, expected)) << pattern << " " << text;
    }
  }
}

TEST(RegexGrammarTest, InJsonStrings) {
  const std::vector<Case> cases{
      {"^a\"b$", {"a\\\"b"}, {"a\"b", "a\\u0022b"}},
      {"^\\\\$", {"\\\\"}, {"\\"}},
      {"^[\\x00-\\x1f]$",
       {"\\n", "\\t", "\\r", "\\b", "\\f", "\\u0000", "\\u001f", "\\u000b", "\\u0010"},
       {"\n", "\\u000a", "\\u000B", "\\u0009", "\\u0020", " ", "\\v"}},
      {"^\xC3\xA4/\\x7f$", {"\xC3\xA4/\x7f"}, {"\\u00e4/\x7f", "\xC3\xA4\\/\x7f"}},
      {"^.$", {"a", "\\\"", "\\\\", "\\r", "\xC3\xA4"}, {"\\n", "\"", "\\", "\n"}},
      {"^[^\"]$", {"a", "\\\\", "\\n"}, {"\\\"", "\""}},
  };
  for (const Case& c : cases) expect(c, RegexText::kInJsonString);
}

TEST(RegexGrammarTest, InJsonStringsAPatternIsLookedFor) {
  const std::vector<Case> cases{
      {"b", {"b", "abc", "bb", "\\nb\\\""}, {"", "ac", "a\nb"}},
      {"^b", {"b", "bc"}, {"ab", ""}},
      {"b$", {"b", "ab"}, {"bc", ""}},
      {"", {"", "anything"}, {"\""}},
      {"^a|b$", {"a", "ax", "xb", "b"}, {"xa", "bx"}},
      {"^(a|b)$", {"a", "b"}, {"ax", "xb"}},
      {"a\\$", {"xa$y"}, {"a"}},
  };
  for (const Case& c : cases) expect(c, RegexText::kInJsonString);
}

// What nlohmann writes of a text that the pattern finds.
TEST(RegexGrammarTest, InJsonStringsAgreesWithDump) {
  const Grammar grammar = grammar_of("^[\\s\\S]*$", RegexText::kInJsonString);
  std::string text;
  for (int c = 0; c < 128; ++c) text += static_cast<char>(c);
  text += "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80";
  const std::string dumped = nlohmann::json(text).dump();
  EXPECT_TRUE(matches(grammar, std::string_view(dumped).substr(1, dumped.size() - 2)));
  EXPECT_FALSE(matches(grammar, text));
}

TEST(RegexGrammarTest, ErrorsNameTheConstructAndItsPlace) {
  struct Refused {
    std::string pattern;
    std::string message;
  };
  const std::vector<Refused> cases{
      {"abc(?=d)", "a lookahead at byte 3, which is not supported"},
      {"(?!d)", "a lookahead at byte 0"},
      {"(?<=d)", "a lookbehind at byte 0"},
      {"a(?<!d)", "a lookbehind at byte 1"},
      {"(?>d)", "an atomic group"},
      {"(?i)d", "a flag"},
      {"(a)\\1", "a backreference at byte 3"},
      {"\\k<x>", "a backreference at byte 0"},
      {"(?P=x)", "a backreference at byte 0"},
      {"\\ba", "a word boundary at byte 0"},
      {"a\\B", "a word boundary at byte 1"},
      {"\\p{L}", "a Unicode property"},
      {"\\Aa", "an anchor"},
      {"\\q", "the escape \\q at byte 0"},
      {"\\c", "the escape \\c at byte 0"},
      {"a++", "a possessive repetition at byte 2"},
      {"a{2}+", "a possessive repetition at byte 4"},
      {"a^b", "an anchor within at byte 1"},
      {"a$b", "an anchor within at byte 1"},
      {"(^a)", "an anchor within at byte 1"},
      {"(a$)", "an anchor within at byte 2"},
      {"*a", "a repetition at byte 0 of nothing"},
      {"a|+", "a repetition at byte 2 of nothing"},
      {"a**", "a repetition at byte 2 of nothing"},
      {"{2}", "a repetition at byte 0 of nothing"},
      {"a{,3}", "a repetition without its least number"},
      {"a{3,2}", "at least 3 and at most 2"},
      {"a{100001}", "more than 100000 times"},
      {"a{1,99999999999999999999}", "more than 100000 times"},
      {"(a", "a group at byte 0 without its end"},
      {"a)", "a ) at byte 1 without its ("},
      {"[a", "a class at byte 0 without its end"},
      {"x[a\\]", "a class at byte 1 without its end"},
      {"[]a]", "a class that begins with ]"},
      {"[^\\s\\S]", "a class that no character belongs to at byte 0"},
      {"[z-a]", "a range at byte 1 that runs backwards"},
      {"[\\d-x]", "a range between classes"},
      {"[[:alpha:]]", "a POSIX class at byte 1"},
      {"a\\", "ends with a backslash"},
      {"\\x4", "wants 2 hexadecimal digits"},
      {"\\u{1F600}", "wants 4 hexadecimal digits"},
      {"\\uD83D", "half a surrogate pair"},
      {"\\uDE00", "half a surrogate pair"},
      {"\\uD83D\\u0041", "half a surrogate pair"},
      {"a\xC3", "not valid UTF-8 at byte 1"},
      {std::string(201, '(') + std::string(201, ')'), "more than 200 groups"},
      {std::string(65537, 'a'), "at most 65536"},
  };
  for (const Refused& c : cases) {
    for (const RegexText text : {RegexText::kPlain, RegexText::kInJsonString}) {
      GrammarBuilder builder;
      const Result<Grammar::Sequence> sequence = regex_sequence(builder, c.pattern, text);
      EXPECT_EQ(sequence.status().code(), StatusCode::kInvalidArgument) << c.pattern.substr(0, 80);
      EXPECT_THAT(sequence.status().message(), HasSubstr(c.message)) << c.pattern.substr(0, 80);
    }
  }
}

TEST(RegexGrammarTest, LongClassesTakeNoLongTime) {
  const auto read = [](int n) {
    std::string pattern = "[";
    for (int i = n; i > 0; --i) append_utf8(static_cast<char32_t>(0x4000 + 2 * i), pattern);
    GrammarBuilder builder;
    EXPECT_TRUE(regex_sequence(builder, pattern + "]", RegexText::kPlain).ok());
  };
  EXPECT_LT(testing::growth(4000, read), testing::kMostGrowth);
}

TEST(RegexGrammarTest, DeepNestingIsFine) {
  const Grammar grammar = grammar_of(std::string(200, '(') + "a" + std::string(200, ')'));
  EXPECT_TRUE(matches(grammar, "a"));
  EXPECT_FALSE(matches(grammar, ""));
}

}  // namespace
}  // namespace bass
