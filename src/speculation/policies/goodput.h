// `goodput`: as many drafted tokens as pay, on this machine, for this batch.
//
// A step of S sequences with B drafted tokens brings S plus the sum of their survival probabilities, and costs
// V(S + B) + A + d D (the mean over what B may come out as): V is the measured time of a step by its rows, A that of
// its attention by the contexts that are read and seen, d the number of passes of the draft model and D the time of
// one. The policy takes the tokens of highest survival, as many as make tokens per second highest, and none if regular
// decoding is not clearly beaten: by more where the times of steps scatter, as what they cost is known the less.
// Survival is learnt online: of n-grams by the length of the match and the position, of the model by its confidence
// (survival_estimate.h). (The objective is that of TurboSpec, arXiv 2406.14066, with a table for the cost and lengths
// of each sequence's own.)
//
// A token counts by what it is worth to those who wait (token_worth.h): 1, unless sequences are wanted together. The
// draft model is hoped to be better than is believed until some steps have looked at it.
//
// Drafts that do not pay are looked at again, one token of an eighth of the sequences, and now and then tried, to see
// what rows cost, for a hundredth of the time at most (goodput_probing.h). Errors of one sign move the estimates at
// once. So a draft that turns good or bad is noticed within some ten looks (speculation/adversity_test.cc).
//
// Decisions depend on lengths of n-gram matches and contexts, old acceptances, old timings, and where the draft model
// ends a draft on its distribution in front of a token, never on a token that they decide about. As they depend on
// time, seeds fix the bytes of greedy and `match` requests only.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

extern const DraftLengthPolicy kGoodputPolicy;

}  // namespace bass
