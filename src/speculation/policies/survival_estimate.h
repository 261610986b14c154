// How likely drafted tokens are to be accepted, learnt online for each source of drafts and position: what `goodput`
// and `survival` know. Survival of token j: it is accepted if those before it were. Their product up to j is the chance
// that token j is reached and accepted.
//
// All are functions of POD state, without a look at the tokens that they decide about.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

/// The state of a policy that has seen nothing yet.
DraftLengthState start_survival(const DraftLengthSpec& spec);

/// Learns from a step, also from one without drafts; counts the steps until a draft is to be tried again.
void learn_survival(DraftLengthState& state, std::span<const DraftOutcome> outcomes);

/// That token j is accepted if those before it were: what was seen of it, and while that is little, what is believed of
/// the token before it. Lengths that were never tried are not held against a good draft.
float survival_belief(const GoodputState& state, DraftSource source, int j, float before);
/// What is believed of a source that was never tried.
inline constexpr float kFirstSurvival = 0.7f;

/// What a sequence might draft.
struct ExpectedDraft {
  DraftSource source = DraftSource::kModel;
  int len = 0;
  double expected = 0;  // tokens that are accepted
};

/// What a candidate drafts if tokens whose chance is below `threshold` are left out: where both drafters could, the one
/// from which more is expected. An n-gram's tokens cost nothing to draft, so it goes first among equals.
ExpectedDraft draft_above(const GoodputState& state, const DraftCandidate& candidate, float threshold, bool uses_model);

/// How many tokens of a draft are accepted, by what is believed before it is learnt from.
double expected_accepted(const DraftLengthState& state, const DraftOutcome& outcome);

/// Nothing was drafted for so long that a try is due.
bool is_probe_due(const GoodputState& state);

/// One token for an eighth of the candidates: enough to see whether drafts have become good again.
void probe(std::span<DraftCandidate> candidates);

}  // namespace bass
