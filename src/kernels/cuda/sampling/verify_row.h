// The verification rules for one row, by a block (kernels/sampling/verify.h, block.h).
#pragma once

#include "kernels/cuda/sampling/row_sampler.h"
#include "kernels/cuda/sampling/sampling_tasks.h"

namespace bass::cuda {

/// A row with its distributions.
struct VerifiedRow {
  RowDistribution p;
  RowDistribution q;
  const float* logits = nullptr;
  TokenId drafted = 0;
  bool has_q = false;
};

BASS_HD RowVerdict emit_token(const VerifiedRow& row, TokenId token, bool accepted) {
  return {accepted, token, row.logits[token] - row.p.raw_log_sum_exp, row.p.is_degenerate};
}
BASS_HD bool is_certain_draft(const VerifiedRow& row) { return !row.has_q || row.q.is_one_hot; }
BASS_HD double drafted_probability(const VerifiedRow& row, TokenId token) {
  return row.has_q ? row_probability_of(row.q, token) : (token == row.drafted ? 1.0 : 0.0);
}

template <class Context>
BASS_HD double residual_mass(BlockSampler<Context>& sampler, const VerifiedRow& row, double factor) {
  double mass = 0;
  if (row.p.is_one_hot) {
    mass = factor - drafted_probability(row, row.p.argmax);
  } else if (is_certain_draft(row)) {
    mass = factor * (1 - row_probability_of(row.p, row.drafted));
  } else {
    mass = factor - sampler.overlap_of(row.p, factor, row.q);
  }
  return mass > 0 ? mass : 0;
}

template <class Context>
BASS_HD double acceptance_chance(BlockSampler<Context>& sampler, const VerifiedRow& row) {
  if (row.p.is_one_hot) return drafted_probability(row, row.p.argmax);
  if (is_certain_draft(row)) return row_probability_of(row.p, row.drafted);
  return sampler.overlap_of(row.p, 1.0, row.q);
}

/// How a row's token is drawn: from p, or from what of factor p the draft's distribution leaves.
struct RowDraw {
  RandomStream stream;
  bool is_residual = false;
  double factor = 1;
};

template <class Context>
BASS_HD TokenId draw_token(BlockSampler<Context>& sampler, const VerifiedRow& row, const RowDraw& draw) {
  TokenId token = -1;
  int32_t left_out = -1;
  if (draw.is_residual && !row.p.is_one_hot) {
    if (is_certain_draft(row)) {
      left_out = row.drafted;
    } else {
      token = sampler.sample_difference(row.p, draw.factor, row.q, draw.stream);
    }
  }
  return token >= 0 ? token : sampler.sample(row.p, draw.stream, left_out);
}

/// Rows that are judged by themselves. is_extra: behind the last drafted token (regular_row of the CPU)
template <class Context>
BASS_HD RowVerdict verify_row(BlockSampler<Context>& sampler, const VerifiedRow& row, const SamplingParams& params,
                              RoundPosition at, bool is_extra) {
  const bool compares = is_extra || row.p.is_one_hot || params.rule == VerifyRule::kMatch;
  RowDraw draw{sample_stream(params, at.position)};
  if (!compares) {
    const double u = uniform_open(accept_stream(params, at).bits(0));
    const double q_x = drafted_probability(row, row.drafted);
    if (u < acceptance_probability(row_probability_of(row.p, row.drafted), q_x))
      return emit_token(row, row.drafted, true);
    draw = {residual_stream(params, at), true};
  }
  const TokenId token = draw_token(sampler, row, draw);
  return emit_token(row, token, compares && !is_extra && token == row.drafted);
}

/// The distributions of a row of a round: q of its drafted token where it was stored, and p, normalised where the rule
/// asks for probabilities.
template <class Context>
BASS_HD VerifiedRow load_row(BlockSampler<Context>& sampler, const SequenceTask& task, const RowTask& place,
                             const float* logits, int n_tokens) {
  VerifiedRow row;
  row.logits = logits;
  row.drafted = place.is_extra ? 0 : task.drafted[place.idx];
  row.has_q = !place.is_extra && task.stored != nullptr;
  if (row.has_q) row.q = sampler.load_draft_row(task.stored_row(place.idx), task.n_draft_tokens, task.tokens);
  const bool compares = place.is_extra || normalise_for_verification(task.params) == Normalise::kNo;
  row.p = sampler.build(logits, n_tokens, task.params, task.history(place.idx, place.allowed),
                        {.logprob = true, .probabilities = !compares}, {});
  return row;
}

/// The same of a row of a round under `block` that was looked at before.
BASS_HD VerifiedRow looked_at(const SequenceTask& task, const RowTask& row, const RowOutcome& outcome,
                              const float* logits) {
  return {outcome.p, outcome.q, logits, task.drafted[row.idx], task.stored != nullptr};
}

/// The most probable tokens with their log-probabilities, descending; of equal logits the lower id first, as
/// RowSampler::largest: different ones may have the same log-probability. Tokens without a chance (minus infinity,
/// NaN) are left out: there are no more behind the last. top: [n_top]
template <class Context>
BASS_HD void find_top(RowBlock<Context>& block, const float* logits, int n, float log_sum_exp, int n_top,
                      TopToken* top) {
  Leader last;
  int rank = 0;
  for (; rank < n_top; ++rank) {
    Leader mine;
    for (int i = block.thread(); i < n; i += kRowBlockThreads) {
      const float logit = logits[i];
      const bool is_behind = last.entry < 0 || logit < last.score || (logit == last.score && i > last.entry);
      if (is_behind && logit >= -kFloatMax) mine.offer(logit, i);
    }
    last = block.lead(mine);
    if (last.entry < 0) break;
    if (block.thread() == 0) top[rank] = {last.entry, last.score - log_sum_exp};
  }
  if (block.thread() == 0 && rank < n_top) top[rank] = {};
}

}  // namespace bass::cuda
