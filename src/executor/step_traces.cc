// Drafts that are traced (executor/draft_trace.h): all rows of a round are judged, in order, and only the token that
// regular decoding draws from the first one is emitted.
#include "executor/step_sampling.h"
#include "kernels/sampling/evidence.h"

namespace bass {

void StepSampling::trace_rows(RowSampler& row_sampler, size_t begin, size_t end) {
  const int segment_idx = wanted_[begin].segment;
  const auto segment = static_cast<size_t>(segment_idx);
  const SamplingParams& params = plan_->segments[segment].sampling;
  for (size_t i = begin; i < end && wanted_[i].segment == segment_idx; ++i) {
    const WantedRow& wanted = wanted_[i];
    const DecodeRow row = load_decode_row(row_sampler, i);
    if (row.is_extra && wanted.idx > 0) return;  // nothing was drafted from it
    const uint32_t position = round_position(segment_idx, wanted.idx).position;
    verdicts_[i] = regular_row(row_sampler, row.p, row_logits(i), params, position);
    if (row.is_extra) return;
    add_evidence(row_sampler, row.p, params, drafted_token(wanted, row), verdicts_[i].token,
                 &block_rounds_[segment].round.joint, &result_.segments[segment].evidence);
    if (knows_agreement(params)) {
      result_.segments[segment].evidence.back().overlap = match_chance(row_sampler, i, row.p);
    }
    if (plan_->segments[segment].proposed.empty()) {
      result_.segments[segment].evidence.back().confidence =
          drafts_[segment].confidences[static_cast<size_t>(wanted.idx)];
    }
  }
}

}  // namespace bass
