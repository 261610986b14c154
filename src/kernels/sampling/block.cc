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

RowVerdict judge_block_row(const RowSampler& sampler, const RowDistribution& p, const float* logits,
                           const SamplingParams& params, RoundPosition at, const DraftedToken& draft,
                           BlockRound* round) {
  const auto row_idx = static_cast<int>(at.position - at.round_start);
  if (row_idx > 0) {
    const double u = acceptance_number(params, at);
    // h_i <= p_i, because S_i <= p_i: most sums need not be taken.
    const bool is_accepted =
        u < round->joint &&
        (round->joint >= 1 || u < block_acceptance(round->joint, residual_mass(sampler, p, round->joint, draft)));
    if (is_accepted) accept(row_idx, round);
  }
  const double q_x = draft_probability(draft, draft.token);
  BASS_CHECK(q_x > 0);  // a token is drawn from the distribution that comes with it
  round->joint = next_joint(round->joint, probability(p, draft.token), q_x);
  return {true, draft.token, raw_logprob(logits, p, draft.token), p.is_degenerate};
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
