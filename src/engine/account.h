// Keeps include/bass/speculation_account.h: nothing here is allocated, nor changes what is decoded.
#pragma once

#include <optional>

#include "bass/speculation_account.h"
#include "speculation/draft_length.h"

namespace bass {

/// A step that carried no prompt token.
struct StepFacts {
  StepCost cost;
  StepLoad regular;                // of its sequences without drafts, one row each
  int n_regular = 0;               // sequences that would run in a step of regular decoding: at least as many
  int n_tokens = 0;                // that were decoded, end tokens included
  double rest_s = 0;               // after the device had finished
  std::optional<double> expected;  // drafted tokens that were expected to be accepted; none: nobody expected anything
};

/// A verification of a draft. expected: as above, of its tokens.
void add_round(const DraftOutcome& outcome, std::optional<double> expected, SpeculationAccount* account);

/// `costs`: as the step found them, before they learn from it.
void add_step(const StepFacts& facts, const StepCosts& costs, SpeculationAccount* account);

}  // namespace bass
