// What steps are believed to take: the questions to the table. step_costs.cc is how it learns.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "speculation/step_costs.h"

namespace bass {
namespace {

constexpr double kEvenness = 0.08;      // scatter at which other sizes are worth as much as one measurement
constexpr double kMaxOthers = 8;        // measurements that they are worth at most
constexpr double kLeastPart = 0.01;     // of the weight, for which nobody asks the other sizes
constexpr double kBelievedCost = 0.6;   // of a further row, in those before it, where no measurement says
constexpr double kBelievedFrom = 0.25;  // of the rows: farther away than this measurements say
constexpr int kNear = 12;               // steps of a twelfth more or fewer rows are about the same
constexpr double kBeside = 0.25;        // of a measurement, that sizes are worth which lie on both sides within twice
constexpr int kFirstMeasurements = 2;
constexpr float kMaxMove = 0.22f;  // of the whole table (logarithm), after which what was measured before is doubtful

template <class Visit>
void for_each_near(int n_rows, Visit visit) {
  const int reach = StepCosts::row_idx(n_rows) / kNear;
  for (int rows = StepCosts::row_idx(n_rows - reach); rows <= StepCosts::row_idx(n_rows + reach); ++rows) visit(rows);
}

// What a size's own measurements are worth. Few are worth less than their number: any may be another program's doing.
double own_weight(const StepCosts& costs, int rows) {
  if (costs.step_s[rows] <= 0) return 0;
  const int n = costs.recent[rows].n;
  return n > 0 ? 1.0 * n * n / StepCosts::kGoodTimes
               : std::max<double>(costs.n_measured[rows], 1);  // an earlier run had many
}

// The more times scatter, the more other sizes are worth: of many that were measured a few times each some always look
// cheap.
double others_weight(const StepCosts& costs) {
  const double scatter = costs.scatter / kEvenness;
  return std::min(scatter * scatter, kMaxOthers);
}

double seconds_by_nearest(const StepCosts& costs, int wanted) {
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
double seconds_on_line(const StepCosts& costs, int wanted, int begin, int end) {
  double sum = 0, sum_x = 0, sum_xx = 0, sum_y = 0, sum_xy = 0;
  for (int rows = std::max(begin, 1); rows <= std::min(end, static_cast<int>(costs.max_rows_seen)); ++rows) {
    if (rows == wanted) continue;
    const double x = rows - wanted;
    const double weight = own_weight(costs, rows) * (1.1 - x / (x < 0 ? begin - wanted : end - wanted));
    sum += weight;
    sum_x += weight * x;
    sum_xx += weight * x * x;
    sum_y += weight * costs.step_s[rows];
    sum_xy += weight * x * costs.step_s[rows];
  }
  const double spread = sum * sum_xx - sum_x * sum_x;
  if (spread <= 1e-6 * sum * sum) return 0;
  const double near = kBelievedFrom * wanted;
  const double belief = others_weight(costs) * near * near * sum;
  const double believed = kBelievedCost * sum_y / (sum * wanted + sum_x);
  const double slope = (sum * sum_xy - sum_x * sum_y + belief * believed) / (spread + belief);
  return (sum_y - std::max(slope, 0.0) * sum_x) / sum;  // more rows never cost less: noise
}

// Sizes of half to twice as many rows, or farther away while those are fewer than two.
double seconds_by_others(const StepCosts& costs, int wanted) {
  for (int width = 2;; width *= 2) {
    const int begin = (wanted - 1) / width;
    const int end = wanted * width;
    const double seconds = seconds_on_line(costs, wanted, begin, end);
    if (seconds > 0 || (begin == 0 && end >= costs.max_rows_seen)) return seconds;
  }
}

double seconds_in_table(const StepCosts& costs, int wanted) {
  const double own = own_weight(costs, wanted);
  const double others = others_weight(costs);
  if (others < kLeastPart * own) return costs.step_s[wanted];
  const double by_others = seconds_by_others(costs, wanted);
  if (by_others <= 0) return seconds_by_nearest(costs, wanted);
  if (own <= 0) return by_others;
  return (own * costs.step_s[wanted] + others * by_others) / (own + others);
}

}  // namespace

double times_beyond_table(double full_s, double half_s, int n_rows) {
  constexpr int kFull = StepCosts::kMaxRows;
  constexpr int kHalf = kFull / 2;
  if (n_rows <= kFull || full_s <= 0 || half_s <= 0) return 1;
  const double slope = std::clamp((full_s - half_s) / full_s / (kFull - kHalf), 0.0, 1.0 / kFull);
  return 1 + slope * (n_rows - kFull);
}

double predicted_rows_seconds(const StepCosts& costs, int n_rows) {
  const double seconds = seconds_in_table(costs, StepCosts::row_idx(n_rows));
  if (n_rows <= StepCosts::kMaxRows) return seconds;
  return seconds * times_beyond_table(seconds, seconds_in_table(costs, StepCosts::kMaxRows / 2), n_rows);
}

double predicted_step_seconds(const StepCosts& costs, const StepLoad& load) {
  return predicted_rows_seconds(costs, load.n_rows) + predicted_attention_seconds(costs.attention, load);
}

double mean_step_seconds(const StepCosts& costs, const StepLoad& load) {
  return costs.slowed * predicted_step_seconds(costs, load);
}

double step_novelty(const StepCosts& costs, int n_rows) {
  int n = 0;
  for_each_near(n_rows, [&](int rows) { n += costs.n_measured[rows]; });
  const int idx = StepCosts::row_idx(n_rows);
  const auto n_within = [&](int begin, int end) {
    return std::accumulate(costs.n_measured + begin, costs.n_measured + std::min(end, costs.max_rows_seen + 1), 0);
  };
  const int n_beside =
      idx < costs.max_rows_seen ? std::min(n_within((idx + 1) / 2, idx), n_within(idx + 1, 2 * idx)) : 0;
  return 1.0 / (1.0 + n + kBeside * n_beside);
}

bool is_known_from_before(const StepCosts& costs, int n_rows) {
  bool is_known = false, is_measured = false;
  for_each_near(n_rows, [&](int rows) {
    is_known |= costs.step_s[rows] > 0;
    is_measured |= costs.last_measured[rows] > 0;
  });
  return is_known && !is_measured;
}

bool is_step_stale(const StepCosts& costs, int n_rows) {
  int n = 0;
  int last = 0;
  float log_level = 0;
  for_each_near(n_rows, [&](int rows) {
    if (costs.last_measured[rows] == 0) return;
    n += costs.n_measured[rows];
    if (costs.last_measured[rows] < last) return;
    last = costs.last_measured[rows];
    log_level = costs.log_level_at[rows];
  });
  if (n < kFirstMeasurements || costs.n_steps - last >= std::min(4 * (1 + n), StepCosts::kStaleSteps)) return true;
  return std::abs(costs.log_level - log_level) > kMaxMove;
}

}  // namespace bass
