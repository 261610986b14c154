// Verification of one row: what the main model's distribution at a position says about the token drafted there.
//
// A round of a sequence decodes the positions R, R + 1, ...: l >= 0 drafted tokens at R .. R + l - 1, verified in
// order. The executor calls verify_row for each until one is not accepted; when all were (or none was drafted) it calls
// regular_row for position R + l, the extra token. A row's distribution may be thrown away after its call.
//
// Which random numbers are used (RandomStream, base/philox.h), by rule:
//
//                      match                     rejection
//   drafting           sample, position, 0       draft, position, R
//   u of acceptance    -                         accept, position, R; bits of token id 0
//   after a rejection  (the regular sample)      residual, position, R
//   extra token        sample, position, 0       sample, position, 0
//
// `rejection` is exact because no number is looked at twice:
//  - R is the position of the first token that the round decodes, and every round decodes at least one, so rounds have
//    different R: numbers of draft, accept and residual never come again, whatever was drafted and thrown away before
//    (also by a length policy that reads earlier drafts).
//  - Within a round each position is drafted once, accepted or rejected once; the residual is drawn once, at the end.
//  - The extra token's "sample" numbers are indexed by position only. Nothing else of this rule reads that purpose, and
//  a
//    position gets at most one extra token, because it is then decoded. So a round without a draft is regular decoding:
//    with equal seeds `rejection` that drafts nothing gives the bytes of `match`.
//  - Drafts that do not come from noise (n-grams) are one-hot distributions; q(x) = 1 makes the acceptance p(x) and the
//    residual p without x. They are fixed before any number of their position is read.
//  - A draft may depend on siblings: samples of a request differ in sample_idx, so their numbers are independent. It
//  must
//    not depend on other requests, which may have the same seed.
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

/// Noise of regular sampling, of the extra token, and of everything in `match`.
RandomStream sample_stream(const SamplingParams& params, uint32_t position);
/// Noise that a draft model samples its token with.
RandomStream draft_stream(const SamplingParams& params, RoundPosition at);

/// Whether verify_row will need probabilities of the rows p and q.
Normalise normalise_for_verification(const SamplingParams& params);

/// The token that a draft model proposes; q: its (stored) distribution.
TokenId draft_token(const cpu::Kernels& kernels, const RowDistribution& q, const SamplingParams& params,
                    RoundPosition at);

/// min(1, p(x) / q(x)): the probability with which `rejection` keeps the drafted token.
double acceptance_probability(const RowDistribution& p, const DraftedToken& draft);

/// Regular decoding, and the extra token of a round. logits: the row's raw logits [p.n]
RowVerdict regular_row(const RowSampler& sampler, const RowDistribution& p, const float* logits,
                       const SamplingParams& params, uint32_t position);

/// Verifies a drafted token by params.rule. Greedy rows are compared under every rule. `p` must be the last row that
/// the sampler built; a one-hot rejection destroys it. logits: the row's raw logits [p.n]
RowVerdict verify_row(RowSampler& sampler, const RowDistribution& p, const float* logits, const SamplingParams& params,
                      RoundPosition at, const DraftedToken& draft);

}  // namespace bass
