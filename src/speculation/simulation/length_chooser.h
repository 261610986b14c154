// What decides on draft lengths in a simulation: a policy of the engine, or one that the study alone has.
#pragma once

#include <memory>
#include <string_view>

#include "speculation/draft_length.h"
#include "speculation/token_worth.h"

namespace bass {

class LengthChooser {
 public:
  virtual ~LengthChooser() = default;

  /// Tokens that a sequence may draft in the next step at most.
  [[nodiscard]] virtual int max_len() const = 0;
  /// Sets what tokens of sequences are worth, in front of `choose`. A policy that knows no costs leaves it.
  virtual void weigh(const StepLoad& /*regular*/, bool /*has_waiting*/, std::span<RunningSequence> /*sequences*/) {}
  /// Sets the lengths (and may change the sources) of a step, which asks for `regular` without drafts.
  virtual void choose(const StepLoad& regular, std::span<DraftCandidate> candidates) = 0;
  /// What became of it, and what it took.
  virtual void learn(const StepCost& cost, int n_sequences, std::span<const DraftOutcome> outcomes) = 0;
};

/// A policy of the engine, with its table of costs. costs: what it knows in the beginning.
std::unique_ptr<LengthChooser> engine_policy(const DraftLengthSpec& spec, const StepCosts& costs);

/// Policies that the engine has not: "bandit" and "gradient"; null for other names. max_len: of a draft
///
/// Both choose one length for all sequences and see nothing but tokens a second. "bandit" takes lengths 0 .. max_len as
/// arms and plays the one of the highest upper confidence bound (UCB1), with rewards that are forgotten in the course
/// of a thousand steps. "gradient" draws the length around a real number and moves that uphill: the sign of the
/// difference between a block of steps a little above and one a little below it.
std::unique_ptr<LengthChooser> study_policy(std::string_view name, int max_len);

}  // namespace bass
