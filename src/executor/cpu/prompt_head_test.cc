#include "executor/cpu/prompt_head.h"

#include <gtest/gtest.h>

#include <numeric>

namespace bass::cpu {
namespace {

TEST(PromptHead, HasEachTokenOnceThatTheVocabularyLacks) {
  const std::vector<int32_t> vocabulary{2, 5, 9};
  const std::vector<TokenId> prompt{7, 5, 1, 7, 9, 300, 1, 2};
  EXPECT_EQ(tokens_beside(vocabulary, prompt, 10), (std::vector<int32_t>{1, 7, 300}));
  EXPECT_TRUE(tokens_beside(vocabulary, std::vector<TokenId>{5, 5, 2}, 10).empty());
  EXPECT_TRUE(tokens_beside(vocabulary, {}, 10).empty());
}

TEST(PromptHead, OfManyHasTheLastOnes) {
  std::vector<TokenId> prompt(5000);
  std::iota(prompt.rbegin(), prompt.rend(), 100);  // 5099 .. 100
  const std::vector<int32_t> ids = tokens_beside(std::vector<int32_t>{101, 102}, prompt, 1000);
  ASSERT_EQ(ids.size(), 1000u);
  EXPECT_EQ(ids.front(), 100);
  EXPECT_EQ(ids[1], 103);
  EXPECT_EQ(ids.back(), 1101);
}

}  // namespace
}  // namespace bass::cpu
