#include "executor/cpu/result_rows.h"

#include <gtest/gtest.h>

#include <utility>

namespace bass::cpu {
namespace {

ForwardSegment segment(int row_begin, int n_tokens, int start, int n_results) {
  ForwardSegment made;
  made.row_begin = row_begin;
  made.n_tokens = n_tokens;
  made.start = start;
  made.n_results = n_results;
  made.is_decode = n_results > 0;
  return made;
}

TEST(ResultRows, AreAllOfABatchThatAsksForAll) {
  ResultRows results;
  EXPECT_TRUE(results.is_all());  // of no batch
  const ForwardSegment batch[] = {segment(0, 2, 7, 2), segment(2, 1, 0, 1)};
  results.build(batch);
  EXPECT_TRUE(results.is_all());
  EXPECT_EQ(results.n_rows(), 3);
  EXPECT_EQ(results.place(2), 2);
  const ForwardSegment next[] = {segment(0, 2, 9, 1)};  // nothing of the batch before is left
  results.build(next);
  EXPECT_FALSE(results.is_all());
  EXPECT_EQ(results.n_rows(), 1);
  EXPECT_EQ(results.row(0), 1);
  EXPECT_EQ(results.segments().size(), 1U);
}

TEST(ResultRows, AreTheLastOfEachSegmentInTheirOrder) {
  const ForwardSegment batch[] = {segment(0, 3, 10, 1), segment(3, 4, 0, 0), segment(7, 2, 5, 2)};
  ResultRows results;
  results.build(batch);
  EXPECT_FALSE(results.is_all());
  ASSERT_EQ(results.n_rows(), 3);
  for (const auto& [place, row] : {std::pair(0, 2), std::pair(1, 7), std::pair(2, 8)}) {
    EXPECT_EQ(results.row(place), row);
    EXPECT_EQ(results.place(row), place);
  }
}

TEST(ResultRows, StandAtTheirPositions) {
  const ForwardSegment batch[] = {segment(0, 3, 10, 1), segment(3, 4, 0, 0), segment(7, 2, 5, 2)};
  ResultRows results;
  results.build(batch);
  ASSERT_EQ(results.segments().size(), 2U);  // none without results
  EXPECT_EQ(results.segments()[0].row_begin, 0);
  EXPECT_EQ(results.segments()[0].n_tokens, 1);
  EXPECT_EQ(results.segments()[0].start, 12);
  EXPECT_EQ(results.segments()[1].row_begin, 1);
  EXPECT_EQ(results.segments()[1].n_tokens, 2);
  EXPECT_EQ(results.segments()[1].start, 5);
}

TEST(ResultRows, MayBeNone) {
  const ForwardSegment batch[] = {segment(0, 300, 0, 0)};
  ResultRows results;
  results.build(batch);
  EXPECT_FALSE(results.is_all());
  EXPECT_EQ(results.n_rows(), 0);
  EXPECT_TRUE(results.segments().empty());
}

TEST(ResultRows, RefuseARowWithoutOne) {
  const ForwardSegment batch[] = {segment(0, 3, 10, 1)};
  ResultRows results;
  results.build(batch);
  EXPECT_DEATH((void)results.place(1), "");
}

}  // namespace
}  // namespace bass::cpu
