// Rows of draft logits between drafting and verification: stored as f16 relative to their maximum.
//
// The distribution that a drafted token was sampled from must be the one that it is verified against, to the bit. So
// the processed row is rounded first, in place, and sampled after that; what is stored gives the same row again.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/sampling/distribution.h"

namespace bass {

// Conversions without branches. Results are zero or negative: 0 is stored as -0.

/// f16 of a difference to the maximum, to nearest even; below 2^-14 it becomes 0, above 65504 and NaN become -inf.
BASS_HD uint16_t round_draft_logit(float difference) {
  const uint32_t bias = 0x38000000u;  // exponent 112, in the bits of a float
  const uint32_t magnitude = std::bit_cast<uint32_t>(difference) & 0x7FFFFFFFu;
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  const uint32_t at_least_small = magnitude < 0x38800000u ? 0u : (rounded - bias) >> 13;
  return static_cast<uint16_t>(0x8000u | (magnitude >= 0x477FF000u ? 0x7C00u : at_least_small));
}

BASS_HD float expand_draft_logit(uint16_t stored) {
  const uint32_t magnitude = stored & 0x7FFFu;
  const uint32_t normal = magnitude == 0 ? 0u : (magnitude << 13) + 0x38000000u;
  return -std::bit_cast<float>(magnitude >= 0x7C00u ? 0x7F800000u : normal);
}

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
