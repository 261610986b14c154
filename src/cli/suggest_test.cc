#include "cli/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace bass {
namespace {

TEST(SuggestTest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
}

TEST(SuggestTest, SuggestsWhatWasMeant) {
  const std::vector<std::string> flags{"--temperature", "--top-p", "--top-k", "--threads", "--max-tokens"};
  EXPECT_EQ(nearest("--temprature", flags), "--temperature");
  EXPECT_EQ(nearest("--temp", flags), "--temperature");
  EXPECT_EQ(nearest("--max_tokens", flags), "--max-tokens");
  EXPECT_EQ(nearest("--topk", flags), "--top-k");
  EXPECT_EQ(nearest("--zzzzzz", flags), "");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace bass
