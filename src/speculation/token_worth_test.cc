#include "speculation/token_worth.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace bass {
namespace {

// A step of n rows takes first_s + (n - 1) row_s.
StepCosts line(double first_s, double row_s) {
  StepCosts costs;
  costs.max_rows_seen = 64;
  for (int rows = 1; rows <= costs.max_rows_seen; ++rows) {
    costs.step_s[rows] = static_cast<float>(first_s + (rows - 1) * row_s);
    costs.n_measured[rows] = 200;
  }
  return costs;
}

std::vector<RunningSequence> with_left(const std::vector<int>& n_left, int job = 1, bool may_end = false) {
  std::vector<RunningSequence> sequences;
  for (const int n : n_left) sequences.push_back({job, n, may_end});
  return sequences;
}

std::vector<float> worths(const StepCosts& costs, std::vector<RunningSequence> sequences, bool has_waiting = false) {
  weigh_tokens(costs, StepLoad{static_cast<int>(sequences.size())}, has_waiting, sequences);
  std::vector<float> result;
  for (const RunningSequence& sequence : sequences) result.push_back(sequence.worth);
  return result;
}

float mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0f) / static_cast<float>(values.size());
}

const std::vector<float> kOnes(4, 1.0f);

TEST(TokenWorth, OneWhereAllHaveAsMuchLeft) {
  for (const float worth : worths(line(3.0, 0.4), with_left({50, 50, 50, 50}))) EXPECT_NEAR(worth, 1, 1e-5);
}

TEST(TokenWorth, MoreTheMoreASequenceHasLeft) {
  const std::vector<float> found = worths(line(3.0, 0.4), with_left({60, 50, 45, 10}));
  EXPECT_GT(found[0], 1.5f);
  for (size_t i = 1; i < found.size(); ++i) EXPECT_LT(found[i], found[i - 1]);
  EXPECT_NEAR(mean(found), 1, 1e-5);
}

// Steps of 4, 3, 2 and 1 sequences take 4.2, 3.8, 3.4 and 3.0: a token of the last one saves 3.0, one of others 0.4.
TEST(TokenWorth, IsWhatAStepWithoutTheTokenSaves) {
  const std::vector<float> found = worths(line(3.0, 0.4), with_left({500, 10, 10, 10}));
  EXPECT_NEAR(found[0], 3.0 / 1.05, 1e-3);
  for (size_t i = 1; i < found.size(); ++i) EXPECT_NEAR(found[i], 0.4 / 1.05, 1e-3);
}

TEST(TokenWorth, OneWhereRowsTakeAllOfAStep) {
  for (const float worth : worths(line(0.5, 0.5), with_left({500, 10, 10, 10}))) EXPECT_NEAR(worth, 1, 1e-4);
}

TEST(TokenWorth, OneWhereOthersWaitOrNothingIsMeasured) {
  EXPECT_EQ(worths(line(3.0, 0.4), with_left({500, 10, 10, 10}), /*has_waiting=*/true), kOnes);
  EXPECT_EQ(worths(StepCosts{}, with_left({500, 10, 10, 10})), kOnes);
}

TEST(TokenWorth, WhatMayEndByItselfIsHardlyBehind) {
  const float behind = worths(line(3.0, 0.4), with_left({80, 50, 50, 50}))[0];
  const float perhaps = worths(line(3.0, 0.4), with_left({80, 50, 50, 50}, 1, /*may_end=*/true))[0];
  EXPECT_GT(perhaps, 1.05f);
  EXPECT_LT(perhaps - 1, 0.4f * (behind - 1));
}

TEST(TokenWorth, JobsAreApart) {
  std::vector<RunningSequence> sequences = with_left({90}, 1);
  for (const RunningSequence& other : with_left({500, 500}, 2)) sequences.push_back(other);
  for (const RunningSequence& alone : with_left({700, 5}, 0)) sequences.push_back(alone);
  sequences.push_back({3, 900});
  sequences.push_back({1, 30});  // of the first job, with others between them
  const std::vector<float> found = worths(line(3.0, 0.1), sequences);
  EXPECT_GT(found.front(), 1.5f);
  EXPECT_NEAR(found.front() + found.back(), 2, 1e-5);
  for (size_t i = 1; i + 1 < found.size(); ++i) EXPECT_NEAR(found[i], 1, 1e-5) << i;
}

// A table may say that a step of one sequence takes next to nothing.
TEST(TokenWorth, TheLastIsNeverWorthLessThanOthers) {
  StepCosts costs = line(3.0, 0.4);
  costs.step_s[1] = 0.1f;
  EXPECT_GE(worths(costs, with_left({90, 30, 30, 30}))[0], 1.0f);
}

// Where rows are free nobody but the last one has anything to win, and levels are divided by what a token is worth.
TEST(TokenWorth, IsNeverNothing) {
  for (const float worth : worths(line(3.0, 0.0), with_left({1'000'000, 10, 10, 10}))) EXPECT_GT(worth, 0);
}

// Asked again, it forgets what it said.
TEST(TokenWorth, IsSetAnew) {
  std::vector<RunningSequence> sequences = with_left({500, 10, 10, 10});
  weigh_tokens(line(3.0, 0.4), StepLoad{4}, false, sequences);
  weigh_tokens(line(3.0, 0.4), StepLoad{4}, true, sequences);
  for (const RunningSequence& sequence : sequences) EXPECT_EQ(sequence.worth, 1);
}

}  // namespace
}  // namespace bass
