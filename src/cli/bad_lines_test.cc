#include "cli/bad_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

Status status_of(int n_bad) {
  BadLines lines;
  for (int i = 0; i < n_bad; ++i) {
    const std::string origin = fmt::format("C:a.jsonl:{}", 10 + i);
    lines.add(invalid_argument(origin + ": is odd"), origin);
  }
  return lines.status();
}

TEST(BadLines, TheFirstIsToldAndTheOthersAreNamed) {
  EXPECT_TRUE(status_of(0).ok());
  EXPECT_EQ(status_of(1).message(), "C:a.jsonl:10: is odd");
  EXPECT_EQ(status_of(1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of(2).message(), "C:a.jsonl:10: is odd; 1 more line is wrong: 11");
  EXPECT_EQ(status_of(3).message(), "C:a.jsonl:10: is odd; 2 more lines are wrong: 11, 12");
}

TEST(BadLines, AMessageStaysShort) {
  const std::string message = status_of(5000).message();
  EXPECT_EQ(message.find("; 4999 more lines are wrong: 11, 12,"), 20u);
  EXPECT_TRUE(message.ends_with(", 30, ...")) << message;
}

}  // namespace
}  // namespace bass
