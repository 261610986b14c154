#include "text/grammar/behind_thoughts.h"

#include <gtest/gtest.h>

#include <string>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_schema.h"

namespace bass {
namespace {

Grammar yes_or_no(ThoughtsAhead thoughts) {
  Result<Grammar> grammar = json_schema_grammar(R"({"enum": ["yes", "no"]})");
  EXPECT_TRUE(grammar.ok());
  Result<Grammar> both = behind_thoughts(std::move(grammar).value(), thoughts);
  EXPECT_TRUE(both.ok()) << both.status().message();
  return std::move(both).value();
}

TEST(BehindThoughts, NoneIsTheTextAlone) {
  const Grammar grammar = yes_or_no(ThoughtsAhead::kNone);
  EXPECT_TRUE(matches(grammar, "\"yes\""));
  EXPECT_FALSE(matches(grammar, "<think></think>\"yes\""));
}

TEST(BehindThoughts, ThatMayBeginAreAnyTextBetweenTheMarks) {
  const Grammar grammar = yes_or_no(ThoughtsAhead::kMayBegin);
  for (const char* const text : {"\"no\"", "<think></think>\"no\"", "\n<think>\nIt is <b>\n</think>\n\n\"yes\"",
                                 "<think><<//think></thin</think>\"yes\"", "<think>\xC3</think> \"yes\""}) {
    EXPECT_TRUE(matches(grammar, text)) << text;
  }
  for (const char* const text :
       {"<think>\"no\"", "<think></think>", "It is.</think>\"no\"", "\n\"no\"", "<think></think>\n\n\n\n\n\"no\"",
        "<think></think>x\"no\"", "<think></think>\"no\"</think>\"no\""}) {
    EXPECT_FALSE(matches(grammar, text)) << text;
  }
}

TEST(BehindThoughts, ThatHaveBegunHaveToEnd) {
  const Grammar grammar = yes_or_no(ThoughtsAhead::kBegun);
  EXPECT_TRUE(matches(grammar, "\nIt is.\n</think>\n\n\"no\""));
  EXPECT_TRUE(matches(grammar, "</think>\"no\""));
  EXPECT_FALSE(matches(grammar, "\"no\""));
}

// The answer is what follows the first end mark, however the thoughts came to it.
TEST(BehindThoughts, EndWithTheFirstMark) {
  const Grammar grammar = yes_or_no(ThoughtsAhead::kBegun);
  const std::string pieces[] = {"<", "/", "think>", "</think>", "a"};
  for (int number = 0; number < 5 * 5 * 5 * 5; ++number) {
    std::string text;
    for (int rest = number, i = 0; i < 4; ++i, rest /= 5) text += pieces[rest % 5];
    text += "</think>\"no\"";
    const size_t end = text.find(kThoughtsEnd) + kThoughtsEnd.size();
    EXPECT_EQ(matches(grammar, text), text.substr(end) == "\"no\"") << text;
  }
}

}  // namespace
}  // namespace bass
