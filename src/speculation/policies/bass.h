// `bass`: Algorithm 1 of the paper (arXiv 2404.15778). Grows while some sequence accepts everything; shrinks by a
// tenth, and one faster after a shrink, but never below what the best sequence has just accepted.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/cuda/host_device.h"
#include "speculation/draft_length.h"

namespace bass {

/// What the algorithm carries from step to step: l and s.
struct BassLength {
  int32_t len = 0;
  int32_t n_shrinks = 0;
};

/// For each step, with x_i the accepted drafts of every sequence that drafted l tokens:
///   max(x_i) = l:  l = min(l + increment, max);              s = 0
///   otherwise:     l = max(1, x_1, ..., x_b, l - ceil(l / shrink_divisor) - s);  s = 1
/// A step in which no sequence drafted l tokens changes nothing. A pure function of POD state, which compiles for a GPU
/// as well (gpu/choose_lengths.cu).
BASS_HD_CALL BassLength next_bass_length(const DraftLengthSpec& spec, BassLength state,
                                         std::span<const DraftOutcome> outcomes) {
  int32_t max_accepted = -1;
  for (const DraftOutcome& outcome : outcomes) {
    if (outcome.n_drafted == state.len) max_accepted = std::max(max_accepted, outcome.n_accepted);
  }
  if (max_accepted < 0) return state;
  if (max_accepted == state.len) return {std::min(state.len + spec.increment, spec.max), 0};
  const int32_t tenth = (state.len + spec.shrink_divisor - 1) / spec.shrink_divisor;
  return {std::max({1, max_accepted, state.len - tenth - state.n_shrinks}), 1};
}

extern const DraftLengthPolicy kBassPolicy;

}  // namespace bass
