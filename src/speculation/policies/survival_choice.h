// The per-step decision of `survival`: what is likely enough to be accepted, whatever it costs.
//
// A pure function of POD state, which compiles for a GPU as well (gpu/choose_lengths.cu).
#pragma once

#include <algorithm>
#include <span>

#include "speculation/policies/expected_drafts.h"

namespace bass {

BASS_HD_CALL void choose_survival(const DraftLengthState& state, const StepCosts& /*costs*/,
                                  const StepLoad& /*regular*/, std::span<DraftCandidate> candidates) {
  constexpr float kLeastLevel = stop_level(ExpectedStops::kLevels - 1);
  bool has_drafts = false;
  for (DraftCandidate& candidate : candidates) {
    const float level = stop_level(nearest_stop_level(state.min_survival));
    ExpectedDraft draft = draft_above(state.goodput, candidate, level, /*uses_model=*/true);
    if (draft.source != DraftSource::kModel) {  // to the letter, not to the nearest level
      draft = ngram_above(state.goodput, draft.source, candidate.max_len, state.min_survival,
                          candidate.skills.ngram.offset);
    }
    if (state.min_survival < kLeastLevel && draft.source == DraftSource::kModel) {  // nothing is known of so little
      const bool is_model = candidate.source == DraftSource::kModel;
      draft.len = std::min(is_model ? candidate.max_len : candidate.max_model_len, int{GoodputState::kMaxLen});
    }
    set_draft(state.goodput, draft, state.min_survival, draft.len, &candidate);
    has_drafts |= candidate.len > 0;
  }
  if (!has_drafts && is_probe_due(state.goodput)) probe(state.goodput, candidates);
}

}  // namespace bass
