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
  int32_t job = 0;       // sequences of one job are wanted together; 0: each for itself
  int32_t n_left = 0;    // tokens that it may still emit
  bool may_end = false;  // by itself before that
  float worth = 1;       // the answer: of a token of it, in tokens of the mean sequence of its job
};

namespace token_worth {

template <class Visit>
BASS_HD_CALL void for_each_of(int job, std::span<RunningSequence> sequences, Visit visit) {
  for (RunningSequence& sequence : sequences) {
    if (sequence.job == job) visit(sequence);
  }
}

// How far a job's sequences are from their ends.
struct Ends {
  int n = 0;          // sequences
  double most = 0;    // tokens that one of them may still emit
  double spread = 1;  // tokens by which sequences end apart that have as much left: they accept different numbers of
                      // drafts, and one that may end by itself ends anywhere
};

BASS_HD_CALL Ends ends_of(int job, std::span<RunningSequence> sequences) {
  Ends ends;
  for_each_of(job, sequences, [&](const RunningSequence& sequence) {
    const double n_left = sequence.n_left;
    ++ends.n;
    ends.most = std::max(ends.most, n_left);
    ends.spread = std::max(ends.spread, sequence.may_end ? n_left : std::sqrt(n_left));
  });
  return ends;
}

// Of a token, however far its sequence is from being the last: levels are divided by it.
inline constexpr double kLeastWorth = 1e-6;

/// A token of the sequence that ends last saves a step of its own, last_s seconds; one of another sequence saves its
/// row of a step, row_s. The chance to be the last is that of the largest of all ends with noise of Gumbel's
/// distribution.
BASS_HD_CALL void weigh_job(int job, const Ends& ends, double last_s, double row_s,
                            std::span<RunningSequence> sequences) {
  const auto odds = [&](const RunningSequence& sequence) {
    return std::exp((sequence.n_left - ends.most) / ends.spread);
  };
  double sum = 0;
  for_each_of(job, sequences, [&](const RunningSequence& sequence) { sum += odds(sequence); });
  const double mean_s = row_s + (last_s - row_s) / ends.n;
  for_each_of(job, sequences, [&](RunningSequence& sequence) {
    const double worth = (row_s + (last_s - row_s) * odds(sequence) / sum) / mean_s;
    sequence.worth = static_cast<float>(std::max(worth, double{kLeastWorth}));
  });
}

}  // namespace token_worth

/// Sets what tokens are worth; their mean over a job is 1. regular: the step of all sequences without drafts.
/// has_waiting: a place that gets free is taken at once, so that steps do not get smaller and a token is a token.
BASS_HD_CALL void weigh_tokens(const StepCosts& costs, const StepLoad& regular, bool has_waiting,
                               std::span<RunningSequence> sequences) {
  constexpr float kNotYet = -1;
  for (RunningSequence& sequence : sequences) sequence.worth = has_waiting || sequence.job == 0 ? 1 : kNotYet;
  double all_s = 0;
  for (RunningSequence& first : sequences) {
    if (first.worth != kNotYet) continue;
    const token_worth::Ends ends = token_worth::ends_of(first.job, sequences);
    const int n_others = ends.n - 1;
    if (all_s == 0) all_s = predicted_step_seconds(costs, regular);
    if (n_others == 0 || all_s <= 0) {
      token_worth::for_each_of(first.job, sequences, [](RunningSequence& sequence) { sequence.worth = 1; });
      continue;
    }
    const double part = 1 - static_cast<double>(n_others) / regular.n_rows;
    const StepLoad last{regular.n_rows - n_others, part * regular.n_read, part * regular.n_seen, regular.has_chunk};
    // A table may be wrong, but the last sequence does not take less than its share.
    const double last_s = std::clamp(predicted_step_seconds(costs, last), all_s / ends.n, all_s);
    token_worth::weigh_job(first.job, ends, last_s, (all_s - last_s) / n_others, sequences);
  }
}

}  // namespace bass
