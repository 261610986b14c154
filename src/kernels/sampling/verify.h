// Verification of drafted tokens: what the main model's distributions say about them.
//
// A round of a sequence decodes the positions R, R + 1, ...: l >= 0 drafted tokens at R .. R + l - 1, and one token
// more. `rejection` and `match` judge each row by itself: the executor calls verify_row for each until one is not
// accepted; when all were (or none was drafted) it calls regular_row for position R + l, the extra token. `block`
// judges the rows of a round in order and together (block.h). A row's distribution may be thrown away after its call.
//
// Which random numbers are used (RandomStream, base/philox.h), by rule:
//
//                          match                     rejection, block
//   drafting               sample, position, 0       draft, position, R
//   u of acceptance        -                         accept, position, R; bits of token id 0
//   behind the last        (the regular sample)      residual, position, R
//     accepted token
//   extra token            sample, position, 0       sample, position, 0
//
// `rejection` and `block` are exact because no number is looked at twice:
//  - R is the position of the first token that the round decodes, and every round decodes at least one, so rounds have
//    different R: numbers of draft, accept and residual never come again, whatever was drafted and thrown away before
//    (also by a length policy that reads earlier drafts). For `block` that is essential even with fixed lengths: it
//    looks at the u of positions that it does not accept, and whether it accepts depends on them.
//  - Within a round each position is drafted once, and its u is looked at once: `rejection` decides on the token with
//    it, `block` on all tokens of the round up to that position. `rejection` draws the residual once, at the end.
//    `block` may draw it at several positions, each once; all but the last are thrown away, and which one is the last
//    depends on the u alone.
//  - A request has one rule, so that both may use the same purposes.
//  - The extra token's "sample" numbers are indexed by position only. Nothing else of these rules reads that purpose,
//    and a position gets at most one extra token, because it is then decoded. So a round without a draft is regular
//    decoding: with equal seeds a rule that drafts nothing gives the bytes of `match`.
//  - Drafts that do not come from noise (n-grams) are one-hot distributions; q(x) = 1 makes the acceptance p(x) and the
//    residual p without x. They are fixed before any number of their position is read.
//  - A draft may depend on siblings: samples of a request differ in sample_idx, so their numbers are independent. It
//    must not depend on other requests with the same seed (engine/policy_registry.h).
#pragma once

#include "kernels/sampling/distribution.h"

namespace bass {

/// Where a row stands: the position of the token that it decodes, and the first position of its round.
struct RoundPosition {
  uint32_t position = 0;
  uint32_t round_start = 0;
};

/// A drafted token and what it was drawn from: nullptr for a one-hot draft, else the very distribution (normalised)
/// that it was sampled from.
struct DraftedToken {
  TokenId token = 0;
  const RowDistribution* q = nullptr;
};

struct RowVerdict {
  bool accepted = false;       // the drafted token is emitted; the next drafted row may be verified
  TokenId token = 0;           // emitted at this position
  float logprob = 0;           // raw log-probability of `token` under the main model
  bool is_degenerate = false;  // the row was unusable (RowDistribution): end the sequence
};

// What follows up to acceptance_probability runs on a GPU too (kernels/cuda/sampling).

/// Noise of regular sampling, of the extra token, and of everything in `match`.
BASS_HD RandomStream sample_stream(const SamplingParams& params, uint32_t position) {
  return {params.seed, position, 0, RandomPurpose::kSample, params.sample_idx};
}
/// Noise that a draft model samples its token with.
BASS_HD RandomStream draft_stream(const SamplingParams& params, RoundPosition at) {
  if (params.rule == VerifyRule::kMatch) return sample_stream(params, at.position);
  return {params.seed, at.position, at.round_start, RandomPurpose::kDraft, params.sample_idx};
}
/// Noise of `rejection` and `block`: the uniform number of an acceptance, and the draw from a residual.
BASS_HD RandomStream accept_stream(const SamplingParams& params, RoundPosition at) {
  return {params.seed, at.position, at.round_start, RandomPurpose::kAccept, params.sample_idx};
}
BASS_HD RandomStream residual_stream(const SamplingParams& params, RoundPosition at) {
  return {params.seed, at.position, at.round_start, RandomPurpose::kResidual, params.sample_idx};
}

/// Whether verify_row will need probabilities of the rows p and q.
BASS_HD Normalise normalise_for_verification(const SamplingParams& params) {
  return params.rule != VerifyRule::kMatch && !params.is_greedy() ? Normalise::kYes : Normalise::kNo;
}

/// The probability with which `rejection` keeps a drafted token.
BASS_HD double acceptance_probability(double p_x, double q_x) { return p_x < q_x ? p_x / q_x : 1.0; }

/// The token that a draft model proposes; q: its (stored) distribution.
TokenId draft_token(const cpu::Kernels& kernels, const RowDistribution& q, const SamplingParams& params,
                    RoundPosition at);

/// q of any token under what the drafted token was drawn from; above 0 for the drafted one.
double draft_probability(const DraftedToken& draft, TokenId token);

/// The sum over x of max(factor p(x) - q(x), 0).
double residual_mass(const RowSampler& sampler, const RowDistribution& p, double factor, const DraftedToken& draft);

/// The chance of a token that this draft is about to draw to be accepted, if it is looked at: the sum over x of
/// min(p(x), q(x)), p(x) of the drafted token where it is certain. Not for `match`.
double acceptance_chance(const RowSampler& sampler, const RowDistribution& p, const DraftedToken& draft);

/// A sample of max(factor p - q, 0), normalised; of p where rounding has left no mass. `p` must be the last row that
/// the sampler built; a one-hot draft destroys it.
TokenId sample_residual(RowSampler& sampler, const RowDistribution& p, double factor, const DraftedToken& draft,
                        const RandomStream& stream);

/// Regular decoding, and the extra token of a round. logits: the row's raw logits [p.n]
RowVerdict regular_row(const RowSampler& sampler, const RowDistribution& p, const float* logits,
                       const SamplingParams& params, uint32_t position);

/// Verifies a drafted token by params.rule, which is not `block`. Greedy rows are compared under every rule. `p` must
/// be the last row that the sampler built; a one-hot rejection destroys it. logits: the row's raw logits [p.n]
RowVerdict verify_row(RowSampler& sampler, const RowDistribution& p, const float* logits, const SamplingParams& params,
                      RoundPosition at, const DraftedToken& draft);

}  // namespace bass
