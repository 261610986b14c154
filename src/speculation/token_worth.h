// What a token of one sequence is worth beside one of another. Where several sequences are wanted together and nobody
// waits for their places, all are done when the last one is: one that is ahead of the others ends early, and leaves
// them steps that few share.
//
// Pure functions of POD state, which compile for a GPU as well (gpu/choose_lengths.cu).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/cuda/host_device.h"
#include "speculation/step_prediction.h"

namespace bass {

/// A running sequence, as far as it says what its tokens are worth.
struct RunningSequence {
  int32_t job = 0;       // sequences of one job are wanted together, and are neighbours; 0: each for itself
  int32_t n_left = 0;    // tokens that it may still emit
  bool may_end = false;  // by itself before that
  float worth = 1;       // the answer: of a token of it, in tokens of the mean sequence of its job
};

namespace token_worth {

/// How far apart sequences end that have as much left, in tokens: they accept different numbers of drafts, and one that
/// may end by itself ends anywhere.
BASS_HD_CALL double spread_of_ends(std::span<const RunningSequence> job) {
  double spread = 1;
  for (const RunningSequence& sequence : job) {
    const double n_left = sequence.n_left;
    spread = std::max(spread, sequence.may_end ? n_left : std::sqrt(n_left));
  }
  return spread;
}

/// A token of the sequence that ends last saves a step of its own, last_s seconds; one of another sequence saves its
/// row of a step, row_s. The chance to be the last is that of the largest of all ends with noise of Gumbel's
/// distribution.
BASS_HD_CALL void weigh_job(double last_s, double row_s, std::span<RunningSequence> job) {
  double most = 0, sum = 0;
  for (const RunningSequence& sequence : job) most = std::max<double>(most, sequence.n_left);
  const double spread = spread_of_ends(job);
  const auto odds = [&](const RunningSequence& sequence) { return std::exp((sequence.n_left - most) / spread); };
  for (const RunningSequence& sequence : job) sum += odds(sequence);
  const double mean_s = row_s + (last_s - row_s) / static_cast<double>(job.size());
  for (RunningSequence& sequence : job) {
    sequence.worth = static_cast<float>((row_s + (last_s - row_s) * odds(sequence) / sum) / mean_s);
  }
}

}  // namespace token_worth

/// Sets what tokens are worth; their mean over a job is 1. regular: the step of all sequences without drafts.
/// has_waiting: a place that gets free is taken at once, so that steps do not get smaller and a token is a token.
BASS_HD_CALL void weigh_tokens(const StepCosts& costs, const StepLoad& regular, bool has_waiting,
                               std::span<RunningSequence> sequences) {
  for (RunningSequence& sequence : sequences) sequence.worth = 1;
  const double all_s = has_waiting ? 0 : predicted_step_seconds(costs, regular);
  if (all_s <= 0) return;
  for (size_t begin = 0, end = 0; begin < sequences.size(); begin = end) {
    const int job = sequences[begin].job;
    while (end < sequences.size() && sequences[end].job == job) ++end;
    const int n_others = static_cast<int>(end - begin) - 1;
    if (job == 0 || n_others == 0) continue;
    const double part = 1 - static_cast<double>(n_others) / regular.n_rows;
    const StepLoad last{regular.n_rows - n_others, part * regular.n_read, part * regular.n_seen, regular.has_chunk};
    const double last_s = std::min(predicted_step_seconds(costs, last), all_s);
    token_worth::weigh_job(last_s, (all_s - last_s) / n_others, sequences.subspan(begin, end - begin));
  }
}

}  // namespace bass
