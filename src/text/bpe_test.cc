#include "text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> merge(const BpeMerges& merges, const std::vector<TokenId>& piece) {
  std::vector<TokenId> out;
  BpeMerger(merges).merge(piece, out);
  return out;
}

/// The definition: look at all pairs, merge the best, start again.
std::vector<TokenId> merge_naively(const BpeMerges& merges, std::vector<TokenId> ids) {
  while (true) {
    const BpeMerges::Merge* best = nullptr;
    size_t best_idx = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const BpeMerges::Merge* found = merges.find(ids[i], ids[i + 1]);
      if (found != nullptr && (best == nullptr || found->rank < best->rank)) {
        best = found;
        best_idx = i;
      }
    }
    if (best == nullptr) return ids;
    ids[best_idx] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_idx) + 1);
  }
}

TEST(BpeTest, MergesTheBestPairFirst) {
  BpeMerges merges;
  ASSERT_TRUE(merges.add(1, 2, {1, 12}));
  ASSERT_TRUE(merges.add(2, 3, {0, 23}));
  ASSERT_TRUE(merges.add(1, 23, {2, 123}));
  EXPECT_THAT(merge(merges, {}), IsEmpty());
  EXPECT_THAT(merge(merges, {1}), ElementsAre(1));
  EXPECT_THAT(merge(merges, {1, 2}), ElementsAre(12));
  EXPECT_THAT(merge(merges, {1, 2, 3}), ElementsAre(123));
  EXPECT_THAT(merge(merges, {1, 2, 1, 2, 3, 3}), ElementsAre(12, 123, 3));
}

TEST(BpeTest, TheLeftmostOfEqualPairsGoesFirst) {
  BpeMerges merges;
  ASSERT_TRUE(merges.add(1, 1, {0, 2}));
  EXPECT_THAT(merge(merges, {1, 1, 1}), ElementsAre(2, 1));
  EXPECT_THAT(merge(merges, {1, 1, 1, 1, 1}), ElementsAre(2, 2, 1));
}

TEST(BpeTest, TheFirstOfEqualMergesCounts) {
  BpeMerges merges;
  EXPECT_TRUE(merges.add(1, 1, {0, 2}));
  EXPECT_FALSE(merges.add(1, 1, {1, 3}));
  EXPECT_EQ(merges.find(1, 1)->result, 2);
}

TEST(BpeTest, AgreesWithTheDefinition) {
  std::mt19937 random(11);  // NOLINT(cert-msc51-cpp): the same cases each run
  for (int round = 0; round < 2000; ++round) {
    BpeMerges merges;
    TokenId n_tokens = 3;
    for (uint32_t rank = 0; rank < 20; ++rank) {
      const auto left = static_cast<TokenId>(random() % static_cast<uint32_t>(n_tokens));
      const auto right = static_cast<TokenId>(random() % static_cast<uint32_t>(n_tokens));
      if (merges.add(left, right, {rank, n_tokens})) ++n_tokens;
    }
    std::vector<TokenId> piece(random() % 40);
    for (TokenId& id : piece) id = static_cast<TokenId>(random() % 3);
    ASSERT_EQ(merge(merges, piece), merge_naively(merges, piece));
  }
}

}  // namespace
}  // namespace bass
