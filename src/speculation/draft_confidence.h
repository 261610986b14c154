// What a draft model's own confidence says of its tokens. The confidence of a row of draft logits is the probability
// that it gives to its best token (kernels/sampling/distribution.h, draft_confidence): known before a token is drawn
// from it, so that a draft may end there under every rule of verification (docs/architecture.md, "Exactness").
//
// All are functions of POD state, for the device that drafts too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/cuda/host_device.h"

namespace bass {

/// The chance that a token is accepted if those before it were, as log odds: bias + slope x + offset. x: log odds of
/// the row's confidence; offset: of the sequence. Where in a draft a token stands says little more.
struct ConfidenceTerms {
  float bias = 0.06f;  // about those of models/smollm2-135m-draft.gguf: slope 0.82 greedy, 0.51 at temperature 0.8
  float slope = 0.65f;
};

inline constexpr float kMaxLogOdds = 7.0f;

/// Log odds of a confidence, within what chances are learnt of.
BASS_HD float confidence_log_odds(float confidence) {
  return std::clamp(std::log(confidence / std::max(1.0f - confidence, 1e-6f)), -kMaxLogOdds, float{kMaxLogOdds});
}

BASS_HD float chance_of_log_odds(float log_odds) { return 1.0f / (1.0f + std::exp(-log_odds)); }

BASS_HD float confident_chance(const ConfidenceTerms& model, float confidence, float offset) {
  return chance_of_log_odds(model.bias + model.slope * confidence_log_odds(confidence) + offset);
}

/// When a draft ends before its length: at the first token whose *survival*, the product of the chances up to it, falls
/// below a minimum. That token is not drawn.
struct DraftStop {
  float min_survival = 0;  // 0: never
  float offset = 0;        // of the sequence
  ConfidenceTerms model;

  /// The survival of a token behind one that has `survival` (1 in front of the first).
  [[nodiscard]] BASS_HD float survival_behind(float survival, float confidence) const {
    return survival * confident_chance(model, confidence, offset);
  }
  [[nodiscard]] BASS_HD bool drops(float survival) const { return survival < min_survival; }
  /// Behind a token of this survival no further one is worth the pass that says how likely it is.
  [[nodiscard]] BASS_HD bool ends_behind(float survival) const { return kBestChance * survival < min_survival; }

  static constexpr float kBestChance = 0.95f;
};

/// What is drafted of `len` tokens: ends where `stop` says. confidences: [len]; n_looked_at: of them the draft model
/// has come to so many, one more than is drafted where a token was dropped.
int drafted_len(const DraftStop& stop, std::span<const float> confidences, int* n_looked_at);

/// How a sequence differs from the others: log odds that are added to the chances of its drafts.
struct DraftSkill {
  float offset = 0;
  float information = 0;  // seen so far, fading
};

/// Learns the offset of a sequence from a token of its drafts. predicted: the chance with the offset; seen: whether, or
/// how probably, it was accepted; weight: the chance that it was reached.
void learn_skill(float predicted, float seen, float weight, DraftSkill* skill);

/// What is learnt of confidence: what it means and how often it is high. Confidences are a Markov chain over bins.
struct ConfidenceState {
  static constexpr int kBins = 6;
  ConfidenceTerms model;
  float information[3] = {};  // that bias and slope were learnt from, fading: of bias, of both, of slope
  // Before anything is learnt: as counted with that draft, greedy and at temperature 0.8 (docs/experiments/
  // draft-length.md, "Confidence").
  float log_odds[kBins] = {-1.8f, -0.5f, 0.8f, 2.1f, 3.3f, 5.7f};  // mean of a bin
  float n_in_bin[kBins] = {};                                      // tokens that it is the mean of, at most so many
  float first[kBins] = {1.5f, 2.9f, 1.5f, 0.8f, 0.5f, 0.8f};       // first tokens in a bin, fading
  float next[kBins][kBins] = {
      {2.3f, 3.2f, 1.3f, 0.5f, 0.3f, 0.4f}, {2.0f, 3.2f, 1.4f, 0.6f, 0.4f, 0.4f},
      {1.5f, 2.8f, 1.5f, 0.8f, 0.6f, 0.8f}, {1.1f, 2.3f, 1.7f, 1.0f, 0.7f, 1.2f},
      {0.8f, 2.1f, 1.5f, 1.0f, 0.9f, 1.7f}, {0.6f, 2.1f, 1.5f, 0.9f, 0.8f, 2.1f}};  // j behind i
};

/// Stands for the confidence of drafts that tell none.
inline constexpr float kUnknownConfidence = 0.5f;

/// Learns from the confidences of one draft, the dropped token's included.
void learn_confidences(std::span<const float> confidences, ConfidenceState* state);
/// Learns what the confidence of a token means.
void learn_chance(float confidence, float offset, float seen, float weight, ConfidenceState* state);
/// A step goes by. What is known counts less: drafts turn good and bad. Without a look at any it goes back, slowly, to
/// what was believed at first.
void fade_chances(bool has_looked, ConfidenceState* state);

/// What drafts bring that end by a DraftStop, for sequences of about the same offset.
struct ExpectedStops {
  static constexpr int kMaxLen = 8;
  static constexpr int kLevels = 19;        // minima of survival: 0.95, 0.9, .. 0.05
  float n_kept[kLevels][kMaxLen] = {};      // chance that the j-th token is drafted
  float n_accepted[kLevels][kMaxLen] = {};  // and that it is accepted then, too
};
constexpr float stop_level(int level) { return 0.95f - 0.05f * static_cast<float>(level); }
/// The level nearest to a minimum of survival.
BASS_HD int nearest_stop_level(float min_survival) {
  const float level = (stop_level(0) - min_survival) / (stop_level(0) - stop_level(1));
  return std::clamp(static_cast<int>(std::lround(level)), 0, ExpectedStops::kLevels - 1);
}

ExpectedStops expected_stops(const ConfidenceState& state, float offset);

}  // namespace bass
