// For tests: what a device makes of a policy's choice, of a draft model that is always as sure.
#pragma once

#include <array>
#include <span>

#include "speculation/draft_length.h"

namespace bass::testing {

inline constexpr std::array<float, GoodputState::kMaxLen> kEvenConfidences{0.5f, 0.5f, 0.5f, 0.5f,
                                                                           0.5f, 0.5f, 0.5f, 0.5f};

/// Ends a model's draft where its stop says: `len` becomes what is drafted. Gives the confidences of the tokens that
/// the model has looked at; none of an n-gram's. confidences: at least `len`; they outlive the result.
inline std::span<const float> end_draft(DraftCandidate* candidate,
                                        std::span<const float> confidences = kEvenConfidences) {
  if (candidate->source != DraftSource::kModel) return {};
  int n_looked_at = 0;
  candidate->len = drafted_len(candidate->stop, confidences.first(static_cast<size_t>(candidate->len)), &n_looked_at);
  return confidences.first(static_cast<size_t>(n_looked_at));
}

}  // namespace bass::testing
