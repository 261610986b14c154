#include "speculation/attention_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace bass {
namespace {

/// A machine whose attention takes what AttentionCosts can say, with noise.
struct LinearMachine {
  double row_s, read_s, seen_s;
  [[nodiscard]] double seconds(const StepLoad& load) const {
    return row_s * load.n_rows + read_s * load.n_read + seen_s * (load.n_seen - load.n_read);
  }
};

StepLoad load_of(int n_sequences, int draft_len, double context_len) {
  const int n_rows = n_sequences * (1 + draft_len);
  return {n_rows, n_sequences * context_len, n_rows * context_len};
}

TEST(AttentionCosts, KnowNothingAtFirst) { EXPECT_EQ(predicted_attention_seconds({}, load_of(8, 2, 100)), 0); }

TEST(AttentionCosts, RegularStepsForetellLongerContexts) {
  const LinearMachine machine{2e-6, 1e-7, 0};
  AttentionCosts costs;
  for (int i = 0; i < 100; ++i) {
    const StepLoad load = load_of(8, 0, 100 + i);
    learn_attention_cost(load, machine.seconds(load), &costs);
  }
  const StepLoad far = load_of(8, 0, 2000);
  EXPECT_NEAR(predicted_attention_seconds(costs, far), machine.seconds(far), 0.1 * machine.seconds(far));
}

TEST(AttentionCosts, DraftsTellWhatFurtherRowsCost) {
  std::mt19937 random(1);
  std::normal_distribution<> noise(0, 0.1);
  for (const double seen_s : {0.0, 3e-8, 1e-7}) {
    const LinearMachine machine{2e-6, 1e-7, seen_s};
    AttentionCosts costs;
    for (int i = 0; i < 300; ++i) {
      const StepLoad load = load_of(8, i % 4, 1000 + i);
      learn_attention_cost(load, machine.seconds(load) * std::exp(noise(random)), &costs);
    }
    for (const int draft_len : {0, 1, 6}) {
      const StepLoad load = load_of(8, draft_len, 1300);
      EXPECT_NEAR(predicted_attention_seconds(costs, load), machine.seconds(load), 0.15 * machine.seconds(load))
          << seen_s << ", draft length " << draft_len;
    }
  }
}

// Computing for a few rows hides behind the reading. Most steps draft one token, and few none or several.
TEST(AttentionCosts, RowsAreFreeAsLongAsReadingTakesLonger) {
  std::mt19937 random(1);
  std::normal_distribution<> noise(0, 0.03);
  for (const double rows_for_free : {2.0, 3.0}) {
    const auto seconds = [&](const StepLoad& load) {
      return 4e-7 * std::max(load.n_read, load.n_seen / rows_for_free);
    };
    AttentionCosts costs;
    for (int i = 0; i < 300; ++i) {
      const StepLoad load = load_of(8, i % 30 == 0 ? 0 : i % 9 == 0 ? 3 : 1, 3000 + i);
      learn_attention_cost(load, seconds(load) * std::exp(noise(random)), &costs);
    }
    EXPECT_EQ(costs.free_rows(), static_cast<int>(rows_for_free));
    for (const int draft_len : {0, 1, 3}) {
      const StepLoad load = load_of(8, draft_len, 3300);
      EXPECT_NEAR(predicted_attention_seconds(costs, load), seconds(load), 0.06 * seconds(load)) << draft_len;
    }
    AttentionCosts straight = costs;  // as if each further row cost the same
    straight.best = 0;
    const StepLoad regular = load_of(8, 0, 3300);
    EXPECT_LT(predicted_attention_seconds(straight, regular), 0.9 * seconds(regular)) << "drafts would look dearer";
  }
}

// Before the first draft: reading is what costs, a further row only some of it.
TEST(AttentionCosts, BelieveThatFurtherRowsAreCheap) {
  AttentionCosts costs;
  for (int i = 0; i < 50; ++i) learn_attention_cost(load_of(8, 0, 4000 + i), 3e-3, &costs);
  const double regular = predicted_attention_seconds(costs, load_of(8, 0, 4050));
  const double drafted = predicted_attention_seconds(costs, load_of(8, 1, 4050));
  EXPECT_NEAR(regular, 3e-3, 1e-4);
  EXPECT_GT(drafted, 1.1 * regular);
  EXPECT_LT(drafted, 1.6 * regular);
}

TEST(AttentionCosts, FollowAMachineThatSlowsDown) {
  const LinearMachine machine{2e-6, 1e-7, 3e-8};
  AttentionCosts costs;
  StepLoad load;
  for (int i = 0; i < 400; ++i) {
    load = load_of(8, i % 3, 1000 + i);
    learn_attention_cost(load, machine.seconds(load) * (i < 300 ? 1 : 3), &costs);
  }
  EXPECT_NEAR(predicted_attention_seconds(costs, load), 3 * machine.seconds(load), 0.5 * machine.seconds(load));
}

TEST(AttentionCosts, AnOutlierCountsLittle) {
  const LinearMachine machine{2e-6, 1e-7, 3e-8};
  AttentionCosts costs;
  const StepLoad load = load_of(8, 1, 1000);
  for (int i = 0; i < 100; ++i) learn_attention_cost(load, machine.seconds(load), &costs);
  learn_attention_cost(load, 1000 * machine.seconds(load), &costs);
  EXPECT_LT(predicted_attention_seconds(costs, load), 1.2 * machine.seconds(load));
}

TEST(AttentionCosts, WhatAnEarlierRunFoundOfFreeRowsIsBelievedToo) {
  const double seconds[AttentionFit::kTerms] = {0.0, 1e-7, 5e-8};
  const AttentionCosts costs = known_attention_costs(seconds, 2);
  EXPECT_EQ(costs.free_rows(), 2);
  EXPECT_NEAR(predicted_attention_seconds(costs, load_of(8, 1, 1000)), 8e-4, 1e-9);
  EXPECT_NEAR(predicted_attention_seconds(costs, load_of(8, 3, 1000)), 8e-4 + 2 * 8000 * 5e-8, 1e-9);
}

TEST(AttentionCosts, WhatAnEarlierRunFoundIsBelievedUntilThereIsMore) {
  const double seconds[AttentionFit::kTerms] = {1e-6, 1e-7, 0.0};
  AttentionCosts costs = known_attention_costs(seconds);
  const StepLoad load = load_of(8, 3, 1000);
  EXPECT_NEAR(predicted_attention_seconds(costs, load), 32e-6 + 8e-4, 1e-6);
  const LinearMachine slower{1e-6, 2e-7, 1e-7};
  for (int i = 0; i < 40; ++i)
    learn_attention_cost(load_of(8, i % 4, 1000), slower.seconds(load_of(8, i % 4, 1000)), &costs);
  EXPECT_NEAR(predicted_attention_seconds(costs, load), slower.seconds(load), 0.1 * slower.seconds(load));
}

}  // namespace
}  // namespace bass
