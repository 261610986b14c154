#include "cli/hub/transfer_progress.h"

#include <gtest/gtest.h>

#include "cli/terminal_text.h"

namespace bass {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

TEST(TransferProgressTest, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(progress_text("a.gguf", 45 * kMib, 100 * kMib, 11.0 * kMib, 80),
            "a.gguf   45 %  45.0 MiB of 100.0 MiB  11.0 MiB/s  6 s left");
  EXPECT_EQ(progress_text("a.gguf", 0, 7200 * kMib, 1.0 * kMib, 80),
            "a.gguf    0 %  0 B of 7.0 GiB  1.0 MiB/s  2:00:01 left");
  EXPECT_EQ(progress_text("a.gguf", 0, 0, 0, 80), "a.gguf  100 %  0 B of 0 B");
}

TEST(TransferProgressTest, FitsTheTerminal) {
  for (int n_columns = 1; n_columns < 100; ++n_columns) {
    const std::string text = progress_text("日本語-a-very-long-name\x1b[2J.gguf", 5, 7 * kMib, 3, n_columns);
    EXPECT_LT(n_columns_of(text), n_columns) << text;
    EXPECT_EQ(text.find('\x1b'), text.npos);
  }
}

}  // namespace
}  // namespace bass
