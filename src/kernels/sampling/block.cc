#include "kernels/sampling/block.h"

#include "base/check.h"

namespace bass {

BlockRow look_at_block_row(const RowDistribution& p, const float* logits, const DraftedToken& draft) {
  BlockRow row;
  row.p_x = probability(p, draft.token);
  row.q_x = draft_probability(draft, draft.token);
  BASS_CHECK(row.q_x > 0);  // a token is drawn from the distribution that comes with it
  row.verdict = {true, draft.token, raw_logprob(logits, p, draft.token), p.is_degenerate};
  return row;
}

RowVerdict block_residual(RowSampler& sampler, const RowDistribution& p, const float* logits,
                          const SamplingParams& params, RoundPosition at, const DraftedToken& draft,
                          const BlockRound& round) {
  const TokenId token = sample_residual(sampler, p, round.accepted_joint, draft, residual_stream(params, at));
  return {false, token, raw_logprob(logits, p, token), p.is_degenerate};
}

}  // namespace bass
