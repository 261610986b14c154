// Which of a prompt's samples is the best, as the paper ranks them.
#pragma once

#include <limits>
#include <optional>

#include "bass/request.h"

namespace bass {

/// What ranks a sample: those that came to their end by themselves go before those that were stopped, then a higher
/// mean log-probability of the tokens, then the lower index.
struct SampleRank {
  FinishReason finish_reason = FinishReason::kStop;
  std::optional<double> mean_logprob;  ///< none: it has no tokens
  int index = 0;
};

inline bool is_better(const SampleRank& a, const SampleRank& b) {
  const auto is_complete = [](FinishReason reason) {
    return reason == FinishReason::kStop || reason == FinishReason::kLength;
  };
  if (is_complete(a.finish_reason) != is_complete(b.finish_reason)) return is_complete(a.finish_reason);
  constexpr double kWorst = -std::numeric_limits<double>::infinity();
  const double of_a = a.mean_logprob.value_or(kWorst);
  const double of_b = b.mean_logprob.value_or(kWorst);
  return of_a != of_b ? of_a > of_b : a.index < b.index;
}

}  // namespace bass
