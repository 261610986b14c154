// Rows of draft logits between drafting and verification: stored as f16 relative to their maximum.
//
// The distribution that a drafted token was sampled from must be the one that it is verified against, to the bit. So
// the processed row is rounded first, in place, and sampled after that; what is stored gives the same row again.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sampling/distribution.h"

namespace bass {

/// logits[i] = the value of stored[i] = f16(logits[i] - max), in place. Values are rounded to nearest even; differences
/// below 2^-14 become 0, above 65504 and NaN become -inf (probability 0). logits, stored: [n]
void round_draft_logits_f16(float* logits, int n, float max, uint16_t* stored);

/// out[i] = the float of stored[i]: exactly what round_draft_logits_f16 left. stored, out: [n]
void expand_f16(const uint16_t* stored, int n, float* out);

/// Stores a draft's distribution, as built by `sampler` from the draft model's logits with the request's processors,
/// and returns the rounded one, to sample the drafted token from. It lies in the sampler's draft row and is not
/// normalised. A one-hot row gives a stored row of zero at argmax and -inf elsewhere. stored: [row.n]
RowDistribution store_draft_row(RowSampler& sampler, const RowDistribution& row, uint16_t* stored);

/// The distribution of a stored row, normalised, for verification. It lies in the sampler's draft row and stays valid
/// while `build` makes the main model's distribution.
/// A draft vocabulary that is larger (padded) than the main one is cut to it before drafting: n_q <= n.
/// tokens: the entries that were stored, if they are not the tokens 0 .. n_q - 1; all others have probability 0.
RowDistribution load_draft_row(RowSampler& sampler, const uint16_t* stored, int n_q,
                               const ProposableTokens& tokens = {});

/// The same distribution with an entry for each of the tokens 0 .. n - 1. It lies in scratch of the sampler's that
/// nothing else uses but a later call. row: as loaded
RowDistribution spread_draft_row(RowSampler& sampler, const RowDistribution& row, int n);

}  // namespace bass
