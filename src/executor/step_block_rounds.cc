// Block verification of a step. First all rows are looked at by themselves, in parallel (look_at_block_row); then
// the rows of a round that lie in one block of logits are judged in order, by one thread.
#include "executor/step_sampling.h"

namespace bass {

// The extra token's row says nothing of a draft; it is looked at if it is drawn from.
void StepSampling::look_at_block_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  if (wanted.idx == drafts_[static_cast<size_t>(wanted.segment)].n_verified() || is_behind_end(wanted)) return;
  const DecodeRow row = load_decode_row(row_sampler, wanted_idx);
  const DraftedToken draft = drafted_token(wanted, row);
  LookedAt& found = looked_at_[wanted_idx];
  found = {bass::look_at_block_row(row.p, row_logits(wanted_idx), draft), row.p};
  chances_[wanted_idx] = static_cast<float>(acceptance_chance(row_sampler, row.p, draft));
  if (found.row.p_x == 0) end_round_at(wanted);
}

void StepSampling::verify_block_rows(RowSampler& row_sampler, size_t begin, size_t end) {
  const int segment_idx = wanted_[begin].segment;
  BlockVerification& block = block_rounds_[static_cast<size_t>(segment_idx)];
  BlockRound& round = block.round;
  for (size_t i = begin; i < end && wanted_[i].segment == segment_idx && !round.is_over(); ++i) {
    judge_row(row_sampler, i, &round);
  }
  // The token behind the last accepted one, for the case that no row of a later block of logits is accepted.
  const int stop = round.n_accepted - wanted_[begin].idx;
  if (stop < 0) return;  // an earlier block of logits has drawn it
  block.stop = draw_behind_accepted(row_sampler, begin + static_cast<size_t>(stop), round);
}

void StepSampling::judge_row(RowSampler& row_sampler, size_t wanted_idx, BlockRound* round) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(wanted.segment)].sampling;
  const RoundPosition at = round_position(wanted.segment, wanted.idx);
  if (wanted.idx == drafts_[static_cast<size_t>(wanted.segment)].n_verified()) {
    judge_last_block_row(params, at, round);
    return;
  }
  double mass = 0;
  if (needs_residual_mass(params, at, *round)) {
    const DecodeRow row = load_looked_at_row(row_sampler, wanted_idx);
    mass = residual_mass(row_sampler, row.p, round->joint, drafted_token(wanted, row));
  }
  const BlockRow& row = looked_at_[wanted_idx].row;
  verdicts_[wanted_idx] = row.verdict;
  judge_block_row(row, params, at, mass, round);
}

StepSampling::DecodeRow StepSampling::load_looked_at_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(wanted.segment)].sampling;
  DecodeRow row;
  load_q(row_sampler, wanted, &row);
  row.p = row_sampler.restore(looked_at_[wanted_idx].p, row_logits(wanted_idx), params,
                              history(wanted.segment, wanted.idx));
  return row;
}

RowVerdict StepSampling::draw_behind_accepted(RowSampler& row_sampler, size_t wanted_idx, const BlockRound& round) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(wanted.segment)].sampling;
  const RoundPosition at = round_position(wanted.segment, wanted.idx);
  const float* logits = row_logits(wanted_idx);
  if (wanted.idx == drafts_[static_cast<size_t>(wanted.segment)].n_verified()) {
    return regular_row(row_sampler, load_decode_row(row_sampler, wanted_idx).p, logits, params, at.position);
  }
  const DecodeRow row = load_looked_at_row(row_sampler, wanted_idx);
  return block_residual(row_sampler, row.p, logits, params, at, drafted_token(wanted, row), round);
}

}  // namespace bass
