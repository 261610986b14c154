// `survival`: what is likely to be accepted is drafted, whatever it costs.
//
// The policy of machines on which a step's rows are nearly free, and `goodput` without its table of costs: a token is
// drafted if the chance that it is reached and accepted, the product of the survivals up to it, is at least `min`.
// Lengths follow from what was accepted alone, never from the clock.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

extern const DraftLengthPolicy kSurvivalPolicy;

}  // namespace bass
