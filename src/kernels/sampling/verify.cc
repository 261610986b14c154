#include "kernels/sampling/verify.h"

#include <algorithm>

#include "base/check.h"

namespace bass {
namespace {

RandomStream stream_of(const SamplingParams& params, RoundPosition at, RandomPurpose purpose) {
  return {params.seed, at.position, at.round_start, purpose, params.sample_idx};
}

RowVerdict emit(const RowDistribution& p, const float* logits, TokenId token, bool accepted) {
  return {accepted, token, raw_logprob(logits, p, token), p.is_degenerate};
}

// A sample of (p - q)+; of p where rounding has left no mass.
TokenId sample_residual(RowSampler& sampler, const RowDistribution& p, const DraftedToken& draft,
                        const RandomStream& stream) {
  const cpu::Kernels& kernels = sampler.kernels();
  if (draft.q == nullptr || draft.q->is_one_hot) {
    return sample(kernels, sampler.without_token(p, draft.token), stream);
  }
  const RowDistribution& q = *draft.q;
  const TokenId token =
      kernels.residual_argmax(p.z, p.kept, p.log_norm, p.n, q.z, q.kept, q.log_norm, std::min(q.n, p.n), stream);
  return token >= 0 ? token : sample(kernels, p, stream);
}

}  // namespace

RandomStream sample_stream(const SamplingParams& params, uint32_t position) {
  return stream_of(params, {position, 0}, RandomPurpose::kSample);
}

RandomStream draft_stream(const SamplingParams& params, RoundPosition at) {
  if (params.rule == VerifyRule::kMatch) return sample_stream(params, at.position);
  return stream_of(params, at, RandomPurpose::kDraft);
}

Normalise normalise_for_verification(const SamplingParams& params) {
  return params.rule == VerifyRule::kRejection && !params.is_greedy() ? Normalise::kYes : Normalise::kNo;
}

TokenId draft_token(const cpu::Kernels& kernels, const RowDistribution& q, const SamplingParams& params,
                    RoundPosition at) {
  return sample(kernels, q, draft_stream(params, at));
}

double acceptance_probability(const RowDistribution& p, const DraftedToken& draft) {
  const double q_x = draft.q == nullptr ? 1 : probability(*draft.q, draft.token);
  BASS_CHECK(q_x > 0);  // a token is drawn from the distribution that comes with it
  return std::min(1.0, probability(p, draft.token) / q_x);
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
  const double u = uniform_open(stream_of(params, at, RandomPurpose::kAccept).bits(0));
  if (u < acceptance_probability(p, draft)) return emit(p, logits, draft.token, true);
  return emit(p, logits, sample_residual(sampler, p, draft, stream_of(params, at, RandomPurpose::kResidual)), false);
}

}  // namespace bass
