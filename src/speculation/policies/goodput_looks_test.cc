// When `goodput` tries and looks at drafts that it does not use, and what it makes of a text that the draft model has
// not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "speculation/policies/goodput_testing.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of policies share

// Single tokens are looked at for a hundredth of the time; what would pay if steps were cheaper is tried more rarely.
TEST(Goodput, WhatDidNotPayIsTriedAgainEverMoreRarely) {
  Learner learner;
  measure(learner, 8, 1.0);
  measure(learner, 16, 2.0);
  std::vector<int> tries;
  int n_looks = 0;
  double seconds = 0;
  auto candidates = candidates_of(8, DraftSource::kNgram3);
  for (int step = 0; step < 1000; ++step) {
    learner.choose(8, candidates);
    std::vector<DraftOutcome> outcomes;
    int n_rows = 8;
    for (const DraftCandidate& candidate : candidates) {
      n_rows += candidate.len;
      if (candidate.len == 0) continue;
      outcomes.push_back({.n_drafted = candidate.len, .source = DraftSource::kNgram3, .is_look = candidate.is_look});
    }
    n_looks += n_rows == 9 ? 1 : 0;
    if (n_rows > 9) tries.push_back(step);
    seconds += n_rows / 8.0;
    learner.learn(outcomes, {n_rows, n_rows / 8.0, true});
  }
  EXPECT_GE(n_looks, 30);
  EXPECT_LE(tries.size(), 12u);
  EXPECT_LE(seconds, 1.02 * 1000);
}

// Sixteen sequences whose draft model is never right, with a row for a sixteenth of a step, and a hundredth of a step
// for each token that the model has not followed. Returns the time of 1000 steps in those of regular ones.
double time_of_vain_tries(bool tells_what_is_unread) {
  constexpr int kSequences = 16;
  constexpr double kReading = 0.01;
  Learner learner;
  measure(learner, kSequences, 1.0);
  measure(learner, 2 * kSequences, 2.0);
  auto candidates = candidates_of(kSequences, DraftSource::kModel);
  std::vector<int> n_unread(kSequences, 1);
  double seconds = 0;
  for (int step = 0; step < 1000; ++step) {
    for (size_t i = 0; i < kSequences; ++i) candidates[i].n_unread = tells_what_is_unread ? n_unread[i] : 0;
    learner.plan(kSequences, candidates);
    std::vector<DraftOutcome> outcomes;
    StepCost cost{kSequences, 0, true};
    for (size_t i = 0; i < kSequences; ++i) {
      if (candidates[i].len > 0) {
        outcomes.push_back({.n_drafted = candidates[i].len, .is_look = candidates[i].is_look});
        cost.n_rows += candidates[i].len;
        cost.n_draft_steps = std::max(cost.n_draft_steps, candidates[i].len);
        cost.n_model_drafts += candidates[i].len;
        cost.n_caught_up += n_to_catch_up(n_unread[i]);
        n_unread[i] = 0;
      }
      ++n_unread[i];
    }
    cost.step_s = cost.n_rows / static_cast<double>(kSequences);
    cost.draft_s = 0.02 * cost.n_draft_steps + kReading * cost.n_caught_up;
    seconds += cost.step_s + cost.draft_s;
    learner.learn(outcomes, cost);
  }
  return seconds / 1000;
}

TEST(Goodput, TriesOfADraftThatWasNotKeptUpToDateAreCheapAndRare) {
  const double knowing = time_of_vain_tries(true);
  EXPECT_LE(knowing, 1.025);
  EXPECT_GT(time_of_vain_tries(false), knowing + 0.01) << "what it costs where the policy does not know";
}

// Steps between looks at a model's drafts that are never worth it, of 16 sequences. can_look: of the device.
double mean_pause(bool can_look, int* n_verified) {
  Learner learner;
  measure(learner, 16, 1.0);
  measure(learner, 18, 1.3);
  const std::vector<DraftOutcome> rejected(2, DraftOutcome{1, 0, DraftSource::kModel});
  for (int i = 0; i < 50; ++i) learner.learn(rejected, {18, 1.3, true, 1, 2, 0.05});
  int n_looks = 0;
  constexpr int kSteps = 4000;
  for (int step = 0; step < kSteps; ++step) {
    auto candidates = candidates_of(16, DraftSource::kModel);
    for (DraftCandidate& candidate : candidates) candidate.can_look = can_look;
    learner.choose(16, candidates);
    std::vector<DraftOutcome> outcomes;
    StepCost cost{16, 1.0, true};
    for (const DraftCandidate& candidate : candidates) {
      if (candidate.len == 0) continue;
      outcomes.push_back({.n_drafted = 1, .is_look = candidate.is_look});
      cost.n_rows += candidate.is_free_look() ? 0 : candidate.len;
    }
    if (cost.n_rows > 16) {
      ++*n_verified;
      cost.step_s = 1.3;
    }
    if (!outcomes.empty()) {
      ++n_looks;
      cost.n_draft_steps = 1;
      cost.n_model_drafts = 2;
      cost.draft_s = 0.05;
    }
    learner.learn(outcomes, cost);
  }
  return 1.0 * kSteps / n_looks;
}

TEST(Goodput, WhereADeviceCanLookItIsAskedAndTriesAreForCostsAlone) {
  int n_verified_looking = 0, n_verified = 0;
  const double pause_looking = mean_pause(true, &n_verified_looking);
  const double pause = mean_pause(false, &n_verified);
  EXPECT_LT(pause_looking, 0.6 * pause) << "cheaper looks are taken more often";
  EXPECT_LT(n_verified_looking, 60) << "a try now and then";
  EXPECT_GT(n_verified_looking, 10);
  EXPECT_GT(n_verified, 75) << "all looks are verified otherwise";
}

// Steps before the first verified draft, of 16 sequences whose drafts are never worth it.
int steps_before_a_try(const StepCosts& costs, bool can_look) {
  Learner learner;
  learner.costs = costs;
  for (int step = 0; step < 400; ++step) {
    auto candidates = candidates_of(16, DraftSource::kNgram3);
    for (DraftCandidate& candidate : candidates) candidate.can_look = can_look;
    learner.choose(16, candidates);
    std::vector<DraftOutcome> outcomes;
    for (const DraftCandidate& candidate : candidates) {
      if (candidate.len > 0 && !candidate.is_free_look()) return step;
      if (candidate.len > 0) outcomes.push_back({.n_drafted = 1, .source = DraftSource::kNgram3, .is_look = true});
    }
    learner.learn(outcomes, {16, 1.0, true});
  }
  return -1;
}

TEST(Goodput, WhereAnEarlierRunHasMeasuredTriesCanWaitForLooksTellTheRest) {
  StepCosts kept;
  kept.max_rows_seen = 32;
  for (int rows = 1; rows <= 32; ++rows) {
    kept.step_s[rows] = static_cast<float>(rows / 16.0);
    kept.n_measured[rows] = 4;
  }
  const int with_looks = steps_before_a_try(kept, /*can_look=*/true);
  EXPECT_GE(with_looks, 120);
  EXPECT_LE(with_looks, 140) << "once in a while costs are looked at all the same";
  for (const int steps : {steps_before_a_try({}, true), steps_before_a_try(kept, false)}) {
    EXPECT_GE(steps, 0);
    EXPECT_LE(steps, 20) << "nothing is known of them, or nothing of drafts";
  }
}

TEST(Goodput, TriesTakeTheSequencesWithLeastToRead) {
  Learner learner;
  measure(learner, 16, 1.0);
  measure(learner, 32, 2.0);
  const std::vector<DraftOutcome> rejected(16, DraftOutcome{1, 0, DraftSource::kModel});
  for (int i = 0; i < 50; ++i) learner.learn(rejected, {32, 2.0, true, 1, 16, 0.02});
  learner.state.goodput.n_idle_steps = learner.state.goodput.n_untried_steps = 1000;
  auto candidates = candidates_of(16, DraftSource::kModel);
  const auto tried = [&](int n_unread_of_5, int n_unread_of_11) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].n_unread = i == 5 ? n_unread_of_5 : i == 11 ? n_unread_of_11 : 300;
    }
    learner.plan(16, candidates);
    std::vector<size_t> found;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].len > 0) found.push_back(i);
    }
    return found;
  };
  EXPECT_EQ(tried(1, 2), (std::vector<size_t>{5, 11}));
  EXPECT_EQ(tried(20, 2), (std::vector<size_t>{5, 11}));
  EXPECT_EQ(tried(20, 19), (std::vector<size_t>{11})) << "one that has to catch up is enough";
  EXPECT_EQ(tried(300, 300), (std::vector<size_t>{0}));
}

// Of four sequences with good drafts the model has followed one, and would have to read much for the others.
std::vector<int> lengths_beside_unread(int n_left) {
  Learner learner;
  measure(learner, 4, 1.0);
  for (int rows = 5; rows <= 16; ++rows) measure(learner, rows, 1.0 + 0.02 * rows);
  const std::vector<DraftOutcome> good = {{4, 4, DraftSource::kModel}};
  for (int i = 0; i < 100; ++i) learner.learn(good, {8, 1.16, true, 4, 16, 0.1});
  StepCost reading{8, 1.16, true, 1, 4, 5.025};
  reading.n_caught_up = 1000;  // 5 ms a token
  for (int i = 0; i < 30; ++i) learner.learn(good, reading);
  refresh(learner, 4);
  auto candidates = candidates_of(4, DraftSource::kModel);
  for (DraftCandidate& candidate : candidates) {
    candidate.n_unread = &candidate == &candidates[1] ? 1 : 2000;
    candidate.n_left = n_left;
  }
  learner.plan(4, candidates);
  std::vector<int> lengths;
  for (const DraftCandidate& candidate : candidates) lengths.push_back(candidate.len);
  return lengths;
}

TEST(Goodput, ATextThatWasNotReadDoesNotKeepOthersFromDrafting) {
  const std::vector<int> soon_at_their_end = lengths_beside_unread(16);
  EXPECT_GT(soon_at_their_end[1], 0);
  for (const size_t i : {0, 2, 3}) EXPECT_EQ(soon_at_their_end[i], 0) << i;
  for (const int length : lengths_beside_unread(1000)) EXPECT_GT(length, 0) << "worth reading";
}

TEST(Goodput, ReadingMuchIsWeighedAgainstWhatDraftsWin) {
  Learner learner;
  const std::vector<DraftOutcome> outcomes = {{4, 3, DraftSource::kModel}};
  for (int rows = 1; rows <= 16; ++rows) measure(learner, rows, 1.0 + 0.02 * rows);
  for (int i = 0; i < 300; ++i) learner.learn(outcomes, {5, 1.1, true, 4, 4, 4 * 0.05});
  learner.costs.catch_up_s = 0.05F;
  const auto len_with = [&](int n_unread) {
    auto candidates = candidates_of(1, DraftSource::kModel);
    candidates[0].n_unread = n_unread;
    refresh(learner, 1);
    learner.choose(1, candidates);
    return candidates[0].len;
  };
  EXPECT_GT(len_with(1), 0);
  EXPECT_GT(len_with(100), 0) << "a few steps' worth, won back soon";
  EXPECT_EQ(len_with(4000), 0) << "two hundred steps' worth";
}

// Behind n-grams' drafts the next pass has some tokens more to read, and each step that uses it pays for that.
TEST(Goodput, BeingALittleBehindCosts) {
  Learner learner;
  const std::vector<DraftOutcome> outcomes = {{4, 2, DraftSource::kModel}};
  for (int rows = 1; rows <= 16; ++rows) measure(learner, rows, 1.0 + 0.02 * rows);
  for (int i = 0; i < 300; ++i) learner.learn(outcomes, {5, 1.1, true, 4, 4, 4 * 0.05});
  const auto len_with = [&](int n_unread, float catch_up_s) {
    learner.costs.catch_up_s = catch_up_s;
    auto candidates = candidates_of(1, DraftSource::kModel);
    candidates[0].n_unread = n_unread;
    refresh(learner, 1);
    learner.choose(1, candidates);
    return candidates[0].len;
  };
  EXPECT_GT(len_with(8, 0.0F), 0);
  EXPECT_GT(len_with(8, 0.01F), 0);
  EXPECT_GT(len_with(2, 2.0F), 0);
  EXPECT_EQ(len_with(8, 2.0F), 0) << "ten steps' worth for one step";
}

// Looks with a lot to read are rare, also where the last one was a surprise.
TEST(Goodput, SurprisesAreNotLookedAtWhateverTheyCost) {
  const auto n_looks = [](int n_unread) {
    Learner learner;
    for (int rows = 1; rows <= 16; ++rows) measure(learner, rows, 0.2 * rows);  // nothing pays
    const std::vector<DraftOutcome> rejected(8, DraftOutcome{1, 0, DraftSource::kModel, {}, {}, nullptr, true});
    for (int i = 0; i < 200; ++i) learner.learn(rejected, {8, 1.6, true, 1, 8, 0.05});
    learner.costs.catch_up_s = 0.005F;
    const std::vector<DraftOutcome> accepted(1, DraftOutcome{1, 1, DraftSource::kModel, {}, {}, nullptr, true});
    int n = 0;
    for (int step = 0; step < 400; ++step) {
      auto candidates = candidates_of(8, DraftSource::kModel);
      for (DraftCandidate& candidate : candidates) {
        candidate.n_unread = n_unread;
        candidate.can_look = true;
      }
      refresh(learner, 8);
      learner.plan(8, candidates);
      const auto chosen = std::find_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.len > 0; });
      const bool is_look = chosen != candidates.end() && chosen->is_look;
      n += is_look ? 1 : 0;
      if (chosen == candidates.end() || is_look) {
        learner.learn(is_look ? accepted : std::vector<DraftOutcome>{}, {8, 1.6, true});
      } else {
        learner.learn(std::vector<DraftOutcome>{{1, 0, DraftSource::kModel}}, {9, 1.8, true, 1, 1, 0.05});
      }
    }
    return n;
  };
  EXPECT_GT(n_looks(1), 2 * n_looks(60));
  EXPECT_GE(n_looks(60), 5) << "two tenths of a step's worth each";
  EXPECT_LE(n_looks(1000), 2) << "three steps' worth each";
}

}  // namespace
}  // namespace bass
