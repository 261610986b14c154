// The per-step decision of `goodput` (goodput.h): which drafts make tokens per second highest.
//
// A pure function of POD state, which compiles for a GPU as well (gpu/choose_lengths.cu).
#pragma once

#include <span>

#include "speculation/policies/goodput_options.h"
#include "speculation/policies/goodput_probing.h"

namespace bass {

/// The lengths of a step. When nothing was drafted for long, a try is due, with what would pay if steps were cheaper
/// than was measured: that may be long ago, or bad luck.
BASS_HD_CALL void choose_goodput(const DraftLengthState& state, const StepCosts& costs, const StepLoad& regular,
                                 std::span<DraftCandidate> candidates) {
  const GoodputState& learnt = state.goodput;
  goodput::forget_plan(candidates);
  if (costs.max_rows_seen == 0) return;  // the first step is a regular one: it is measured
  goodput::SizeCosts sizes(costs);
  const goodput::Batch batch{learnt, costs, regular, candidates, sizes, goodput::hope_of(learnt, candidates.size())};
  goodput::Option best;
  if (!goodput::plan_try(batch, &best)) {
    best = goodput::best_option(batch, /*doubt=*/0.0);
    if (best.level < 0) return goodput::plan_look(batch);
  }
  if (best.level < 0) return;  // the try is planned
  if (goodput::is_regular_step_due(batch, best)) return;
  for (DraftCandidate& candidate : candidates) {
    const bool uses_model = goodput::may_use_model(candidate, best.uses_model, best.reads);
    const float least = goodput::least_survival(candidate, best.level);
    const ExpectedDraft draft = draft_above(learnt, candidate, least, uses_model, batch.hope);
    const float stop_below = goodput::kStopMargin * stop_level(goodput::model_level(candidate, best.level));
    set_draft(learnt, draft, stop_below, best.max_model_len, &candidate, batch.hope);
  }
}

/// DraftLengthPolicy::wants_model
BASS_HD_CALL bool goodput_wants_model(const DraftLengthState& state, const StepCosts& costs, const StepLoad& regular,
                                      std::span<DraftCandidate> candidates) {
  const bool is_full = costs.max_rows_seen == StepCosts::kMaxRows;
  if (!is_full && goodput::kGrowth * costs.max_rows_seen <= regular.n_rows) return true;  // nothing is known of these
  goodput::SizeCosts sizes(costs);
  const goodput::Option best = goodput::best_option(
      {state.goodput, costs, regular, candidates, sizes, goodput::hope_of(state.goodput, candidates.size())}, 0.0);
  return best.level >= 0 && best.uses_model;
}

}  // namespace bass
