// `goodput` on a machine that others use too, in runs of a hundred steps: what it saw in a burst of slow steps must not
// make it draft where nothing pays. Judged without the luck of draws and measurements (simulation/conditions.h).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

#include "speculation/simulation/conditions.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of policies share

constexpr int kShortRun = 100;
constexpr uint64_t kShortRuns = 40;

const NamedMachine kSharedMachines[] = {
    {"each row costs", [](int rows) { return 0.3 + 0.1 * rows; }},
    {"four rows are free", [](int rows) { return std::max(0.9 + 0.025 * rows, 0.25 * rows); }},
    {"steps at tile edges", [](int rows) { return 0.5 + 0.4 * std::ceil(rows / 8.0); }},
};

// What an earlier run has kept, on a day when the machine was slower or faster.
StepCosts kept_costs(const NamedMachine& machine, int n_sequences, double factor) {
  StepCosts costs;
  costs.max_rows_seen = 4 * n_sequences;
  for (int rows = 1; rows <= costs.max_rows_seen; ++rows) {
    costs.step_s[rows] = static_cast<float>(machine.step_s(rows) * factor);
    costs.n_measured[rows] = 4;
  }
  costs.draft_step_s[0] = costs.draft_step_s[3] = static_cast<float>(0.05 * factor);
  return costs;
}

// Of regular decoding, as a mean over runs; a run begins with a kept table.
double of_regular(const NamedMachine& named, const Conditions& conditions, double bursts, bool has_model) {
  ChangingMachine machine{named.step_s, has_model ? 0.05 : 0.0};
  machine.conditions = [&](int) { return conditions; };
  machine.bursts = bursts;
  double sum = 0;
  for (uint64_t seed = 1; seed <= kShortRuns; ++seed) {
    const double factor = 0.7 + 0.7 * static_cast<double>(seed) / kShortRuns;
    const auto chooser =
        engine_policy(parse_draft_length("goodput").value(), kept_costs(named, conditions.n_sequences, factor));
    const auto steps = run_steps(machine, chooser.get(), kShortRun, seed);
    sum += sum_of(steps, 0, kShortRun).goodput();
  }
  return sum / kShortRuns / fixed_goodput(machine, 0, has_model, 0, kShortRun);
}

TEST(Disturbance, ShortRunsAreNotSlowerThanRegularDecoding) {
  double least = 10, all = 0;
  int n = 0;
  std::string worst;
  for (const NamedMachine& machine : kSharedMachines) {
    for (const int n_sequences : {1, 4, 8, 32}) {
      for (const double acceptance : {0.2, 0.4, 0.6}) {
        for (const bool has_model : {true, false}) {
          Conditions conditions{n_sequences};
          (has_model ? conditions.model_acceptance : conditions.ngram_acceptance) = acceptance;
          const double reached = of_regular(machine, conditions, 0.03, has_model);
          all += reached;
          ++n;
          EXPECT_GE(reached, 0.97) << machine.name << ", " << n_sequences << " sequences, acceptance " << acceptance
                                   << (has_model ? ", model" : ", n-grams");
          if (reached >= least) continue;
          least = reached;
          worst = std::string(machine.name) + ", " + std::to_string(n_sequences) + " sequences";
        }
      }
    }
  }
  std::printf("short runs among bursts: of regular decoding %.3f at least (%s), %.3f on average\n", least,
              worst.c_str(), all / n);
}

// Few sequences have a match in a step, so that steps of many sizes are measured a few times each, half of them while
// others work, and nothing is known from an earlier run. As a mean over runs.
TEST(Disturbance, WhatIsLearntWhileOthersWorkHalfOfTheTimeDoesNotMislead) {
  constexpr int kSteps = 480;
  for (const NamedMachine& named : kSharedMachines) {
    for (const int n_sequences : {8, 32}) {
      ChangingMachine machine{named.step_s, /*draft_pass_s=*/0};
      Conditions conditions{n_sequences};
      conditions.ngram_acceptance = 0.65;
      conditions.match_share = 0.15;
      machine.conditions = [&](int) { return conditions; };
      machine.bursts = 0.2;
      double sum = 0;
      for (uint64_t seed = 1; seed <= kShortRuns; ++seed) {
        const auto chooser = engine_policy(parse_draft_length("goodput").value(), {});
        sum += sum_of(run_steps(machine, chooser.get(), kSteps, seed), 0, kSteps).goodput();
      }
      const double reached = sum / kShortRuns / fixed_goodput(machine, 0, false, 0, kSteps);
      std::printf("%s, %d sequences: %.3f of regular decoding\n", named.name, n_sequences, reached);
      EXPECT_GE(reached, n_sequences == 32 ? 0.98 : 0.975) << named.name << ", " << n_sequences << " sequences";
    }
  }
}

}  // namespace
}  // namespace bass
