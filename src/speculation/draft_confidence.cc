#include "speculation/draft_confidence.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace bass {
namespace {

constexpr int kBins = ConfidenceState::kBins;
constexpr std::array<float, kBins - 1> kEdges{-1.2f, 0.2f, 1.5f, 2.7f, 4.0f};  // of the bins, log odds
constexpr float kCountFading = 0.995f;                                         // of counts, with each draft
constexpr float kStepFading = 0.95f;      // of what the terms were learnt from, with each step
constexpr float kForgetting = 0.002f;     // of the way back to the first terms, with each step without a look
constexpr float kBiasInformation = 4.0f;  // that the first terms are worth: about 20 tokens
constexpr float kSlopeInformation = 16.0f;
constexpr float kSkillInformation = 12.0f;  // that a sequence like the others is worth
constexpr float kSkillFading = 0.99f;
constexpr float kMaxOffset = 1.5f;
constexpr float kMaxBias = 4.0f;
constexpr float kMaxSlope = 2.0f;
constexpr float kMaxInBin = 50.0f;

int bin_of(float log_odds) {
  return static_cast<int>(std::upper_bound(kEdges.begin(), kEdges.end(), log_odds) - kEdges.begin());
}

// Survival on a grid of its logarithm.
constexpr int kGrid = 48;
constexpr float kGridStep = 0.0667f;  // the last point: exp(-3.1), below the last level
using Survival = std::array<float, kGrid>;
using SurvivalByBin = std::array<Survival, kBins>;

// How far each bin's chance moves a survival on the grid: to the nearest point, as tokens that are equally sure are all
// kept or all dropped. At most beyond its end, where no level is.
std::array<int, kBins> distances(const ConfidenceState& state, float offset) {
  std::array<int, kBins> result{};
  for (size_t bin = 0; bin < kBins; ++bin) {
    const float chance = chance_of_log_odds(state.model.bias + state.model.slope * state.log_odds[bin] + offset);
    result[bin] = static_cast<int>(std::min(std::lround(-std::log(chance) / kGridStep), long{kGrid}));
  }
  return result;
}

// Behind each bin of the last token: the bin of the next one and the survival up to it.
SurvivalByBin next_survival(const ConfidenceState& state, const SurvivalByBin& last,
                            const std::array<int, kBins>& distance) {
  SurvivalByBin result;
  std::array<float, kBins> n_behind{};
  for (size_t from = 0; from < kBins; ++from) {
    for (const float count : state.next[from]) n_behind[from] += count;
  }
  for (size_t to = 0; to < kBins; ++to) {
    std::array<float, 2 * kGrid>
        moved{};  // loops of a fixed length are vectorised; what lies behind the grid is dropped
    float* behind = moved.data() + distance[to];
    for (size_t from = 0; from < kBins; ++from) {
      const float part = state.next[from][to] / n_behind[from];
      for (size_t i = 0; i < kGrid; ++i) behind[i] += last[from][i] * part;
    }
    std::copy_n(moved.begin(), kGrid, result[to].begin());
  }
  return result;
}

SurvivalByBin first_survival(const ConfidenceState& state, const std::array<int, kBins>& distance) {
  SurvivalByBin result{};
  float n = 0;
  for (const float count : state.first) n += count;
  for (size_t bin = 0; bin < kBins; ++bin) {
    if (distance[bin] < kGrid) result[bin][static_cast<size_t>(distance[bin])] = state.first[bin] / n;
  }
  return result;
}

// What does not depend on what was learnt.
struct Grid {
  Survival chance;                                     // of each point
  std::array<int, ExpectedStops::kLevels> end_points;  // points of at least the level's survival
};

Grid make_grid() {
  Grid grid;
  for (size_t i = 0; i < kGrid; ++i) grid.chance[i] = std::exp(-kGridStep * static_cast<float>(i));
  for (int level = 0; level < ExpectedStops::kLevels; ++level) {
    const float last = -std::log(stop_level(level)) / kGridStep;
    int i = 0;
    while (i < kGrid && static_cast<float>(i) <= last) ++i;
    grid.end_points[static_cast<size_t>(level)] = i;
  }
  return grid;
}

// How many tokens have at least the survival of each level, and their sum.
void count_levels(const SurvivalByBin& survival, int j, ExpectedStops* stops) {
  static const Grid kPoints = make_grid();
  float n_kept = 0;
  float n_accepted = 0;
  int i = 0;
  for (int level = 0; level < ExpectedStops::kLevels; ++level) {
    for (; i < kPoints.end_points[static_cast<size_t>(level)]; ++i) {
      float mass = 0;
      for (const Survival& of_bin : survival) mass += of_bin[static_cast<size_t>(i)];
      n_kept += mass;
      n_accepted += mass * kPoints.chance[static_cast<size_t>(i)];
    }
    stops->n_kept[level][j] = n_kept;
    stops->n_accepted[level][j] = n_accepted;
  }
}

}  // namespace

int drafted_len(const DraftStop& stop, std::span<const float> confidences, int* n_looked_at) {
  float survival = 1;
  *n_looked_at = 0;
  for (const float confidence : confidences) {
    survival = stop.survival_behind(survival, confidence);
    if (stop.drops(survival)) return (*n_looked_at)++;
    ++*n_looked_at;
    if (stop.ends_behind(survival)) break;
  }
  return *n_looked_at;
}

// A step of Newton's method for the log odds alone, as far as the sequence was seen.
void learn_skill(float predicted, float seen, float weight, DraftSkill* skill) {
  skill->information = skill->information * kSkillFading + weight * predicted * (1 - predicted);
  const float step = weight * (seen - predicted) / (kSkillInformation + skill->information);
  skill->offset = std::clamp(skill->offset + step, -kMaxOffset, kMaxOffset);
}

void learn_confidences(std::span<const float> confidences, ConfidenceState* state) {
  int last_bin = -1;
  for (const float confidence : confidences.first(std::min<size_t>(confidences.size(), ExpectedStops::kMaxLen))) {
    const float log_odds = confidence_log_odds(confidence);
    const int bin = bin_of(log_odds);
    float* counts = last_bin < 0 ? state->first : state->next[last_bin];
    for (int i = 0; i < kBins; ++i) counts[i] *= kCountFading;
    counts[bin] += 1;
    state->n_in_bin[bin] = std::min(state->n_in_bin[bin] + 1, kMaxInBin);
    state->log_odds[bin] += (log_odds - state->log_odds[bin]) / state->n_in_bin[bin];
    last_bin = bin;
  }
}

// Online logistic regression: a step of Newton's method with the information of what was seen lately.
void learn_chance(float confidence, float offset, float seen, float weight, ConfidenceState* state) {
  const float x = confidence_log_odds(confidence);
  const float predicted = confident_chance(state->model, confidence, offset);
  const float information = weight * predicted * (1 - predicted);
  float* sums = state->information;
  sums[0] += information;
  sums[1] += information * x;
  sums[2] += information * x * x;
  const float bias = sums[0] + kBiasInformation;
  const float slope = sums[2] + kSlopeInformation;
  const float determinant = bias * slope - sums[1] * sums[1];
  const float error = weight * (seen - predicted);
  ConfidenceTerms& model = state->model;
  model.bias = std::clamp(model.bias + error * (slope - sums[1] * x) / determinant, -kMaxBias, kMaxBias);
  model.slope = std::clamp(model.slope + error * (bias * x - sums[1]) / determinant, 0.0f, kMaxSlope);
}

void fade_chances(bool has_looked, ConfidenceState* state) {
  if (has_looked) {
    for (float& sum : state->information) sum *= kStepFading;
    return;
  }
  const ConfidenceTerms first;
  state->model.bias += kForgetting * (first.bias - state->model.bias);
  state->model.slope += kForgetting * (first.slope - state->model.slope);
  for (float& sum : state->information) sum *= 1 - kForgetting;
}

ExpectedStops expected_stops(const ConfidenceState& state, float offset) {
  ExpectedStops stops;
  const std::array<int, kBins> distance = distances(state, offset);
  SurvivalByBin survival = first_survival(state, distance);
  count_levels(survival, 0, &stops);
  for (int j = 1; j < ExpectedStops::kMaxLen; ++j) {
    survival = next_survival(state, survival, distance);
    count_levels(survival, j, &stops);
  }
  return stops;
}

}  // namespace bass
