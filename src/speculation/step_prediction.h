// What steps are believed to take: what a policy asks the table. step_costs.cc is how it learns.
//
// Pure functions of POD state, which compile for a GPU as well (gpu/choose_lengths.cu): a device may plan its own
// steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/host_device.h"
#include "speculation/step_costs.h"

// Constants are copied (int{...}) where a function takes a reference: on a device they have no address.

namespace bass {
namespace step_prediction {

inline constexpr double kEvenness = 0.08;      // scatter at which other sizes are worth as much as one measurement
inline constexpr double kMaxOthers = 8;        // measurements that they are worth at most
inline constexpr double kLeastPart = 0.01;     // of the weight, for which nobody asks the other sizes
inline constexpr double kBelievedCost = 0.6;   // of a further row, in those before it, where no measurement says
inline constexpr double kBelievedFrom = 0.25;  // of the rows: farther away than this measurements say
inline constexpr int kNear = 12;               // steps of a twelfth more or fewer rows are about the same
inline constexpr double kBeside = 0.25;  // of a measurement, that sizes are worth which lie on both sides within twice
inline constexpr int kTileRows = 8;      // of AVX-512's products; others' edges are at multiples or halves of it
inline constexpr double kTileKnown = 4;  // measurements of a tile's other sizes
inline constexpr int kFirstMeasurements = 2;
inline constexpr double kPassGrowth = 1.4;  // of a draft model's pass for twice the sequences, beside the main model's
inline constexpr float kMaxMove =
    0.22f;  // of the whole table (logarithm), after which what was measured before is doubtful

template <class Visit>
BASS_HD_CALL void for_each_within(int n_rows, int reach, Visit visit) {
  for (int rows = StepCosts::row_idx(n_rows - reach); rows <= StepCosts::row_idx(n_rows + reach); ++rows) visit(rows);
}

template <class Visit>
BASS_HD_CALL void for_each_near(int n_rows, Visit visit) {
  for_each_within(n_rows, StepCosts::row_idx(n_rows) / kNear, visit);
}

// What is believed of a size by itself, and how many measurements that is worth; seconds 0: nothing.
struct OwnBelief {
  double seconds = 0;
  double weight = 0;
};

// Few measurements are worth less than their number: any may be another program's doing. While they are few, what an
// earlier run has kept counts beside them, unless it is longer: others' work makes no time shorter.
BASS_HD_CALL OwnBelief own_belief(const StepCosts& costs, int rows) {
  const double typical = costs.step_s[rows];
  if (typical <= 0) return {};
  const int n = costs.recent[rows].n;
  if (n == 0) return {typical, std::max<double>(costs.n_measured[rows], 1)};
  const double measured = 1.0 * n * n / StepCosts::kGoodTimes;
  const double kept_s = std::min<double>(costs.kept_level * costs.kept_s[rows], typical);
  const double kept = kept_s > 0 ? std::max(StepCosts::kGoodTimes - n, 0) : 0;
  return {(measured * typical + kept * kept_s) / (measured + kept), measured + kept};
}

// The more times scatter, the more other sizes are worth: of many that were measured a few times each some always look
// cheap.
BASS_HD_CALL double others_weight(const StepCosts& costs) {
  const double scatter = costs.scatter / kEvenness;
  return std::min(scatter * scatter, double{kMaxOthers});
}

BASS_HD_CALL double seconds_by_nearest(const StepCosts& costs, int wanted) {
  for (int distance = 0; distance < StepCosts::kMaxRows; ++distance) {
    for (const int rows : {wanted - distance, wanted + distance}) {
      if (rows < 1 || rows > StepCosts::kMaxRows || costs.step_s[rows] <= 0) continue;
      return costs.step_s[rows] * (1 + kBelievedCost * (wanted - rows) / rows);
    }
  }
  return 0;
}

// A line through the other sizes from `begin` to `end`, by what their measurements are worth and how near they are
// (local linear regression). Its slope is what is believed as far as they lie too near each other to say. 0 where they
// are fewer than two.
BASS_HD_CALL double seconds_on_line(const StepCosts& costs, int wanted, int begin, int end) {
  double sum = 0, sum_x = 0, sum_xx = 0, sum_y = 0, sum_xy = 0;
  for (int rows = std::max(begin, 1); rows <= std::min(end, static_cast<int>(costs.max_rows_seen)); ++rows) {
    if (rows == wanted) continue;
    const double x = rows - wanted;
    const OwnBelief own = own_belief(costs, rows);
    const double weight = own.weight * (1.1 - x / (x < 0 ? begin - wanted : end - wanted));
    sum += weight;
    sum_x += weight * x;
    sum_xx += weight * x * x;
    sum_y += weight * own.seconds;
    sum_xy += weight * x * own.seconds;
  }
  const double spread = sum * sum_xx - sum_x * sum_x;
  if (spread <= 1e-6 * sum * sum) return 0;
  const double near = kBelievedFrom * wanted;
  const double belief = others_weight(costs) * near * near * sum;
  const double believed = kBelievedCost * sum_y / (sum * wanted + sum_x);
  const double slope = (sum * sum_xy - sum_x * sum_y + belief * believed) / (spread + belief);
  return (sum_y - std::max(slope, 0.0) * sum_x) / sum;  // more rows never cost less: noise
}

// Processors compute rows by tiles: behind a tile's edge one row more costs as much as several. So the sizes of the
// wanted one's tile say most, if enough is known of them; else those of half to twice as many rows, or farther away
// while these are fewer than two.
BASS_HD_CALL double seconds_by_others(const StepCosts& costs, int wanted) {
  const int first = (wanted - 1) / kTileRows * kTileRows + 1;
  const int last = first + kTileRows - 1;
  double known = 0;
  for (int rows = first; rows <= last && rows <= costs.max_rows_seen; ++rows) {
    if (rows != wanted) known += own_belief(costs, rows).weight;
  }
  if (known >= kTileKnown) {
    if (const double seconds = seconds_on_line(costs, wanted, first, last); seconds > 0) return seconds;
  }
  for (int width = 2;; width *= 2) {
    const int begin = (wanted - 1) / width;
    const int end = wanted * width;
    const double seconds = seconds_on_line(costs, wanted, begin, end);
    if (seconds > 0 || (begin == 0 && end >= costs.max_rows_seen)) return seconds;
  }
}

BASS_HD_CALL double seconds_in_table(const StepCosts& costs, int wanted) {
  const OwnBelief own = own_belief(costs, wanted);
  const double others = others_weight(costs);
  if (others < kLeastPart * own.weight) return own.seconds;
  const double by_others = seconds_by_others(costs, wanted);
  if (by_others <= 0) return own.weight > 0 ? own.seconds : seconds_by_nearest(costs, wanted);
  if (own.weight <= 0) return by_others;
  return (own.weight * own.seconds + others * by_others) / (own.weight + others);
}

}  // namespace step_prediction

/// How many times as long as a step of kMaxRows rows one of more takes, along the slope of the table's upper half; 1
/// for others. full_s, half_s: seconds of steps of kMaxRows and of half as many, without attention; 0: not known
BASS_HD_CALL double times_beyond_table(double full_s, double half_s, int n_rows) {
  constexpr int kFull = StepCosts::kMaxRows;
  constexpr int kHalf = kFull / 2;
  if (n_rows <= kFull || full_s <= 0 || half_s <= 0) return 1;
  const double slope = std::clamp((full_s - half_s) / full_s / (kFull - kHalf), 0.0, 1.0 / kFull);
  return 1 + slope * (n_rows - kFull);
}

/// Seconds of a step without attention: from what that size took and a line through the sizes around it, which counts
/// the more the fewer and the less alike its own times are. 0 when nothing was measured.
BASS_HD_CALL double predicted_rows_seconds(const StepCosts& costs, int n_rows) {
  const double seconds = step_prediction::seconds_in_table(costs, StepCosts::row_idx(n_rows));
  if (n_rows <= StepCosts::kMaxRows) return seconds;
  return seconds *
         times_beyond_table(seconds, step_prediction::seconds_in_table(costs, StepCosts::kMaxRows / 2), n_rows);
}

/// Seconds of a step: of its rows and of its attention. 0 when nothing was measured.
BASS_HD_CALL double predicted_step_seconds(const StepCosts& costs, const StepLoad& load) {
  return predicted_rows_seconds(costs, load.n_rows) + predicted_attention_seconds(costs.attention, load);
}

/// The same on average, with what others' work adds: what many such steps take together, not how they compare.
BASS_HD_CALL double mean_step_seconds(const StepCosts& costs, const StepLoad& load) {
  return costs.slowed * predicted_step_seconds(costs, load);
}

/// 1: no step of about so many rows was measured, nor of somewhat fewer and more; near 0: many were.
BASS_HD_CALL double step_novelty(const StepCosts& costs, int n_rows) {
  int n = 0;
  step_prediction::for_each_near(n_rows, [&](int rows) { n += costs.n_measured[rows]; });
  const int idx = StepCosts::row_idx(n_rows);
  const auto n_within = [&](int begin, int end) {
    return std::accumulate(costs.n_measured + begin, costs.n_measured + std::min(end, costs.max_rows_seen + 1), 0);
  };
  const int n_beside =
      idx < costs.max_rows_seen ? std::min(n_within((idx + 1) / 2, idx), n_within(idx + 1, 2 * idx)) : 0;
  return 1.0 / (1.0 + n + step_prediction::kBeside * n_beside);
}

/// An earlier run has measured steps of about so many rows, and this one has not.
BASS_HD_CALL bool is_known_from_before(const StepCosts& costs, int n_rows) {
  bool is_known = false, is_measured = false;
  step_prediction::for_each_near(n_rows, [&](int rows) {
    is_known |= costs.step_s[rows] > 0;
    is_measured |= costs.last_measured[rows] > 0;
  });
  return is_known && !is_measured;
}

/// No step of about so many rows was measured for long (the less often in this run, the sooner), or since the machine
/// became faster or slower.
BASS_HD_CALL bool is_step_stale(const StepCosts& costs, int n_rows) {
  int n = 0;
  int last = 0;
  float log_level = 0;
  step_prediction::for_each_near(n_rows, [&](int rows) {
    if (costs.last_measured[rows] == 0) return;
    n += costs.n_measured[rows];
    if (costs.last_measured[rows] < last) return;
    last = costs.last_measured[rows];
    log_level = costs.log_level_at[rows];
  });
  if (n < step_prediction::kFirstMeasurements ||
      costs.n_steps - last >= std::min(4 * (1 + n), int{StepCosts::kStaleSteps}))
    return true;
  return std::abs(costs.log_level - log_level) > step_prediction::kMaxMove;
}

/// Seconds of a pass of the draft model that drafts 2^size to 2^(size + 1) - 1 tokens; 0: not measured. One that this
/// run has hardly measured takes no longer than a smaller pass lets expect, where steps of the main model say what more
/// rows cost: passes that look dear are not taken, so nothing else would correct what another program once made long.
BASS_HD_CALL double draft_pass_seconds(const StepCosts& costs, int size) {
  double seconds = costs.draft_step_s[size];
  if (seconds <= 0 || costs.recent_drafts[size].n >= StepCosts::kGoodTimes) return seconds;
  const double rows_s = predicted_rows_seconds(costs, 1 << size);
  double growth = 1;
  for (int smaller = size - 1; smaller >= 0 && rows_s > 0; --smaller) {
    growth *= step_prediction::kPassGrowth;
    if (costs.draft_step_s[smaller] <= 0) continue;
    const double ratio = rows_s / predicted_rows_seconds(costs, 1 << smaller);
    seconds = std::min(seconds, growth * std::max(ratio, 1.0) * costs.draft_step_s[smaller]);
  }
  return seconds;
}

/// Seconds of n_draft_steps passes of the draft model that draft n_model_drafts tokens together. As long as for the
/// nearest size that was measured; 0 when none was.
BASS_HD_CALL double predicted_draft_seconds(const StepCosts& costs, int n_draft_steps, int n_model_drafts) {
  if (n_draft_steps <= 0) return 0;
  const int wanted = StepCosts::draft_size(n_draft_steps, n_model_drafts);
  for (int distance = 0; distance < StepCosts::kDraftSizes; ++distance) {
    for (const int size : {wanted - distance, wanted + distance}) {
      if (size < 0 || size >= StepCosts::kDraftSizes || costs.draft_step_s[size] <= 0) continue;
      return n_draft_steps * draft_pass_seconds(costs, size);
    }
  }
  return 0;
}

/// Least seconds per drafted token over all measured sizes of the draft model's passes: an upper bound for reading a
/// token. 0 when no pass was measured.
BASS_HD_CALL double least_drafted_token_seconds(const StepCosts& costs) {
  double least = 0;
  for (int size = 0; size < StepCosts::kDraftSizes; ++size) {
    const double seconds = draft_pass_seconds(costs, size) / (1 << size);
    if (seconds > 0 && (least == 0 || seconds < least)) least = seconds;
  }
  return least;
}

/// Seconds that the draft model takes to read so many tokens that it had not followed, before it can draft. 0 while
/// that was not measured.
BASS_HD_CALL double predicted_catch_up_seconds(const StepCosts& costs, int n_unread) {
  return static_cast<double>(costs.catch_up_s) * std::max(n_unread, 0);
}

}  // namespace bass
