// What a batch may draft in a step, and what of it makes tokens per second highest: of `goodput` (goodput.h).
//
// Pure functions of POD state, which compile for a GPU as well (gpu/choose_lengths.cu).
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "speculation/policies/expected_drafts.h"
#include "speculation/policies/size_costs.h"

namespace bass {
namespace goodput {

inline constexpr double kOptimism = 0.2;  // a step of a size that was never measured may cost so much less
inline constexpr double kMinGain = 1.02;  // over regular decoding, or nothing is drafted,
inline constexpr double kDoubt = 0.15;    // and more by so much of what times scatter: costs are the less certain
// What the model has to read before it drafts counts by the steps that it will draft in then: of the tokens that are
// left so many, as drafts turn bad and batches change.
inline constexpr double kStayed = 0.5;
inline constexpr double kLongestStay = 256;
inline constexpr int kGrowth = 2;               // rows of a step at most, in times of the most that was measured
inline constexpr double kLeastVariance = 0.05;  // of rows: less is none
// What is expected of confidences is a few steps old, and rounded: where all tokens lie at the edge, a device would
// drop what was to be drafted, and nothing would be learnt from.
inline constexpr float kStopMargin = 0.85f;

// What a batch may do: leave out tokens whose survival is below a level, and end the model's drafts at a length.
struct Option {
  double goodput = 0;  // tokens a second
  int level = -1;      // below 0: nothing is drafted
  bool uses_model = false;
  int max_model_len = GoodputState::kMaxLen;
  bool reads = true;  // the model drafts also for sequences whose text it has to read first
  // What it adds to a regular step, on average.
  double n_more = 0;       // rows
  double n_more_seen = 0;  // StepLoad::n_seen
  double passes_s = 0;     // of the draft model
  double reading_s = 0;    // all that it has to read before
};

// A batch whose next step is planned.
struct Batch {
  const GoodputState& learnt;
  const StepCosts& costs;
  StepLoad regular;
  std::span<DraftCandidate> candidates;
  SizeCosts& sizes;
  float hope = 0;  // log odds that the draft model's tokens are taken to be better by
};

// Sums over the candidates at one level.
struct Totals {
  StepLoad load;  // without the model's drafts
  double expected = 0;
  double n_kept[GoodputState::kMaxLen] = {};  // of the model's j-th tokens
  double n_accepted[GoodputState::kMaxLen] = {};
  double n_seen[GoodputState::kMaxLen] = {};
  double squared_means[GoodputState::kMaxLen] = {};  // of the first j + 1 tokens that are kept of each sequence's draft
  int n_can_draft[GoodputState::kMaxLen] = {};       // sequences that may draft a j-th token
  int n_drafting = 0;                                // sequences that the model drafts for
  double reading_s = 0;                              // all that it has to read for these,
  double reading_part_s = 0;                         // and a step's part of that
};

// Below which a candidate's tokens are left out at a level, which is that of tokens worth 1.
BASS_HD_CALL float least_survival(const DraftCandidate& candidate, int level) {
  return stop_level(level) / candidate.worth;
}

// The level of the draft model's tokens that comes nearest to that.
BASS_HD_CALL int model_level(const DraftCandidate& candidate, int level) {
  return nearest_stop_level(least_survival(candidate, level));
}

// While little was seen of the draft model it is hoped to be better than is believed: texts differ, and only drafts
// tell what they are worth here. Not for a single sequence, which would pay as much to learn less.
BASS_HD_CALL float hope_of(const GoodputState& learnt, size_t n_candidates) {
  return n_candidates > 1 ? learnt.hope : 0;
}

BASS_HD_CALL bool may_use_model(const DraftCandidate& candidate, bool uses_model, bool reads) {
  return uses_model && (reads || !must_catch_up(candidate));
}

BASS_HD_CALL void add_model_draft(const Batch& batch, const DraftCandidate& candidate, int level, int len,
                                  Totals* totals) {
  const ExpectedStops& stops = expected_stops_of(batch.learnt, candidate.skills.model.offset + batch.hope);
  level = model_level(candidate, level);
  ++totals->n_drafting;
  const double behind_s = batch.sizes.reading_seconds(n_behind(candidate.n_unread));
  const double missed_s = batch.sizes.reading_seconds(n_to_catch_up(candidate.n_unread));
  totals->reading_s += behind_s + missed_s;
  totals->reading_part_s += behind_s + missed_s / std::clamp(kStayed * candidate.n_left, 1.0, double{kLongestStay});
  double mean = 0;
  for (int j = 0; j < GoodputState::kMaxLen; ++j) {
    if (j < len) mean += stops.n_kept[level][j];
    totals->squared_means[j] += mean * mean;
  }
  for (int j = 0; j < len; ++j) {
    ++totals->n_can_draft[j];
    totals->n_kept[j] += stops.n_kept[level][j];
    totals->n_accepted[j] += candidate.worth * stops.n_accepted[level][j];
    totals->n_seen[j] += stops.n_kept[level][j] * candidate.context_len;
  }
}

BASS_HD_CALL Totals totals_of(const Batch& batch, int level, bool uses_model, bool reads) {
  Totals totals{batch.regular, static_cast<double>(batch.regular.n_rows)};
  for (const DraftCandidate& candidate : batch.candidates) {
    const ExpectedDraft draft = draft_above(batch.learnt, candidate, least_survival(candidate, level),
                                            may_use_model(candidate, uses_model, reads), batch.hope);
    if (draft.source == DraftSource::kModel) {
      if (draft.len > 0) add_model_draft(batch, candidate, level, draft.len, &totals);
      continue;
    }
    totals.expected += candidate.worth * draft.expected;
    totals.load.n_rows += draft.len;
    totals.load.n_seen += static_cast<double>(draft.len) * candidate.context_len;
  }
  return totals;
}

BASS_HD_CALL double clean_step_seconds(const Batch& batch, const StepLoad& load) {
  return batch.sizes.of(load.n_rows).seconds + predicted_attention_seconds(batch.costs.attention, load);
}

// In a step that reads prompts a drafted row costs what the chunks' rows do, which mostly fill the machine. What it
// brings is a token less to decode when the prompts have been read: a part of a step that more sequences share.
BASS_HD_CALL double chunk_step_seconds(const Batch& batch, const StepLoad& load) {
  const StepLoad& regular = batch.regular;
  const double part = std::max(1.0, 1.0 * regular.n_later / regular.n_rows);
  const StepLoad later{std::max(regular.n_later, regular.n_rows), part * regular.n_read, part * regular.n_seen};
  const int n_more = load.n_rows - regular.n_rows;
  return clean_step_seconds(batch, later) / part + n_more * static_cast<double>(batch.costs.chunk_row_s);
}

// Seconds of a step, as it is believed. Beside a prompt's chunk: the sequences' part of a later step, and the price of
// the drafted rows.
BASS_HD_CALL double step_seconds(const Batch& batch, const StepLoad& load) {
  const bool is_in_chunk_step = load.has_chunk && batch.costs.chunk_row_s > 0 && batch.regular.n_rows > 0;
  return is_in_chunk_step ? chunk_step_seconds(batch, load) : clean_step_seconds(batch, load);
}

// The same with the hope that what was hardly measured takes less. doubt: how little the costs of larger steps are
// trusted at least, 0 .. 1.
BASS_HD_CALL double hoped_seconds(const Batch& batch, const StepLoad& load, double doubt) {
  if (load.n_rows == batch.regular.n_rows) doubt = 0;
  const double seconds = step_seconds(batch, load);
  if (load.has_chunk) return seconds;  // nothing will be measured that could correct a hope
  return seconds * (1 - kOptimism * std::max(batch.sizes.of(load.n_rows).novelty, doubt));
}

// Rows that drafts add to a step. How many tokens a model's draft keeps is known only when it has been drafted: their
// mean, their variance and the most that they can be.
struct DraftedRows {
  double mean = 0;
  double variance = 0;
  double max = 0;
};

// Of a step whose rows are so many more than those of `load`, which may be a fraction. seconds(load): of whole rows
template <class Seconds>
BASS_HD_CALL double seconds_with(StepLoad load, double n_more, Seconds seconds) {
  const int n_least = static_cast<int>(n_more);
  const double part = n_more - n_least;
  load.n_rows += n_least;
  const double least = seconds(load);
  if (part <= 0) return least;
  ++load.n_rows;
  return least + part * (seconds(load) - least);
}

// The mean over what a step's rows may come out as, a normal distribution in five parts: in front of a tile's edge,
// where one row more takes as long as several, half of such steps would be behind it. No part is where no step can come
// out. What is hoped for is that of the mean rows, as sizes far from it were measured the less.
BASS_HD_CALL double mean_seconds(const Batch& batch, const StepLoad& load, const DraftedRows& drafted, double doubt) {
  constexpr double kPlaces[] = {-1.6, -0.8, 0, 0.8, 1.6};  // standard deviations
  constexpr double kWeights[] = {0.10, 0.24, 0.32, 0.24, 0.10};
  const auto believed = [&](const StepLoad& at) { return step_seconds(batch, at); };
  const double hoped =
      seconds_with(load, drafted.mean, [&](const StepLoad& at) { return hoped_seconds(batch, at, doubt); });
  if (drafted.variance < kLeastVariance) return hoped;
  const double at_mean = seconds_with(load, drafted.mean, believed);
  if (at_mean <= 0) return hoped;
  const double room = std::min(drafted.mean, drafted.max - drafted.mean) / kPlaces[4];
  const double deviation = std::min(std::sqrt(drafted.variance), std::max(room, 0.0));
  double mean = 0;
  for (int i = 0; i < 5; ++i) mean += kWeights[i] * seconds_with(load, drafted.mean + kPlaces[i] * deviation, believed);
  return mean * hoped / at_mean;
}

// Behind the table's end nothing is measured by its rows, and its slope is believed.
BASS_HD_CALL int max_rows(const Batch& batch) {
  const int n_regular = batch.regular.n_rows;
  const bool is_full = batch.costs.max_rows_seen == StepCosts::kMaxRows;
  const int n_known = is_full ? std::max(n_regular, int{StepCosts::kMaxRows}) : int{batch.costs.max_rows_seen};
  return std::max(kGrowth * n_known, n_regular);
}

// Tokens a second; 0 if the step would have far more rows than any before. load: without the model's drafts
BASS_HD_CALL double goodput_of(const Batch& batch, const StepLoad& load, const DraftedRows& drafted, double expected,
                               double draft_s, double doubt) {
  if (load.n_rows + std::ceil(drafted.mean) > max_rows(batch)) return 0;
  const double seconds = mean_seconds(batch, load, drafted, doubt);
  return seconds > 0 ? expected / (seconds + draft_s) : 0;
}

BASS_HD_CALL double more_rows(const Batch& batch, const StepLoad& load) { return load.n_rows - batch.regular.n_rows; }

// The best length of the model's drafts at a level, if that beats `best`. A pass is for the sequences whose last token
// was kept; the first one is for all.
BASS_HD_CALL void try_lengths(const Batch& batch, int level, bool reads, double doubt, Option* best) {
  const Totals totals = totals_of(batch, level, /*uses_model=*/true, reads);
  DraftedRows drafted;
  double sum_of_squares = 0;  // of the drafts' lengths: the mean of l^2 is the sum over j of (2 j + 1) P(l > j)
  double expected = totals.expected;
  double passes_s = 0;
  StepLoad load = totals.load;
  for (int j = 0; j < GoodputState::kMaxLen; ++j) {
    const double n_drafting = j == 0 ? totals.n_drafting : totals.n_kept[j - 1];
    drafted.mean += totals.n_kept[j];
    sum_of_squares += (2 * j + 1) * totals.n_kept[j];
    drafted.variance = sum_of_squares - totals.squared_means[j];
    drafted.max += totals.n_can_draft[j];
    expected += totals.n_accepted[j];
    load.n_seen += totals.n_seen[j];
    passes_s += std::min(n_drafting, 1.0) * batch.sizes.pass_seconds(static_cast<int>(std::lround(n_drafting)));
    const double goodput = goodput_of(batch, load, drafted, expected, passes_s + totals.reading_part_s, doubt);
    if (goodput <= best->goodput) continue;
    *best = {goodput,
             level,
             true,
             j + 1,
             reads,
             more_rows(batch, load) + drafted.mean,
             load.n_seen - batch.regular.n_seen,
             passes_s,
             totals.reading_s};
  }
}

BASS_HD_CALL Option best_option(const Batch& batch, double doubt) {
  Option best;
  best.goodput =
      (kMinGain + kDoubt * batch.costs.scatter) * goodput_of(batch, batch.regular, {}, batch.regular.n_rows, 0, 0);
  // Beside prompts the draft model's passes are not measured, so that they would count as nothing for ever.
  const bool is_priced = !batch.regular.has_chunk || batch.sizes.pass_seconds(1) > 0;
  const bool has_model =
      is_priced && std::any_of(batch.candidates.begin(), batch.candidates.end(), [](const auto& candidate) {
        return candidate.source == DraftSource::kModel || candidate.max_model_len > 0;
      });
  const bool has_unread = std::any_of(batch.candidates.begin(), batch.candidates.end(), must_catch_up);
  for (int level = 0; level < ExpectedStops::kLevels; ++level) {
    const Totals ngrams = totals_of(batch, level, /*uses_model=*/false, /*reads=*/false);
    const double goodput = goodput_of(batch, ngrams.load, {}, ngrams.expected, 0, doubt);
    if (goodput > best.goodput) {
      best = {goodput,
              level,
              false,
              GoodputState::kMaxLen,
              true,
              more_rows(batch, ngrams.load),
              ngrams.load.n_seen - batch.regular.n_seen};
    }
    if (has_model) try_lengths(batch, level, /*reads=*/true, doubt, &best);
    if (has_model && has_unread) try_lengths(batch, level, /*reads=*/false, doubt, &best);
  }
  return best;
}

}  // namespace goodput
}  // namespace bass
