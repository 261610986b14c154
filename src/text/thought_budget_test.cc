#include "text/thought_budget.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace bass {
namespace {

using Part = ThoughtsPlace::Part;

ThoughtsPlace behind(ThoughtsAhead thoughts, std::initializer_list<std::string_view> tokens) {
  ThoughtsPlace place = thoughts_place(thoughts);
  for (const std::string_view token : tokens) place = behind_token(place, token);
  return place;
}

TEST(ThoughtBudget, CountsWhatIsBetweenTheMarks) {
  EXPECT_EQ(behind(ThoughtsAhead::kNone, {"<think>", "a"}), ThoughtsPlace());
  EXPECT_EQ(behind(ThoughtsAhead::kBegun, {}), (ThoughtsPlace{Part::kInside, 0, 0}));
  EXPECT_EQ(behind(ThoughtsAhead::kBegun, {"a", "", "b <"}), (ThoughtsPlace{Part::kInside, 1, 3}));
  EXPECT_EQ(behind(ThoughtsAhead::kMayBegin, {"\n", "<th"}), (ThoughtsPlace{Part::kBefore, 3, 0}));
  EXPECT_EQ(behind(ThoughtsAhead::kMayBegin, {"\n", "<th", "ink>\n"}), (ThoughtsPlace{Part::kInside, 0, 0}));
  EXPECT_EQ(behind(ThoughtsAhead::kMayBegin, {"<think>", "a", "</", "think"}), (ThoughtsPlace{Part::kInside, 7, 3}));
}

TEST(ThoughtBudget, IsOverBehindTheFirstEndMarkAndWhereThereAreNoThoughts) {
  EXPECT_EQ(behind(ThoughtsAhead::kBegun, {"a", "</think>", "b"}), ThoughtsPlace());
  EXPECT_EQ(behind(ThoughtsAhead::kBegun, {"a<<//think></thi", "nk>b<think>"}), ThoughtsPlace());
  for (const char* const text : {"a", "<thin<", "<a", " <think", "\n< think>"}) {
    const ThoughtsPlace place = behind(ThoughtsAhead::kMayBegin, {text, "x<think>"});
    EXPECT_EQ(place, ThoughtsPlace()) << text;
  }
}

TEST(ThoughtBudget, KnowsWhatTheEndMarkWants) {
  EXPECT_EQ(rest_of_thoughts_end(behind(ThoughtsAhead::kBegun, {"a"})), "</think>");
  EXPECT_EQ(rest_of_thoughts_end(behind(ThoughtsAhead::kBegun, {"<</th"})), "ink>");
}

}  // namespace
}  // namespace bass
