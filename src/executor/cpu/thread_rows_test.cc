#include "executor/cpu/thread_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace bass::cpu {
namespace {

const RowCost kProductsOnly{1, {}};

/// Sequences that decode, with so many tokens each.
std::vector<ForwardSegment> batch_of(const std::vector<int>& n_tokens, int start = 100) {
  std::vector<ForwardSegment> segments;
  int row = 0;
  for (const int n : n_tokens) {
    ForwardSegment segment;
    segment.row_begin = row;
    segment.n_tokens = n;
    segment.start = start;
    segment.is_decode = true;
    segment.n_results = n;
    segments.push_back(segment);
    row += n;
  }
  return segments;
}

ThreadRows split(int n_threads, const std::vector<ForwardSegment>& segments, const RowCost& cost) {
  ThreadRows rows(n_threads);
  rows.reserve(segments.size());
  rows.split(segments, cost);
  return rows;
}

/// Every row is in one share, at its position.
void expect_whole(const ThreadRows& rows, int n_threads, const std::vector<ForwardSegment>& segments) {
  std::vector<int> positions;
  for (const ForwardSegment& segment : segments) {
    for (int t = 0; t < segment.n_tokens; ++t) positions.push_back(segment.start + t);
  }
  int row = 0;
  for (int t = 0; t < n_threads; ++t) {
    EXPECT_EQ(rows.rows(t).begin, row);
    EXPECT_EQ(row % kRowBlock, 0);
    for (const ForwardSegment& part : rows.segments(t)) {
      EXPECT_EQ(part.row_begin, row);
      EXPECT_EQ(part.start, positions.at(static_cast<size_t>(row)));
      EXPECT_GT(part.n_tokens, 0);
      EXPECT_EQ(part.n_results, part.n_tokens);
      row += part.n_tokens;
    }
    EXPECT_EQ(rows.rows(t).end, row);
  }
  EXPECT_EQ(row, static_cast<int>(positions.size()));
}

TEST(ThreadRows, DividesManyRowsEvenly) {
  const std::vector<ForwardSegment> segments = batch_of(std::vector<int>(40, 1));
  const ThreadRows rows = split(2, segments, kProductsOnly);
  ASSERT_TRUE(rows.is_apart());
  expect_whole(rows, 2, segments);
  EXPECT_EQ(rows.rows(0).end, 20);
  EXPECT_FALSE(rows.shares_keys());
}

TEST(ThreadRows, CutsADraftBetweenThreads) {
  const std::vector<ForwardSegment> segments = batch_of(std::vector<int>(15, 5));  // 75 rows: 36 and 39
  const ThreadRows rows = split(2, segments, kProductsOnly);
  ASSERT_TRUE(rows.is_apart());
  expect_whole(rows, 2, segments);
  EXPECT_TRUE(rows.shares_keys());
  EXPECT_EQ(rows.segments(0).size() + rows.segments(1).size(), segments.size() + 1);
  const std::vector<ForwardSegment> whole = batch_of(std::vector<int>(16, 5));  // 80 rows: between two
  EXPECT_FALSE(split(2, whole, kProductsOnly).shares_keys());
}

TEST(ThreadRows, MoreThreadsNeedMoreRows) {
  EXPECT_FALSE(split(1, batch_of(std::vector<int>(500, 1)), kProductsOnly).is_apart());
  EXPECT_FALSE(split(2, batch_of(std::vector<int>(31, 1)), kProductsOnly).is_apart());
  EXPECT_FALSE(split(4, batch_of(std::vector<int>(100, 1)), kProductsOnly).is_apart());
  const std::vector<ForwardSegment> segments = batch_of(std::vector<int>(160, 1));
  const ThreadRows rows = split(4, segments, kProductsOnly);
  ASSERT_TRUE(rows.is_apart());
  expect_whole(rows, 4, segments);
  for (int t = 0; t < 4; ++t) EXPECT_EQ(rows.rows(t).end, 40 * (t + 1));
}

// 36 rows are nine row blocks: one thread would have a quarter more than the other.
TEST(ThreadRows, UnevenRowsAreNotDivided) {
  EXPECT_FALSE(split(2, batch_of(std::vector<int>(36, 1)), kProductsOnly).is_apart());
  EXPECT_FALSE(split(2, batch_of(std::vector<int>(33, 1)), kProductsOnly).is_apart());
  EXPECT_TRUE(split(2, batch_of(std::vector<int>(76, 1)), kProductsOnly).is_apart());
}

TEST(ThreadRows, CountsContexts) {
  std::vector<ForwardSegment> segments = batch_of(std::vector<int>(64, 1));
  for (size_t i = 0; i < 16; ++i) segments[i].start = 1999;  // cost 3, the others 1.1
  const RowCost cost{1, {{0, 0.001}}};
  const ThreadRows rows = split(2, segments, cost);
  ASSERT_TRUE(rows.is_apart());
  expect_whole(rows, 2, segments);
  EXPECT_EQ(rows.rows(0).end, 20);
  // Half of the layers see no more than 100 positions.
  const ThreadRows with_window = split(2, segments, {1, {{0, 0.0005}, {100, 0.0005}}});
  ASSERT_TRUE(with_window.is_apart());
  EXPECT_EQ(with_window.rows(0).end, 24);
  for (size_t i = 0; i < 12; ++i)
    segments[i].start = 3999;  // twelve rows would be a share: too few to read weights for
  for (size_t i = 12; i < 16; ++i) segments[i].start = 99;
  EXPECT_FALSE(split(2, segments, cost).is_apart());
  segments[0].start = 100000;  // costs more than all others
  EXPECT_FALSE(split(2, segments, cost).is_apart());
}

TEST(ThreadRows, PromptsAndRowsWithoutResultsAreNotDivided) {
  std::vector<ForwardSegment> segments = batch_of(std::vector<int>(20, 4));
  segments[3].is_decode = false;
  EXPECT_FALSE(split(2, segments, kProductsOnly).is_apart());
  segments[3].is_decode = true;
  EXPECT_TRUE(split(2, segments, kProductsOnly).is_apart());
  segments[19].n_results = 1;
  EXPECT_FALSE(split(2, segments, kProductsOnly).is_apart());
  EXPECT_FALSE(split(2, {}, kProductsOnly).is_apart());
}

}  // namespace
}  // namespace bass::cpu
