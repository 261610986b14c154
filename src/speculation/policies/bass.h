// `bass`: Algorithm 1 of the paper (arXiv 2404.15778). Grows while some sequence accepts everything; shrinks by a
// tenth, and one faster after a shrink, but never below what the best sequence has just accepted.
#pragma once

#include "speculation/draft_length.h"

namespace bass {

/// For each step, with x_i the accepted drafts of every sequence that drafted l tokens:
///   max(x_i) = l:  l = min(l + increment, max);              s = 0
///   otherwise:     l = max(1, x_1, ..., x_b, l - ceil(l / shrink_divisor) - s);  s = 1
/// A step in which no sequence drafted l tokens changes nothing.
DraftLengthState next_bass_draft_length(const DraftLengthSpec& spec, DraftLengthState state,
                                        std::span<const DraftOutcome> outcomes);

extern const DraftLengthPolicy kBassPolicy;

}  // namespace bass
