// `goodput`: as many drafted tokens as pay, on this machine, for this batch.
//
// A step of S sequences with B drafted tokens brings S plus the sum of their survival probabilities, and costs
// V(S + B) + d D: V is the measured time of a step by its rows, d the number of passes of the draft model and D the
// time of one. The policy takes the tokens of highest survival, as many as make tokens per second highest, and none if
// regular decoding is not clearly beaten. Survival is learnt online for each source of drafts and position. (The
// objective is that of TurboSpec, arXiv 2406.14066, with a table for the cost and lengths of each sequence's own.)
//
// Decisions depend on lengths of n-gram matches, old acceptances and old timings only, never on a token that they
// decide about. As they depend on time, seeds fix the bytes of greedy and `match` requests only.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

extern const DraftLengthPolicy kGoodputPolicy;

}  // namespace bass
