#include "text/thoughts.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(Thoughts, WhereTextsLeaveThem) {
  EXPECT_TRUE(ends_with_thoughts_begin("assistant\n<think>\n"));
  EXPECT_TRUE(is_in_thoughts("\n<think>\nLet me"));
  for (const char* const text : {"", "a <think>", "<think>a</think>b"}) EXPECT_FALSE(is_in_thoughts(text));
  for (const char* const text : {"", "\n", "<think>\n\n</think>\n\n", "<think> a", "think>"}) {
    EXPECT_FALSE(ends_with_thoughts_begin(text)) << text;
  }
}

TEST(Thoughts, AreAheadWhereTheTemplateKnowsThemAndThePromptHasNotEndedThem) {
  constexpr const char* kKnows = "{% if message.content.split('</think>') %}";
  EXPECT_EQ(thoughts_ahead("assistant\n", kKnows), ThoughtsAhead::kMayBegin);
  EXPECT_EQ(thoughts_ahead("assistant\n", "{{ message.content }}"), ThoughtsAhead::kNone);
  EXPECT_EQ(thoughts_ahead("assistant\n<think>\n\n</think>\n\n", kKnows), ThoughtsAhead::kNone);
  for (const char* const chat_template : {kKnows, ""}) {
    EXPECT_EQ(thoughts_ahead("assistant\n<think>\n", chat_template), ThoughtsAhead::kBegun);
  }
}

}  // namespace
}  // namespace bass
