#include "kernels/sampling/block.h"

#include "base/check.h"

namespace bass {
namespace {

// The number u_i that decides on x_1 .. x_i is that of the position of x_i, the one in front of row i's.
double acceptance_number(const SamplingParams& params, RoundPosition at) {
  --at.position;
  return uniform_open(accept_stream(params, at).bits(0));
}

void accept(int row_idx, BlockRound* round) {
  round->n_accepted = row_idx;
  round->accepted_joint = round->joint;
}

}  // namespace

BlockRow look_at_block_row(const RowDistribution& p, const float* logits, const DraftedToken& draft) {
  BlockRow row;
  row.p_x = probability(p, draft.token);
  row.q_x = draft_probability(draft, draft.token);
  BASS_CHECK(row.q_x > 0);  // a token is drawn from the distribution that comes with it
  row.verdict = {true, draft.token, raw_logprob(logits, p, draft.token), p.is_degenerate};
  return row;
}

// h_i <= p_i, because S_i <= p_i.
bool needs_residual_mass(const SamplingParams& params, RoundPosition at, const BlockRound& round) {
  return at.position > at.round_start && round.joint < 1 && acceptance_number(params, at) < round.joint;
}

void judge_block_row(const BlockRow& row, const SamplingParams& params, RoundPosition at, double residual_mass,
                     BlockRound* round) {
  const auto row_idx = static_cast<int>(at.position - at.round_start);
  if (row_idx > 0 && acceptance_number(params, at) < block_acceptance(round->joint, residual_mass))
    accept(row_idx, round);
  round->joint = next_joint(round->joint, row.p_x, row.q_x);
}

void judge_last_block_row(const SamplingParams& params, RoundPosition at, BlockRound* round) {
  const auto row_idx = static_cast<int>(at.position - at.round_start);
  if (row_idx > 0 && acceptance_number(params, at) < round->joint) accept(row_idx, round);
}

RowVerdict block_residual(RowSampler& sampler, const RowDistribution& p, const float* logits,
                          const SamplingParams& params, RoundPosition at, const DraftedToken& draft,
                          const BlockRound& round) {
  const TokenId token = sample_residual(sampler, p, round.accepted_joint, draft, residual_stream(params, at));
  return {false, token, raw_logprob(logits, p, token), p.is_degenerate};
}

}  // namespace bass
