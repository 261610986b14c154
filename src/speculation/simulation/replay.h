// Replays a draft-length policy over a trace: the real policy's code, at any batch size, with the costs of any machine.
#pragma once

#include <cstdint>

#include "speculation/simulation/length_chooser.h"
#include "speculation/simulation/machine_costs.h"
#include "speculation/simulation/trace.h"

namespace bass {

struct ReplayOptions {
  VerifyRule rule = VerifyRule::kBlock;
  bool uses_ngrams = true;
  bool uses_model = true;
  int min_ngram_order = 2;  // shorter matches are not drafts
  int batch = 8;            // sequences at once
  int n_steps = 2000;       // 0: every sequence of the trace once, in its order, until the last has ended
  bool has_labels = true;   // policies hear of chances; else of what became of the tokens
  double noise = 0;         // standard deviation of the logarithm of a step's measured time
  uint64_t seed = 1;        // of the order of sequences (the same for all policies), of acceptances and noise
};

struct ReplayResult {
  double seconds = 0;
  double draft_s = 0;    // of `seconds`, in passes of the draft model
  int64_t n_tokens = 0;  // that were generated
  int64_t n_steps = 0;
  int64_t n_rounds = 0;  // sequences in steps
  int64_t n_drafted = 0;
  int64_t n_accepted = 0;  // of these, also behind an end token

  [[nodiscard]] double tokens_per_s() const { return seconds > 0 ? static_cast<double>(n_tokens) / seconds : 0; }
};

/// Each step: the policy chooses lengths for what the trace says that the drafters have to offer, acceptances are drawn
/// from the evidence, sequences advance by the accepted tokens and one more, the machine's time is charged, and the
/// policy learns from both. A sequence that ends is followed by another one, with n_steps a random one; where none
/// follows any more, all are wanted together (token_worth.h), as of a `bass generate`. A sequence may become as long as
/// the trace's longest, and nothing is drafted behind that.
///
/// A draft model that was not used reads what it has missed before it drafts again (MachineCosts::catch_up_token_s; 0
/// where a file does not say it). What is left out: prompts, and what a host does between steps. A rejected draft's
/// continuation is the trace's text and not what would have been drawn in its place: its distribution is the same, but
/// not its dependence on the draft. With greedy and `match` traces both are the same text.
/// The trace has a sequence with a round.
ReplayResult replay(const Trace& trace, const MachineCosts& machine, LengthChooser* chooser,
                    const ReplayOptions& options);

/// A policy of the engine, as it begins: as in a second run on the machine, whose costs it knows, or without knowing
/// any (knows_costs). No draft that it waits for is longer than the trace's.
std::unique_ptr<LengthChooser> start_engine_policy(DraftLengthSpec spec, const Trace& trace,
                                                   const MachineCosts& machine, bool knows_costs = true);

}  // namespace bass
