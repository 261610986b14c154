#include "speculation/policies/goodput.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "speculation/draft_testing.h"

namespace bass {
namespace {

/// What an engine keeps for the policy.
struct Learner {
  DraftLengthState state = start();
  StepCosts costs;

  void plan(int n_sequences, std::span<DraftCandidate> candidates) const {
    kGoodputPolicy.choose(state, costs, StepLoad{n_sequences}, candidates);
  }
  // What a device makes of the plan.
  void choose(int n_sequences, std::span<DraftCandidate> candidates) const {
    plan(n_sequences, candidates);
    for (DraftCandidate& candidate : candidates) testing::end_draft(&candidate);
  }
  void learn(std::span<const DraftOutcome> outcomes, const StepCost& cost) {
    learn_step_cost(cost, &costs);
    kGoodputPolicy.learn(state, outcomes);
  }
  static DraftLengthState start() {
    const DraftLengthSpec spec = parse_draft_length("goodput").value();
    return spec.policy->start(spec);
  }
};

std::vector<DraftCandidate> candidates_of(int n, DraftSource source, int max_len = 8) {
  return std::vector<DraftCandidate>(static_cast<size_t>(n), {source, max_len, 0, -1});
}

void measure(Learner& learner, int n_rows, double seconds) {
  for (int i = 0; i < 200; ++i) learner.learn({}, {n_rows, seconds, true});
  learner.state.goodput.n_idle_steps = learner.state.goodput.n_untried_steps = 0;  // not yet time to try a draft
}

// As if a regular step had just been measured again: else the next one is regular.
void refresh(Learner& learner, int n_sequences) { learner.costs.last_measured[n_sequences] = learner.costs.n_steps; }

TEST(Goodput, TheFirstStepIsRegularAndIsMeasured) {
  Learner learner;
  auto candidates = candidates_of(4, DraftSource::kNgram4);
  learner.choose(4, candidates);
  for (const DraftCandidate& candidate : candidates) EXPECT_EQ(candidate.len, 0);
  for (int step = 0; step < 20 && candidates[0].len == 0; ++step) {
    learner.learn({}, {4, 1.0, true});
    learner.choose(4, candidates);
  }
  EXPECT_GT(candidates[0].len, 0) << "what a further row costs is found out soon";
  int n_rows = 4;
  for (const DraftCandidate& candidate : candidates) n_rows += candidate.len;
  EXPECT_LE(n_rows, 8) << "a step has at most twice the rows that were measured";
}

TEST(Goodput, DraftsAsFarAsRowsAreFreeAndNothingWhereEachCostsAStep) {
  Learner free_rows;
  Learner dear_rows;
  for (int rows = 2; rows <= 64; rows += 2) {
    measure(free_rows, rows, 1.0);
    measure(dear_rows, rows, 0.5 * rows);
  }
  const std::vector<DraftOutcome> good = {{8, 8, DraftSource::kNgram4}};
  for (Learner* learner : {&free_rows, &dear_rows}) {
    for (int i = 0; i < 100; ++i) learner->learn(good, {});
  }
  refresh(free_rows, 2);
  refresh(dear_rows, 2);
  auto candidates = candidates_of(2, DraftSource::kNgram4);
  free_rows.choose(2, candidates);
  EXPECT_EQ(candidates[0].len, 8);
  dear_rows.choose(2, candidates);
  EXPECT_EQ(candidates[0].len, 0);
}

// A machine on which a row costs as much as it brings, unless reading the contexts takes most of the time: a token of
// context costs for each sequence that reads it, and hardly anything for further rows.
struct ContextMachine {
  double seen_s = 0;  // each further row

  [[nodiscard]] StepCost cost(int n_sequences, int draft_len, double context_len) const {
    const int n_rows = n_sequences * (1 + draft_len);
    const double n_read = n_sequences * context_len, n_seen = n_rows * context_len;
    const double attention_s = 1e-3 * n_read + seen_s * (n_seen - n_read);
    return {n_rows, 0.1 * n_rows + attention_s, true, 0, 0, 0, attention_s, n_read, n_seen};
  }
  // What a batch drafts whose sequences have such contexts, on steps of draft lengths 0 to 3 that were seen before.
  [[nodiscard]] std::vector<int> lengths(const std::vector<int>& context_lens) const {
    Learner learner;
    const auto n = static_cast<int>(context_lens.size());
    const std::vector<DraftOutcome> outcomes = {
        {4, 0, DraftSource::kNgram4}, {4, 1, DraftSource::kNgram4}, {4, 3, DraftSource::kNgram4}};
    for (int i = 0; i < 400; ++i) learner.learn(outcomes, cost(n, i % 4, i / 4 % 2 == 0 ? 20 : 3000));
    std::vector<DraftCandidate> candidates;
    StepLoad regular{n};
    for (const int len : context_lens) {
      candidates.push_back({DraftSource::kNgram4, 3, 0, -1, len});
      regular.n_read += len;
    }
    regular.n_seen = regular.n_read;
    learner.costs.last_measured[n] = learner.costs.n_steps;
    learner.costs.log_level_at[n] = learner.costs.log_level;
    kGoodputPolicy.choose(learner.state, learner.costs, regular, candidates);
    std::vector<int> lens;
    for (const DraftCandidate& candidate : candidates) lens.push_back(candidate.len);
    return lens;
  }
};

TEST(Goodput, WhereContextsAreLongDraftsPay) {
  const ContextMachine machine;
  EXPECT_EQ(machine.lengths({10, 10, 10, 10}), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(machine.lengths({4000, 4000, 4000, 4000}), (std::vector<int>{3, 3, 3, 3}));
  const ContextMachine dear{.seen_s = 1e-3};  // every row reads its context anew
  EXPECT_EQ(dear.lengths({4000, 4000, 4000, 4000}), (std::vector<int>{0, 0, 0, 0}));
}

TEST(Goodput, WhatDraftsMustBeatIsMeasuredNowAndThen) {
  Learner learner;
  for (int rows = 2; rows <= 64; rows += 2) measure(learner, rows, 1.0);
  auto candidates = candidates_of(2, DraftSource::kNgram4);
  int n_regular = 0;
  for (int step = 0; step < 640; ++step) {
    learner.choose(2, candidates);
    const int len = candidates[0].len;
    n_regular += len == 0 ? 1 : 0;
    const std::vector<DraftOutcome> outcomes(2, DraftOutcome{len, len, DraftSource::kNgram4});
    learner.learn(outcomes, {2 + 2 * len, 1.0, true});
  }
  EXPECT_GE(n_regular, 5);
  EXPECT_LE(n_regular, 13) << "a sixty-fourth of the steps";
}

// Beside prompts nothing is measured, however long it goes on: a regular step would teach nothing.
TEST(Goodput, BesidePromptsItDraftsWithoutMeasuringRegularStepsAnew) {
  Learner learner;
  for (int rows = 2; rows <= 64; rows += 2) measure(learner, rows, 1.0);
  const std::vector<DraftOutcome> good(2, DraftOutcome{8, 8, DraftSource::kNgram4});
  for (int i = 0; i < 100; ++i) learner.learn(good, {});
  auto candidates = candidates_of(2, DraftSource::kNgram4);
  ASSERT_TRUE(is_step_stale(learner.costs, 2));
  StepLoad regular{2};
  kGoodputPolicy.choose(learner.state, learner.costs, regular, candidates);
  EXPECT_EQ(candidates[0].len, 0) << "a step that is measured";
  regular.has_chunk = true;
  kGoodputPolicy.choose(learner.state, learner.costs, regular, candidates);
  EXPECT_EQ(candidates[0].len, 8);
}

TEST(Goodput, BesidePromptsItAsksNoDraftModelWhosePassesWereNotMeasured) {
  Learner learner;
  for (int rows = 2; rows <= 64; rows += 2) measure(learner, rows, 1.0);
  StepLoad regular{2};
  regular.has_chunk = true;
  for (const double draft_s : {0.0, 0.01}) {
    learner.costs.draft_step_s[0] = static_cast<float>(draft_s);
    auto candidates = candidates_of(2, DraftSource::kModel);
    kGoodputPolicy.choose(learner.state, learner.costs, regular, candidates);
    EXPECT_EQ(candidates[0].len > 0, draft_s > 0);
  }
}

TEST(Goodput, TakesTheSequencesWhoseDraftsAreGood) {
  Learner learner;
  for (int rows = 4; rows <= 32; rows *= 2) measure(learner, rows, 1.0 + 0.06 * rows);
  for (int i = 0; i < 300; ++i) {
    const std::vector<DraftOutcome> outcomes = {{4, 4, DraftSource::kNgram5}, {4, 0, DraftSource::kNgram2}};
    learner.learn(outcomes, {});
  }
  std::vector<DraftCandidate> candidates = {{DraftSource::kNgram5, 3, 0, -1}, {DraftSource::kNgram2, 8, 0, -1}};
  refresh(learner, 4);
  learner.choose(4, candidates);
  EXPECT_EQ(candidates[0].len, 3) << "never more than there is";
  EXPECT_EQ(candidates[1].len, 0);
}

TEST(Goodput, TakesTheDrafterFromWhichMoreIsExpected) {
  Learner learner;
  for (int rows = 1; rows <= 16; ++rows) measure(learner, rows, 1.0 + 0.02 * rows);
  const std::vector<DraftOutcome> outcomes = {
      {4, 4, DraftSource::kNgram5}, {4, 0, DraftSource::kNgram2}, {4, 3, DraftSource::kModel}};
  const auto teach = [&](double draft_s) {
    for (int i = 0; i < 300; ++i) learner.learn(outcomes, {16, 1.3, true, 4, 4, draft_s});
  };
  const auto choose = [&](DraftSource ngram, int max_model_len) {
    std::vector<DraftCandidate> candidates = {{ngram, 4, max_model_len, -1}};
    refresh(learner, 1);
    learner.choose(1, candidates);
    return candidates.front();
  };
  teach(4 * 0.05);
  EXPECT_EQ(choose(DraftSource::kNgram5, 8).source, DraftSource::kNgram5);
  EXPECT_EQ(choose(DraftSource::kNgram2, 8).source, DraftSource::kModel);
  EXPECT_GE(choose(DraftSource::kNgram2, 8).len, 3);
  EXPECT_EQ(choose(DraftSource::kNgram2, 2).len, 2) << "never more than there is";
  EXPECT_EQ(choose(DraftSource::kNgram2, 0).len, 0) << "there is no draft model";
  teach(4 * 5.0);
  EXPECT_EQ(choose(DraftSource::kNgram2, 8).len, 0) << "the draft model costs more than steps";
  EXPECT_EQ(choose(DraftSource::kNgram5, 8).len, 4);
}

TEST(Goodput, ADrafterThatAnotherOneReplacedIsTriedAgain) {
  Learner learner;
  for (int rows = 1; rows <= 16; ++rows) measure(learner, rows, 1.0 + 0.02 * rows);
  const std::vector<DraftOutcome> bad_model = {{4, 0, DraftSource::kModel}};
  const std::vector<DraftOutcome> ngram = {{4, 1, DraftSource::kNgram3}};
  const std::vector<DraftOutcome> useless_ngram = {{4, 0, DraftSource::kNgram3}};
  for (int i = 0; i < 300; ++i) learner.learn(bad_model, {5, 1.1, true, 1, 1, 0.05});
  int first_try = 0;
  for (int step = 1; step < 5000 && first_try == 0; ++step) {
    learner.learn(step % 5 == 0 ? ngram : useless_ngram, {5, 1.1, true});
    std::vector<DraftCandidate> candidates = {{DraftSource::kNgram3, 4, 8, -1}};
    refresh(learner, 1);
    learner.choose(1, candidates);
    if (candidates.front().source == DraftSource::kModel) first_try = step;
  }
  EXPECT_GT(first_try, 200);
  EXPECT_LT(first_try, 4000);
}

// A machine and a draft, and what regular decoding, a fixed length and the policy make of them.
struct Simulation {
  std::function<double(int n_rows)> step_s;
  std::function<double(int step)> acceptance;
  int n_sequences = 8;
  double draft_step_s = 0;

  // Tokens a second over the steps [from, to). fixed_len < 0: the policy decides, which knows `costs`.
  double run(int fixed_len, int from, int to, const StepCosts& costs = {}) const {
    std::mt19937 random(1);
    Learner learner;
    learner.costs = costs;
    double tokens = 0, seconds = 0;
    for (int step = 0; step < to; ++step) {
      auto candidates = candidates_of(n_sequences, DraftSource::kModel);
      if (fixed_len < 0) {
        learner.plan(n_sequences, candidates);
      } else {
        for (DraftCandidate& candidate : candidates) candidate.len = fixed_len;
      }
      std::vector<DraftOutcome> outcomes;
      outcomes.reserve(candidates.size());
      StepCost cost{n_sequences, 0, true};
      int n_emitted = n_sequences;
      for (DraftCandidate& candidate : candidates) {
        const std::span<const float> confidences = testing::end_draft(&candidate);
        const auto n_looked_at = static_cast<int>(confidences.size());
        int n_accepted = 0;
        while (n_accepted < candidate.len && std::uniform_real_distribution<>()(random) < acceptance(step))
          ++n_accepted;
        if (n_looked_at > 0) outcomes.push_back({candidate.len, n_accepted, candidate.source, {}, confidences});
        cost.n_rows += candidate.len;
        cost.n_draft_steps = std::max(cost.n_draft_steps, n_looked_at);
        cost.n_model_drafts += n_looked_at;
        n_emitted += n_accepted;
      }
      cost.step_s = step_s(cost.n_rows) * std::uniform_real_distribution<>(0.9, 1.1)(random);
      cost.draft_s = cost.n_draft_steps * draft_step_s;
      if (fixed_len < 0) learner.learn(outcomes, cost);
      if (step < from) continue;
      tokens += n_emitted;
      seconds += cost.step_s + cost.draft_s;
    }
    return tokens / seconds;
  }
};

struct Machine {
  const char* name;
  std::function<double(int)> step_s;
};

const Machine kMachines[] = {
    {"rows are free up to a ridge", [](int rows) { return std::max(1.0, rows / 40.0); }},
    {"each row costs", [](int rows) { return 0.3 + 0.1 * rows; }},
    {"steps at tile edges", [](int rows) { return 0.5 + 0.4 * std::ceil(rows / 12.0); }},
};

TEST(Goodput, IsNeverMuchSlowerThanRegularDecodingAndNearTheBestFixedLength) {
  for (const Machine& machine : kMachines) {
    for (const double acceptance : {0.0, 0.3, 0.6, 0.9}) {
      for (const int n_sequences : {1, 8, 32}) {
        const Simulation simulation{machine.step_s, [=](int) { return acceptance; }, n_sequences, 0.05};
        const double policy = simulation.run(-1, 0, 2000);
        const double regular = simulation.run(0, 0, 2000);
        double best = regular;
        for (int len = 1; len <= 8; ++len) best = std::max(best, simulation.run(len, 0, 2000));
        EXPECT_GE(policy, 0.98 * regular) << machine.name << ", acceptance " << acceptance << ", batch " << n_sequences;
        EXPECT_GE(policy, 0.96 * best) << machine.name << ", acceptance " << acceptance << ", batch " << n_sequences;
      }
    }
  }
}

// What an earlier run has kept, of a machine that was disturbed: steps of up to n_sequences rows look `factor` times as
// long as they are.
StepCosts disturbed_costs(const Machine& machine, int n_sequences, double factor) {
  StepCosts costs;
  costs.max_rows_seen = 4 * n_sequences;
  for (int rows = 1; rows <= costs.max_rows_seen; ++rows) {
    costs.step_s[rows] = static_cast<float>(machine.step_s(rows) * (rows <= n_sequences ? factor : 1.0));
    costs.n_measured[rows] = 4;
  }
  return costs;
}

TEST(Goodput, FindsOutThatATableFromEarlierIsWrong) {
  const Machine& machine = kMachines[1];
  for (const double factor : {0.4, 2.0, 4.0}) {
    for (const double acceptance : {0.3, 0.8}) {
      for (const int n_sequences : {1, 8, 32}) {
        const Simulation simulation{machine.step_s, [=](int) { return acceptance; }, n_sequences, 0.05};
        const StepCosts costs = disturbed_costs(machine, n_sequences, factor);
        const double regular = simulation.run(0, 50, 300);
        double best = regular;
        for (int len = 1; len <= 8; ++len) best = std::max(best, simulation.run(len, 50, 300));
        const double policy = simulation.run(-1, 50, 300, costs);
        EXPECT_GE(policy, 0.97 * regular) << factor << ", acceptance " << acceptance << ", batch " << n_sequences;
        EXPECT_GE(policy, 0.88 * best) << factor << ", acceptance " << acceptance << ", batch " << n_sequences;
      }
    }
  }
}

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
      if (candidate.len > 0) outcomes.push_back({candidate.len, 0, DraftSource::kNgram3});
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
        outcomes.push_back({candidates[i].len, 0, DraftSource::kModel});
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
      cost.n_rows += candidate.is_look ? 0 : candidate.len;
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
  EXPECT_GT(n_verified, 90) << "all looks are verified otherwise";
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
      if (candidate.len > 0 && !candidate.is_look) return step;
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

// Negative control of IsNeverMuchSlower: a fixed length does lose to regular decoding somewhere.
TEST(Goodput, AFixedLengthIsSlowerThanRegularDecodingOnABadDraft) {
  const Simulation simulation{kMachines[1].step_s, [](int) { return 0.3; }, 8, 0.05};
  EXPECT_LT(simulation.run(4, 0, 2000), 0.8 * simulation.run(0, 0, 2000));
}

TEST(Goodput, RecoversWhenTheDraftTurnsUselessAndWhenTheMachineSlowsDown) {
  Simulation turns_bad{kMachines[1].step_s, [](int step) { return step < 500 ? 0.95 : 0.0; }, 4, 0.0};
  EXPECT_GE(turns_bad.run(-1, 560, 1500), 0.96 * turns_bad.run(0, 560, 1500));
  int step = 0;
  Simulation slows{[&step](int rows) { return (step++ < 500 ? 1.0 : 3.0) * std::max(1.0, rows / 40.0); },
                   [](int) { return 0.8; }, 4, 0.0};
  const double policy = slows.run(-1, 560, 1500);
  step = 0;
  EXPECT_GE(policy, 1.5 * slows.run(0, 560, 1500));
}

}  // namespace
}  // namespace bass
