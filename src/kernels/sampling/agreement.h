// The chance that `match` accepts a drafted token, without the luck of its draw: that draft and main model, each taking
// argmax(log probability + Gumbel noise) with the same noise, find the same token.
//
// With the exponential noise E behind the Gumbel noise both take the argmin over y of E_y / p_y and of E_y / q_y. Both
// are x where E_y >= E_x max(p_y / p_x, q_y / q_x) for every other y, so
//
//   A = sum over x of 1 / (sum over y of max(p_y / p_x, q_y / q_x))
//     = sum over x of p_x q_x / (sum over y of max(p_y q_x, q_y p_x))
//
// which is at most sum min(p, q), what `rejection` accepts, and p(x) where q is certain of x. Only tokens that both can
// draw add to the sum over x, but it is a sum of sums over the vocabulary. So the likeliest tokens of q are taken
// apart, and for the rest, which has p_r and q_r, there are bounds:
//
//   at least: p and q share nothing of the rest: p_r q_x + q_r p_x in the inner sums, and no x in it;
//   at most: the rest is one token. Its part of an inner sum is max(p_r q_x, q_r p_x), which the sum of maxima over its
//     tokens is not below; and its tokens together do not add more than that token does, because with that part the
//     term of x is a concave and homogeneous function of (p_x, q_x), whose sum is at most its value at the sum.
//
// They differ by 2 q_r at most: by q_r in the terms of tokens of the rest, each of which is at most its q, and in the
// term 1 / S of each x apart by 1 / S^2 min(p_r / p_x, q_r / q_x) <= q_x q_r, because S >= 1 / q_x.
#pragma once

#include <optional>
#include <span>

#include "kernels/sampling/distribution.h"

namespace bass {

/// A token that a draft is likely to propose, and its probability.
struct LikelyToken {
  TokenId token = 0;
  float q = 0;
};

/// Tokens of a draft's distribution that are taken apart at most; language models have about 14 of that probability.
inline constexpr int kMaxLikelyTokens = 256;

/// The tokens with at least 1 / kMaxLikelyTokens of q's mass: there cannot be more of them. logits: the raw ones that
/// `q` was built from; `q` must be the last row that the sampler built. out: [kMaxLikelyTokens]. Returns how many.
int likely_tokens(RowSampler& sampler, const RowDistribution& q, const float* logits, LikelyToken* out);

struct AgreementBounds {
  double low = 0;
  double high = 0;

  [[nodiscard]] double width() const { return high - low; }
  /// Where between the bounds chances lie on average: with SmolLM2-135M-Instruct and the draft that comes with it, at
  /// temperature 0.8, the lower one misses by 0.014 and the upper one by 0.045.
  [[nodiscard]] double estimate() const { return low + width() / 4; }
};

/// The chance that a token drawn from q is the one that is drawn from p with the same noise. likely: of q, none twice;
/// for a certain draft it alone, with 1. logits: the row's raw logits [p.n]. Nothing where p is no distribution.
std::optional<AgreementBounds> agreement_chance(const RowSampler& sampler, const RowDistribution& p,
                                                const float* logits, std::span<const LikelyToken> likely);

}  // namespace bass
