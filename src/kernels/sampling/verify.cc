#include "kernels/sampling/verify.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/sampling/draft_row.h"

namespace bass {
namespace {

RowVerdict emit(const RowDistribution& p, const float* logits, TokenId token, bool accepted) {
  return {accepted, token, raw_logprob(logits, p, token), p.is_degenerate};
}

bool is_one_hot(const DraftedToken& draft) { return draft.q == nullptr || draft.q->is_one_hot; }

cpu::ProbabilityRow probability_row(const RowDistribution& row, int max_n) {
  return {row.z, std::min(row.n, max_n), row.kept, row.log_norm};
}

// The sum over x of min(factor p(x), q(x)).
double overlap(const RowSampler& sampler, const RowDistribution& p, double factor, const RowDistribution& q) {
  const TokenId* ids = q.tokens.is_all() ? nullptr : q.tokens.ids.data();
  const int max_n = q.tokens.is_all() ? p.n : q.n;
  return sampler.kernels().overlap(probability_row(p, p.n), static_cast<float>(factor), probability_row(q, max_n), ids);
}

}  // namespace

TokenId draft_token(const cpu::Kernels& kernels, const RowDistribution& q, const SamplingParams& params,
                    RoundPosition at) {
  return sample(kernels, q, draft_stream(params, at));
}

double draft_probability(const DraftedToken& draft, TokenId token) {
  if (draft.q == nullptr) return token == draft.token ? 1 : 0;
  return probability(*draft.q, token);
}

double residual_mass(const RowSampler& sampler, const RowDistribution& p, double factor, const DraftedToken& draft) {
  if (p.is_one_hot) return std::max(0.0, factor - draft_probability(draft, p.argmax));
  if (is_one_hot(draft)) return std::max(0.0, factor * (1 - probability(p, draft.token)));
  return std::max(0.0, factor - overlap(sampler, p, factor, *draft.q));
}

double acceptance_chance(const RowSampler& sampler, const RowDistribution& p, const DraftedToken& draft) {
  if (p.is_one_hot) return draft_probability(draft, p.argmax);
  if (is_one_hot(draft)) return probability(p, draft.token);
  return overlap(sampler, p, 1.0, *draft.q);
}

TokenId sample_residual(RowSampler& sampler, const RowDistribution& p, double factor, const DraftedToken& draft,
                        const RandomStream& stream) {
  const cpu::Kernels& kernels = sampler.kernels();
  if (p.is_one_hot) return p.argmax;
  if (is_one_hot(draft)) return sample(kernels, sampler.without_token(p, draft.token), stream);
  const TokenId token = kernels.residual_argmax(probability_row(p, p.n), static_cast<float>(factor),
                                                probability_row(spread_draft_row(sampler, *draft.q, p.n), p.n), stream);
  return token >= 0 ? token : sample(kernels, p, stream);
}

RowVerdict regular_row(const RowSampler& sampler, const RowDistribution& p, const float* logits,
                       const SamplingParams& params, uint32_t position) {
  return emit(p, logits, sample(sampler.kernels(), p, sample_stream(params, position)), false);
}

RowVerdict verify_row(RowSampler& sampler, const RowDistribution& p, const float* logits, const SamplingParams& params,
                      RoundPosition at, const DraftedToken& draft) {
  if (p.is_one_hot || params.rule == VerifyRule::kMatch) {
    RowVerdict verdict = regular_row(sampler, p, logits, params, at.position);
    verdict.accepted = verdict.token == draft.token;
    return verdict;
  }
  BASS_CHECK(params.rule == VerifyRule::kRejection);
  const double u = uniform_open(accept_stream(params, at).bits(0));
  const double q_x = draft_probability(draft, draft.token);
  BASS_CHECK(q_x > 0);  // a token is drawn from the distribution that comes with it
  if (u < acceptance_probability(probability(p, draft.token), q_x)) return emit(p, logits, draft.token, true);
  return emit(p, logits, sample_residual(sampler, p, 1.0, draft, residual_stream(params, at)), false);
}

}  // namespace bass
