// What the tests of `goodput` share.
#pragma once

#include <vector>

#include "speculation/draft_testing.h"
#include "speculation/policies/goodput.h"

namespace bass::testing {

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
    for (DraftCandidate& candidate : candidates) end_draft(&candidate);
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

inline std::vector<DraftCandidate> candidates_of(int n, DraftSource source, int max_len = 8) {
  return std::vector<DraftCandidate>(static_cast<size_t>(n), {source, max_len, 0, -1});
}

inline void measure(Learner& learner, int n_rows, double seconds) {
  for (int i = 0; i < 200; ++i) learner.learn({}, {n_rows, seconds, true});
  learner.state.goodput.n_idle_steps = learner.state.goodput.n_untried_steps = 0;  // not yet time to try a draft
}

// As if a regular step had just been measured again: else the next one is regular.
inline void refresh(Learner& learner, int n_sequences) {
  learner.costs.last_measured[n_sequences] = learner.costs.n_steps;
}

}  // namespace bass::testing
