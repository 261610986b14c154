#include "cli/bench/table.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

const std::vector<Column> kColumns{{"name", "name", -6}, {"ms", "s", 7, 2, 1e3}, {"share %", "share", 8, 1, 100}};

TEST(Table, AlignsTextToTheLeftAndNumbersToTheRight) {
  EXPECT_EQ(table_header(kColumns), "name         ms   share %\n");
  EXPECT_EQ(table_row(kColumns, {{"name", "qkv"}, {"s", 0.0123456}, {"share", 0.5}}), "qkv       12.35      50.0\n");
}

TEST(Table, ShowsWhatIsMissingAsADash) {
  EXPECT_EQ(table_row(kColumns, {{"name", "head"}, {"share", nullptr}}), "head          -         -\n");
}

TEST(Table, LeavesNoSpaceAtTheEnd) { EXPECT_EQ(table_row({{"a", "a", -9}}, {{"a", "x"}}), "x\n"); }

TEST(Table, WidensARowRatherThanCutIt) {
  EXPECT_EQ(table_row({{"a", "a", -2}, {"b", "b", 2}}, {{"a", "longer"}, {"b", 1234}}), "longer  1234\n");
}

}  // namespace
}  // namespace bass
