// Block verification (arXiv 2403.10444): the rule `block`. It judges the drafted tokens of a round together, and
// accepts at least as many of them as `rejection`, on every draft in expectation.
//
// A round drafted x_1 .. x_l. Row i, 0 <= i <= l, is the main model's distribution behind x_1 .. x_i, p(.|i); for i < l
// there is the draft's, q(.|i). With p_0 = 1 and uniform numbers u_1 .. u_l:
//
//   p_i = min(1, p_{i-1} p(x_i|i-1) / q(x_i|i-1))
//   S_i = sum over x of max(p_i p(x|i) - q(x|i), 0)
//   h_i = S_i / (S_i + 1 - p_i) for i < l (1 where p_i = 1), h_l = p_l
//   tau = the largest i with u_i < h_i, 0 if there is none
//
// x_1 .. x_tau are emitted, and behind them a sample of max(p_tau p(.|tau) - q(.|tau), 0), normalised; if tau = l, one
// of p(.|l), the extra token. The walk does not end at the first u_i >= h_i: a later acceptance covers what is before.
//
// Why that is exact. Let A_i = P(tau >= i | x_1 .. x_i). Then A_i = p_i, from the last row backward: A_l = h_l = p_l,
// and if A_{i+1} = p_{i+1} for every x_{i+1}, then, since u_i is independent of all drafts,
//
//   A_i = h_i + (1 - h_i) sum over x of q(x|i) min(1, p_i p(x|i) / q(x|i)) = h_i + (1 - h_i) (p_i - S_i) = p_i
//
// by the choice of h_i. So P(tau = i | x_1 .. x_i) = p_i - (p_i - S_i) = S_i, and the token y comes behind x_1 .. x_i
// with probability q(y|i) p_{i+1}(y) + S_i (p_i p(y|i) - q(y|i))+ / S_i = min(q, p_i p) + (p_i p - q)+ = p_i p(y|i):
// given that x_1 .. x_i are emitted, y has probability p(y|i). Whether x_{i+1} is drafted at all, or row i is the last
// one, may depend on x_1 .. x_i and on all that was known before, but not on x_{i+1}.
//
// Why at least `rejection`: there x_1 .. x_i are accepted with the product of min(1, p(x_j|j-1) / q(x_j|j-1)), j <= i,
// which is at most p_i. For one-hot drafts both are the product of the p(x_j|j-1).
//
// Random numbers: see verify.h. u_i is the acceptance number of the position of x_i.
#pragma once

#include "kernels/sampling/verify.h"

namespace bass {

/// Whether the rows of a round must be judged in order, by the functions below; else by verify_row, in any order.
BASS_HD bool is_judged_as_block(const SamplingParams& params) {
  return params.rule == VerifyRule::kBlock && !params.is_greedy();
}

/// p_i of p_{i-1} and the probabilities of x_i; q_x > 0, because x_i was drawn from q.
BASS_HD double next_joint(double joint, double p_x, double q_x) {
  const double next = joint * p_x / q_x;
  return next < 1 ? next : 1;
}

/// h_i, i < l, of p_i and S_i. 0/0 (p_i = 1 and equal rows) counts as 1: whatever it is, tau >= i.
BASS_HD double block_acceptance(double joint, double residual_mass) {
  return joint >= 1 ? 1 : residual_mass / (residual_mass + 1 - joint);
}

/// What a round knows between two of its rows.
struct BlockRound {
  double joint = 1;           // p_i of the row that comes next
  double accepted_joint = 1;  // p_tau
  int n_accepted = 0;         // tau so far

  /// No later row can be accepted any more.
  [[nodiscard]] BASS_HD bool is_over() const { return joint == 0; }
};

/// Row i < l, as far as it needs no other row of its round: what it says of its drafted token x_{i+1}.
struct BlockRow {
  double p_x = 0;
  double q_x = 0;
  RowVerdict verdict;  // of x_{i+1}, if it turns out to be accepted
};
BlockRow look_at_block_row(const RowDistribution& p, const float* logits, const DraftedToken& draft);

/// The number u_i that decides on x_1 .. x_i is that of the position of x_i, the one in front of row i's.
BASS_HD double acceptance_number(const SamplingParams& params, RoundPosition at) {
  --at.position;
  return uniform_open(accept_stream(params, at).bits(0));
}

/// Whether row i = at.position - at.round_start decides on x_1 .. x_i by residual_mass(p_i), its S_i: most need not,
/// because h_i <= p_i (S_i <= p_i).
BASS_HD bool needs_residual_mass(const SamplingParams& params, RoundPosition at, const BlockRound& round) {
  return at.position > at.round_start && round.joint < 1 && acceptance_number(params, at) < round.joint;
}

BASS_HD void accept_up_to(int row_idx, BlockRound* round) {
  round->n_accepted = row_idx;
  round->accepted_joint = round->joint;
}

/// Judges row i < l: accepts x_1 .. x_i or not, and goes on to p_{i+1}. Rows come in ascending order. residual_mass:
/// S_i, if it is needed
BASS_HD void judge_block_row(const BlockRow& row, const SamplingParams& params, RoundPosition at, double residual_mass,
                             BlockRound* round) {
  const auto row_idx = static_cast<int>(at.position - at.round_start);
  if (row_idx > 0 && acceptance_number(params, at) < block_acceptance(round->joint, residual_mass))
    accept_up_to(row_idx, round);
  round->joint = next_joint(round->joint, row.p_x, row.q_x);
}

/// The same for row l; its distribution is not looked at.
BASS_HD void judge_last_block_row(const SamplingParams& params, RoundPosition at, BlockRound* round) {
  const auto row_idx = static_cast<int>(at.position - at.round_start);
  if (row_idx > 0 && acceptance_number(params, at) < round->joint) accept_up_to(row_idx, round);
}

/// The token behind x_1 .. x_tau if no later row is accepted: the extra token is regular_row's, this is the other.
/// p, logits, draft and at are those of row tau < l. `p` must be the last row that the sampler built; a one-hot draft
/// destroys it.
RowVerdict block_residual(RowSampler& sampler, const RowDistribution& p, const float* logits,
                          const SamplingParams& params, RoundPosition at, const DraftedToken& draft,
                          const BlockRound& round);

}  // namespace bass
