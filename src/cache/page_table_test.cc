// The page cache against a naive model under random operations: every sequence keeps its own copy of its tokens, and
// the pages, written and copied as an executor would, must always read back the same.
#include "cache/page_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace bass {
namespace {

constexpr int kPageLen = 4;

class PagedMemory {
 public:
  explicit PagedMemory(int n_pages) : cells_(static_cast<size_t>(n_pages * kPageLen), -1) {}
  void copy(const PageCopy& copy) {
    for (int i = 0; i < copy.n_tokens; ++i) at(copy.to, i) = at(copy.from, i);
  }
  void write(const PageTable& table, int position, int value) {
    at(table.pages()[static_cast<size_t>(position / kPageLen)], position % kPageLen) = value;
  }
  int read(const PageTable& table, int position) {
    return at(table.pages()[static_cast<size_t>(position / kPageLen)], position % kPageLen);
  }

 private:
  int& at(PageId page, int i) { return cells_[static_cast<size_t>(page * kPageLen + i)]; }
  std::vector<int> cells_;
};

struct NaiveSequence {
  PageTable table;
  std::vector<int> tokens;
};

TEST(PageTable, BehavesAsANaiveCopyOfEverySequenceUnderRandomOperations) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    PagePool pool(24);
    PagedMemory memory(24);
    std::vector<NaiveSequence> sequences;
    int next_value = 0;
    int n_refusals = 0;
    for (int step = 0; step < 3000; ++step) {
      const int operation = below(10);
      if (sequences.empty() || operation == 0) {
        if (sequences.size() < 12) sequences.push_back({PageTable(&pool, kPageLen), {}});
        continue;
      }
      auto& sequence = sequences[static_cast<size_t>(below(static_cast<int>(sequences.size())))];
      if (operation <= 5) {  // append n tokens, of which a draft's tail is rejected at once
        const int n = 1 + below(9);
        const int len = sequence.table.len();
        const int n_free = pool.n_free();
        std::vector<PageCopy> copies;
        if (!sequence.table.reserve(len + n, &copies)) {
          ++n_refusals;
          ASSERT_TRUE(copies.empty());
          ASSERT_EQ(pool.n_free(), n_free);
          continue;
        }
        for (const PageCopy& copy : copies) memory.copy(copy);
        const int n_kept = below(n + 1);
        for (int i = 0; i < n; ++i) {
          memory.write(sequence.table, len + i, next_value);
          if (i < n_kept) sequence.tokens.push_back(next_value);
          ++next_value;
        }
        sequence.table.set_len(len + n);
        sequence.table.truncate(len + n_kept);
      } else if (operation == 6) {
        const int len = below(sequence.table.len() + 1);
        sequence.table.truncate(len);
        sequence.tokens.resize(static_cast<size_t>(len));
      } else if (operation <= 8 && sequences.size() < 12) {
        const int len = below(sequence.table.len() + 1);
        NaiveSequence fork{sequence.table.fork(len), {sequence.tokens.begin(), sequence.tokens.begin() + len}};
        sequences.push_back(std::move(fork));
      } else {
        sequences.erase(sequences.begin() + (&sequence - sequences.data()));
      }
      for (const NaiveSequence& other : sequences) {
        ASSERT_EQ(other.table.len(), static_cast<int>(other.tokens.size()));
        for (int i = 0; i < other.table.len(); ++i) {
          ASSERT_EQ(memory.read(other.table, i), other.tokens[static_cast<size_t>(i)]) << "seed " << seed;
        }
      }
    }
    EXPECT_GT(n_refusals, 0) << "the pool was never full: the test is too easy";
    sequences.clear();
    EXPECT_EQ(pool.n_free(), pool.n_pages()) << "pages leaked";
  }
}

TEST(PageTable, ForkSharesPagesAndTheWriterGetsACopyOfThePartialPageOnly) {
  PagePool pool(8);
  PageTable parent(&pool, kPageLen);
  std::vector<PageCopy> copies;
  ASSERT_TRUE(parent.reserve(6, &copies));
  parent.set_len(6);
  EXPECT_TRUE(copies.empty());
  PageTable child = parent.fork(6);
  EXPECT_EQ(pool.n_free(), 6);
  ASSERT_TRUE(child.reserve(7, &copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, parent.pages()[1]);
  EXPECT_EQ(copies[0].to, child.pages()[1]);
  EXPECT_EQ(copies[0].n_tokens, 2);
  EXPECT_EQ(child.pages()[0], parent.pages()[0]);
  copies.clear();
  ASSERT_TRUE(parent.reserve(7, &copies));
  EXPECT_TRUE(copies.empty()) << "the parent is its last page's only owner now";
}

TEST(PageTable, ForkAtAPageBorderNeedsNoCopy) {
  PagePool pool(8);
  PageTable parent(&pool, kPageLen);
  std::vector<PageCopy> copies;
  ASSERT_TRUE(parent.reserve(8, &copies));
  parent.set_len(8);
  PageTable child = parent.fork(4);
  ASSERT_TRUE(child.reserve(5, &copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(child.pages()[0], parent.pages()[0]);
  EXPECT_NE(child.pages()[1], parent.pages()[1]);
}

}  // namespace
}  // namespace bass
