// What attention takes in a step, learnt from the steps that were measured.
//
// POD, as StepCosts, of which it is a part.
#pragma once

#include <cstdint>
#include <span>

namespace bass {

/// What a step asks of the main model.
struct StepLoad {
  int32_t n_rows = 0;
  double n_read = 0;  // tokens of context in the KV cache that attention reads: those that samples of a prompt share
                      // once
  double n_seen = 0;  // the same by row: the sum of what each row sees. At least n_read
};

/// Seconds of attention as a n_rows + k n_read + l (n_seen - n_read): what a row costs anyway, what a token of context
/// costs that is read, and what it costs for each further row that sees it. Least squares over the last steps; while
/// all steps have one row a sequence, nothing is known of l but that it is probably a part of k.
struct AttentionCosts {
  static constexpr int kTerms = 3;
  double products[kTerms][kTerms] = {};  // sums of products of the terms, those of old steps fading
  double targets[kTerms] = {};           // and of each term with the seconds
  double seconds[kTerms] = {};           // a, k and l; none is negative
  int32_t n_measured = 0;
};

/// What an earlier run has found out, as `seconds`, counting as much as a few steps.
AttentionCosts known_attention_costs(std::span<const double, AttentionCosts::kTerms> seconds);

/// Learns from a step. Outliers count little.
void learn_attention_cost(const StepLoad& load, double seconds, AttentionCosts* costs);

/// 0 when nothing was measured.
double predicted_attention_seconds(const AttentionCosts& costs, const StepLoad& load);

}  // namespace bass
