#include "cli/terminal_text.h"

#include <gtest/gtest.h>

#include <clocale>

namespace bass {
namespace {

std::string join(const std::vector<TerminalChar>& chars) {
  std::string text;
  for (const TerminalChar& c : chars) text += c.bytes;
  return text;
}

std::string tail(std::string_view text, int n_columns) { return join(last_line(split_for_terminal(text), n_columns)); }

class TerminalTextTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr); }
};

TEST_F(TerminalTextTest, ControlCharactersNeverReachATerminal) {
  EXPECT_EQ(for_terminal("a\x1b[31mb\x07\n\tc\x7f"), "a\uFFFD[31mb\uFFFD\n\tc\uFFFD");
  EXPECT_EQ(for_terminal("\xC2\x9B"
                         "2J"),
            "\uFFFD2J");  // the one-character form of ESC [
  EXPECT_EQ(for_terminal("a\xFF"), "a\uFFFD");
  EXPECT_EQ(for_terminal(std::string_view("a\0b", 3)), "a\uFFFDb");
}

TEST_F(TerminalTextTest, MeasuresColumns) {
  EXPECT_EQ(n_columns_of("abc"), 3);
  EXPECT_EQ(n_columns_of("漢字"), 4);
  EXPECT_EQ(n_columns_of("e\u0301"), 1);
}

TEST_F(TerminalTextTest, TheLastLineFitsWhateverTheWidth) {
  const std::string text = "def f():\n    return 漢字 + 'x'\n";
  for (int n_columns = 0; n_columns < 40; ++n_columns) EXPECT_LE(n_columns_of(tail(text, n_columns)), n_columns);
  EXPECT_EQ(tail("one\n\n  two ", 20), "one two");
  EXPECT_EQ(tail("abcdef", 4), "…def");
  EXPECT_EQ(tail("a漢字", 3), "…字");
  EXPECT_EQ(tail("漢字", 1), "…");
  EXPECT_EQ(tail("abc", 0), "");
  EXPECT_EQ(tail("", 5), "");
}

TEST_F(TerminalTextTest, CutsToColumns) {
  EXPECT_EQ(cut_to_columns("漢字", 3), "漢");
  EXPECT_EQ(cut_to_columns("a\nb", 10), "a b");
}

}  // namespace
}  // namespace bass
