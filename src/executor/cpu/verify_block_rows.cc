// Block verification in the executor: the rows of a sequence that lie in one block of logits, by one thread, in order.
#include "executor/cpu/cpu_executor.h"

namespace bass::cpu {

void CpuExecutor::verify_block_rows(RowSampler& row_sampler, size_t begin, size_t end) {
  const auto segment = static_cast<size_t>(wanted_[begin].segment);
  BlockRound& round = block_rounds_[segment].round;
  for (size_t i = begin; i < end && !round.is_over(); ++i) judge_row(row_sampler, i, &round);
  // The token behind the last accepted one, for the case that no row of a later block of logits is accepted.
  const int stop = round.n_accepted - wanted_[begin].idx;
  if (stop < 0) return;  // an earlier block of logits has drawn it
  block_rounds_[segment].stop = draw_behind_accepted(row_sampler, begin + static_cast<size_t>(stop), round);
}

void CpuExecutor::judge_row(RowSampler& row_sampler, size_t wanted_idx, BlockRound* round) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SegmentPlan& segment = plan_->segments[static_cast<size_t>(wanted.segment)];
  const RoundPosition at = round_position(wanted.segment, wanted.idx);
  if (wanted.idx == drafts_[static_cast<size_t>(wanted.segment)].n) {
    judge_last_block_row(segment.sampling, at, round);
    return;
  }
  const float* logits = row_logits(wanted_idx);
  const DecodeRow row = load_decode_row(row_sampler, wanted, logits);
  verdicts_[wanted_idx] =
      judge_block_row(row_sampler, row.p, logits, segment.sampling, at, drafted_token(wanted, row), round);
}

RowVerdict CpuExecutor::draw_behind_accepted(RowSampler& row_sampler, size_t wanted_idx, const BlockRound& round) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SegmentPlan& segment = plan_->segments[static_cast<size_t>(wanted.segment)];
  const RoundPosition at = round_position(wanted.segment, wanted.idx);
  const float* logits = row_logits(wanted_idx);
  const DecodeRow row = load_decode_row(row_sampler, wanted, logits);
  if (row.is_extra) return regular_row(row_sampler, row.p, logits, segment.sampling, at.position);
  return block_residual(row_sampler, row.p, logits, segment.sampling, at, drafted_token(wanted, row), round);
}

}  // namespace bass::cpu
