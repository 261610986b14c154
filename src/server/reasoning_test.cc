#include "server/reasoning.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "support/growth.h"

namespace bass {
namespace {

using Parts = std::pair<std::string, std::string>;  // thoughts, answer

/// Pieces of n bytes.
Parts read(std::string_view text, size_t n_bytes, bool is_inside = false, bool is_on = true) {
  ReasoningReader reader(is_on);
  if (is_inside) reader.begin_inside();
  Parts parts;
  const auto add = [&](const ReasoningReader::Piece& piece) {
    parts.first += piece.reasoning;
    parts.second += piece.answer;
  };
  for (size_t at = 0; at < text.size(); at += n_bytes) add(reader.take(text.substr(at, n_bytes)));
  ReasoningReader::Piece rest;
  reader.finish(&rest);
  add(rest);
  return parts;
}

TEST(Reasoning, IsWhatStandsBetweenTheMarks) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"<think>\nHm, 2.\n</think>\n\nIt is 2.", "Hm, 2.", "It is 2."},
      {" \n<think>a</think>b", "a", "b"},
      {"<think>\n\n</think>\n\nplain", "", "plain"},
      {"<think>a < b </ think>\n </thin </think>c </think> d", "a < b </ think>\n </thin", "c </think> d"},
      {"<think>cut in the mid", "cut in the mid", ""},
      {"<think>cut \n", "cut", ""},
      {"<think>cut in the mark </thi", "cut in the mark </thi", ""},
      {"<think>a</think>\n", "a", ""},
      {"no thoughts <think>here</think>", "", "no thoughts <think>here</think>"},
      {"  indented", "", "  indented"},
      {"<thin", "", "<thin"},
      {"<thing>", "", "<thing>"},
      {" \n", "", " \n"},
      {"", "", ""},
  };
  for (const auto& [text, thoughts, answer] : cases) {
    for (const size_t n_bytes : {1, 2, 3, 7, 100}) {
      EXPECT_EQ(read(text, n_bytes), Parts(thoughts, answer)) << text << " in pieces of " << n_bytes;
      EXPECT_EQ(read(text, n_bytes, false, /*is_on=*/false), Parts("", text)) << "a control";
    }
  }
}

TEST(Reasoning, MayBeginInThePrompt) {
  for (const size_t n_bytes : {1, 4, 100}) {
    EXPECT_EQ(read("\nHm.\n</think>\n\nIt is 2.", n_bytes, /*is_inside=*/true), Parts("Hm.", "It is 2."));
    EXPECT_EQ(read("never ends", n_bytes, /*is_inside=*/true), Parts("never ends", ""));
    EXPECT_EQ(read("<think>a</think>b", n_bytes, /*is_inside=*/true), Parts("<think>a", "b"));
  }
}

// A thought is given out as it comes, but for what may be blanks in front of the mark.
TEST(Reasoning, IsNotHeldBack) {
  ReasoningReader reader(/*is_on=*/true);
  EXPECT_EQ(reader.take("<think>\nFirst").reasoning, "First");
  EXPECT_EQ(reader.take(" ").reasoning, "");
  EXPECT_EQ(reader.take("second.\n").reasoning, " second.");
  EXPECT_EQ(reader.take("</think>\n").answer, "");
  EXPECT_EQ(reader.take("\nIt").answer, "It");
  EXPECT_EQ(reader.take(" ").answer, " ");
}

TEST(ThoughtCount, CountsTheMarksAndWhatIsBetweenThem) {
  const auto count = [](std::initializer_list<const char*> tokens, bool is_inside = false) {
    ThoughtCount thoughts;
    if (is_inside) thoughts.begin_inside();
    for (const char* const token : tokens) thoughts.take(token);
    return thoughts.n();
  };
  EXPECT_EQ(count({"\n", "<think>", "a", " b", "</think>", "\n", "It"}), 5);
  EXPECT_EQ(count({"<", "think", ">", "a", "</", "think", ">", "It"}), 7);
  EXPECT_EQ(count({"a", "</think>", "It"}, /*is_inside=*/true), 2);
  EXPECT_EQ(count({"<think>", "a"}), 2);
  EXPECT_EQ(count({"\n", "It", "<think>", "a", "</think>"}), 0);
  EXPECT_EQ(count({}), 0);
}

TEST(Reasoning, OfManyPiecesTakesNoLongTime) {
  for (const char* const begin : {"", "<think>", "<think>a", "<think></think>", "a"}) {
    for (const char filler : {' ', '<', 'a'}) {
      const auto read_all = [&](int n) { (void)read(begin + std::string(static_cast<size_t>(n), filler), 1); };
      EXPECT_LT(testing::growth(50'000, read_all), testing::kMostGrowth) << begin << filler;
    }
  }
}

}  // namespace
}  // namespace bass
