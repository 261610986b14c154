// What attention takes in a step, learnt from the steps that were measured.
//
// POD, as StepCosts, of which it is a part.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/host_device.h"

namespace bass {

/// What a step asks of the main model.
struct StepLoad {
  int32_t n_rows = 0;
  double n_read = 0;  // tokens of context in the KV cache that attention reads: those that samples of a prompt, and
                      // prompts that begin alike, share once (attention may read some of the latter more often)
  double n_seen = 0;  // the same by row: the sum of what each row sees. At least n_read
  bool has_chunk = false;   // prompts are read beside, so that its time tells nothing of the rest
  bool has_others = false;  // sequences that other policies draft for are in it: hardly any step is a regular one
  int32_t n_later = 0;      // has_chunk: sequences that share a step when the prompts have been read; 0: as many as now
};

/// One account of what attention takes: a n_rows + k n_read + l max(n_seen - free_rows n_read, 0), that is what a row
/// costs anyway, what a token of context costs that is read, for up to free_rows rows that see it (computing for them
/// hides behind the reading), and what it costs for each further row. Least squares over the last steps; while none has
/// such further rows, nothing is known of l but that it is probably a part of k.
struct AttentionFit {
  static constexpr int kTerms = 3;
  double products[kTerms][kTerms] = {};  // sums of products of the terms, those of old steps fading
  double targets[kTerms] = {};           // and of each term with the seconds
  double seconds[kTerms] = {};           // a, k and l; none is negative
  double error = 0;                      // mean square of logarithms: measured over predicted before
};

/// Where further rows begin to cost depends on the processor, its memory and what else uses that: several accounts are
/// kept, and the one that has predicted best is believed.
struct AttentionCosts {
  static constexpr int kFits = 4;
  AttentionFit fits[kFits];  // fit i has i + 1 free rows
  int32_t best = 0;
  int32_t n_measured = 0;  // of the first few

  [[nodiscard]] int free_rows() const { return best + 1; }
  [[nodiscard]] const AttentionFit& fit() const { return fits[best]; }
};

/// What an earlier run has found out (`seconds` of its best fit), counting as much as a few steps. free_rows: 1 to
/// kFits
AttentionCosts known_attention_costs(std::span<const double, AttentionFit::kTerms> seconds, int free_rows = 1);

/// Learns from a step. Outliers count little.
void learn_attention_cost(const StepLoad& load, double seconds, AttentionCosts* costs);

/// Tokens that rows see beside those that are free, of each sequence together.
BASS_HD double further_seen(const StepLoad& load, int free_rows) {
  const double further = load.n_seen - free_rows * load.n_read;
  return further > 0 ? further : 0;
}

BASS_HD double predicted_by_fit(const AttentionCosts& costs, int fit, const StepLoad& load) {
  const double* seconds = costs.fits[fit].seconds;
  return load.n_rows * seconds[0] + load.n_read * seconds[1] + further_seen(load, fit + 1) * seconds[2];
}

/// 0 when nothing was measured.
BASS_HD double predicted_attention_seconds(const AttentionCosts& costs, const StepLoad& load) {
  return predicted_by_fit(costs, costs.best, load);
}

}  // namespace bass
