#include "speculation/ngram_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> propose(const NgramIndex& index, int sample_idx, size_t max_len) {
  std::vector<TokenId> out(max_len);
  out.resize(static_cast<size_t>(index.propose(sample_idx, out)));
  return out;
}

TEST(NgramIndex, CopiesFromThePrompt) {
  const std::vector<TokenId> prompt{1, 2, 3, 4, 5, 6, 2, 3};
  const NgramIndex index(prompt, 1);
  EXPECT_THAT(propose(index, 0, 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(propose(index, 0, 0), IsEmpty());
}

TEST(NgramIndex, PrefersTheLongerMatchThenTheLaterOne) {
  // 1 2 3 is followed by 7; the later 2 3 alone is followed by 8.
  NgramIndex index(std::vector<TokenId>{1, 2, 3, 7, 9, 2, 3, 8, 1, 2, 3}, 1);
  EXPECT_THAT(propose(index, 0, 1), ElementsAre(7));
  index.append(0, 5);  // now 1 2 3 is followed by 5 most recently
  for (const TokenId token : {1, 2, 3}) index.append(0, token);
  EXPECT_THAT(propose(index, 0, 2), ElementsAre(5, 1));
}

TEST(NgramIndex, RepetitionRepeats) {
  const NgramIndex index(std::vector<TokenId>{4, 5, 6, 4, 5, 6}, 1);
  EXPECT_THAT(propose(index, 0, 7), ElementsAre(4, 5, 6, 4, 5, 6, 4));
}

TEST(NgramIndex, WalksFromThePromptIntoTheOwnOutput) {
  NgramIndex index(std::vector<TokenId>{1, 2, 3}, 2);
  for (const TokenId token : {8, 9, 1, 2}) index.append(1, token);
  EXPECT_THAT(propose(index, 1, 4), ElementsAre(3, 8, 9, 1));
}

TEST(NgramIndex, LearnsFromSiblingsAndStopsAtTheirEnd) {
  NgramIndex index(std::vector<TokenId>{1, 2}, 3);
  for (const TokenId token : {10, 11, 12, 13}) index.append(0, token);
  EXPECT_THAT(propose(index, 1, 8), ElementsAre(10, 11, 12, 13));  // 1 2 -> 10 was learnt from sample 0
  index.append(2, 11);
  index.append(2, 12);
  EXPECT_THAT(propose(index, 2, 8), ElementsAre(13));
  EXPECT_THAT(propose(index, 0, 8), IsEmpty());  // 12 13 has no continuation anywhere
}

TEST(NgramIndex, NothingToSay) {
  NgramIndex empty(std::vector<TokenId>{}, 1);
  EXPECT_THAT(propose(empty, 0, 4), IsEmpty());
  empty.append(0, 3);
  EXPECT_THAT(propose(empty, 0, 4), IsEmpty());
  const NgramIndex one(std::vector<TokenId>{3}, 1);
  EXPECT_THAT(propose(one, 0, 4), IsEmpty());
}

TEST(NgramIndex, HasRoomForWhatIsToldPieceByPiece) {
  NgramIndex index(std::vector<TokenId>{1, 2, 3}, 2);
  std::mt19937 rng(5);
  for (int piece = 0; piece < 5; ++piece) {
    for (const int sample : {0, 1}) index.reserve(sample, 700);
    const size_t n_bytes = index.memory_bytes();
    for (int i = 0; i < 700; ++i) {
      for (const int sample : {0, 1}) index.append(sample, static_cast<TokenId>(rng() % 5000));
    }
    EXPECT_EQ(index.memory_bytes(), n_bytes) << piece;
  }
}

TEST(NgramIndex, StopsLearningAtItsMemoryBound) {
  NgramOptions options;
  options.max_tokens = 100;
  NgramIndex index(std::vector<TokenId>{1, 2, 3, 4}, 1, options);
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) index.append(0, static_cast<TokenId>(random() % 5000) + 10);
  const size_t table_bytes = index.memory_bytes() - 8 * 1100;
  EXPECT_LE(table_bytes, 100u * 4 * 64);
  index.append(0, 1);
  index.append(0, 2);
  EXPECT_THAT(propose(index, 0, 1), ElementsAre(3));
}

// The definition in the header, by looking at everything each time.
class NaiveDrafter {
 public:
  NaiveDrafter(const std::vector<TokenId>& prompt, int n_samples, const NgramOptions& options)
      : options_(options), prompt_len_(prompt.size()), texts_(static_cast<size_t>(n_samples), prompt) {
    for (size_t i = 0; i < prompt.size(); ++i) times_.push_back(static_cast<int>(i));
    append_times_.assign(texts_.size(), times_);
    clock_ = static_cast<int>(prompt.size());
  }

  void append(int sample_idx, TokenId token) {
    texts_[static_cast<size_t>(sample_idx)].push_back(token);
    append_times_[static_cast<size_t>(sample_idx)].push_back(clock_++);
  }

  std::vector<TokenId> propose(size_t sample_idx, size_t max_len) const {
    std::vector<TokenId> text = texts_[sample_idx];
    for (auto order = static_cast<size_t>(options_.max_order); order >= static_cast<size_t>(options_.min_order);
         --order) {
      if (text.size() < order) continue;
      int best_time = -1;
      size_t best_source = 0, best_end = 0;
      for (size_t source = 0; source < texts_.size(); ++source) {
        for (size_t end = order - 1; end + 1 < texts_[source].size(); ++end) {
          const auto* a = texts_[source].data() + end + 1 - order;
          const auto* b = text.data() + text.size() - order;
          if (!std::equal(a, a + order, b) || append_times_[source][end + 1] <= best_time) continue;
          best_time = append_times_[source][end + 1];
          best_source = source;
          best_end = end;
        }
      }
      if (best_time < 0) continue;
      const bool is_own = best_source == sample_idx || best_end + 1 < prompt_len_;
      std::vector<TokenId> proposed;
      for (size_t position = best_end + 1; proposed.size() < max_len; ++position) {
        const std::vector<TokenId>& source = is_own ? text : texts_[best_source];
        if (position >= source.size()) break;
        proposed.push_back(source[position]);
        if (is_own) text.push_back(proposed.back());
      }
      return proposed;
    }
    return {};
  }

 private:
  NgramOptions options_;
  size_t prompt_len_;
  std::vector<std::vector<TokenId>> texts_;
  std::vector<int> times_;
  std::vector<std::vector<int>> append_times_;
  int clock_ = 0;
};

TEST(NgramIndex, EqualsTheNaiveSearch) {
  std::mt19937 random(7);
  int n_proposals = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const uint32_t n_vocab = 2 + random() % 6;
    const int n_samples = 1 + static_cast<int>(random() % 4);
    NgramOptions options;
    options.min_order = 1 + static_cast<int>(random() % 3);
    options.max_order = options.min_order + static_cast<int>(random() % 4);
    std::vector<TokenId> prompt(random() % 20);
    for (TokenId& token : prompt) token = static_cast<TokenId>(random() % n_vocab);
    NgramIndex index(prompt, n_samples, options);
    NaiveDrafter naive(prompt, n_samples, options);
    for (int step = 0; step < 120; ++step) {
      const int sample_idx = static_cast<int>(random() % static_cast<uint32_t>(n_samples));
      const std::vector<TokenId> proposed = propose(index, sample_idx, random() % 12);
      EXPECT_EQ(proposed, naive.propose(static_cast<size_t>(sample_idx), proposed.size()));
      const std::vector<TokenId> longest = propose(index, sample_idx, 40);
      ASSERT_EQ(longest, naive.propose(static_cast<size_t>(sample_idx), 40)) << "trial " << trial << " step " << step;
      n_proposals += !longest.empty();
      // Half of the time the sample accepts its own draft, so that long repetitions occur.
      const int n_tokens = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < n_tokens; ++i) {
        const bool follows = random() % 2 == 0 && static_cast<size_t>(i) < longest.size();
        const TokenId token = follows ? longest[static_cast<size_t>(i)] : static_cast<TokenId>(random() % n_vocab);
        index.append(sample_idx, token);
        naive.append(sample_idx, token);
      }
    }
  }
  EXPECT_GT(n_proposals, 10000);
}

}  // namespace
}  // namespace bass
