// What the main model says of drafted tokens, whatever a rule makes of it: for traces, from which any rule, draft
// length and batch can be replayed (speculation/simulation).
#pragma once

#include <vector>

#include "kernels/sampling/block.h"

namespace bass {

/// Of the i-th drafted token of a round. All drafted tokens have it, also those behind a rejected one. Where tokens are
/// compared and not distributions (greedy, `match`), p is 1 if they are equal and 0 if not, and q is 1.
struct DraftEvidence {
  float p = 0;  // of the token, under the main model and after every processor
  float q = 1;  // that it was drafted with; 1: one-hot
  /// Sum over x of min(p(x), q(x)): the probability that `rejection` keeps the token, before it is drawn. Of sampled
  /// `match` traces the probability that both models draw the same one (agreement.h), which add_evidence does not know.
  float overlap = 0;
  float block =
      0;  // h_i of block.h if tokens follow; if it is the round's last, h_i is p_i, the product that p, q give
  TokenId token = 0;
  float confidence = 1;  // draft_confidence() of the row that the token was drawn from; 1: one-hot
};

/// Adds the evidence on a row's drafted token. p, q: the row's distributions, normalised where distributions are
/// compared; regular_token: that regular decoding draws from the row. Rows of a round come in ascending order; *joint
/// is p_i of block.h, 1 before the first. `evidence` has room.
void add_evidence(const RowSampler& sampler, const RowDistribution& p, const SamplingParams& params,
                  const DraftedToken& draft, TokenId regular_token, double* joint,
                  std::vector<DraftEvidence>* evidence);

}  // namespace bass
