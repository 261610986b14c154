// How likely drafted tokens are to be accepted, learnt online: what `goodput` and `survival` know. Of n-grams for each
// length of a match and position; of a draft model by the confidence of each token (draft_confidence.h); of both with
// an offset for each sequence. The product of the chances up to a token, its survival, is the chance that it is reached
// and accepted.
//
// All are functions of POD state, without a look at the tokens that they decide about.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

/// The state of a policy that has seen nothing yet.
DraftLengthState start_survival(const DraftLengthSpec& spec);

/// Learns from a step, also from one without drafts; counts the steps until a draft is to be tried again.
void learn_survival(DraftLengthState& state, std::span<const DraftOutcome> outcomes);

/// How many tokens of a draft are accepted, by what is believed before it is learnt from.
double expected_accepted(const DraftLengthState& state, const DraftOutcome& outcome);

}  // namespace bass
