#include "speculation/draft_confidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace bass {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float confidence_of(float log_odds) { return sigmoid(log_odds); }

TEST(DraftStop, EndsBeforeTheTokenWhoseSurvivalIsTooLow) {
  const DraftStop stop{.min_survival = 0.3f, .model = {.bias = 0, .slope = 1}};  // chances are the confidences
  const std::vector<float> confidences{0.8f, 0.7f, 0.5f, 0.9f};                  // survivals .8 .56 .28
  int n_looked_at = 0;
  EXPECT_EQ(drafted_len(stop, confidences, &n_looked_at), 2);
  EXPECT_EQ(n_looked_at, 3);
  EXPECT_EQ(drafted_len(stop, std::span(confidences).first(1), &n_looked_at), 1) << "never more than was asked for";
  EXPECT_EQ(n_looked_at, 1);
}

TEST(DraftStop, RunsNoPassForATokenThatCannotReachTheMinimum) {
  const DraftStop stop{.min_survival = 0.5f, .model = {.bias = 0, .slope = 1}};
  const std::vector<float> confidences{0.51f, 0.99f};  // 0.51 x 0.95 < 0.5
  int n_looked_at = 0;
  EXPECT_EQ(drafted_len(stop, confidences, &n_looked_at), 1);
  EXPECT_EQ(n_looked_at, 1);
}

TEST(DraftStop, WithoutAMinimumAllIsDrafted) {
  const std::vector<float> confidences(8, 0.001f);
  int n_looked_at = 0;
  EXPECT_EQ(drafted_len({}, confidences, &n_looked_at), 8);
}

TEST(DraftStop, AGoodSequenceDraftsLonger) {
  DraftStop stop{.min_survival = 0.3f, .model = {.bias = 0, .slope = 1}};
  const std::vector<float> confidences(8, 0.7f);
  int n_looked_at = 0;
  const int len = drafted_len(stop, confidences, &n_looked_at);
  stop.offset = 1.0f;
  EXPECT_GT(drafted_len(stop, confidences, &n_looked_at), len);
}

// Tokens of a draft whose chances are those of `terms`.
struct Draft {
  ConfidenceTerms terms;
  std::mt19937 random{1};
  std::normal_distribution<float> log_odds{0.5f, 2.0f};

  float next_confidence() { return confidence_of(log_odds(random)); }
  float chance(float confidence) const { return confident_chance(terms, confidence, 0); }
};

TEST(Confidence, LearnsWhatItMeansFromChancesAndFromLuck) {
  for (const bool is_lucky : {false, true}) {
    Draft draft{{.bias = -1.5f, .slope = 1.1f}};
    ConfidenceState state;
    std::uniform_real_distribution<float> uniform;
    for (int step = 0; step < 100; ++step) {
      for (int i = 0; i < 20; ++i) {
        const float confidence = draft.next_confidence();
        const float chance = draft.chance(confidence);
        const float seen = is_lucky ? (uniform(draft.random) < chance ? 1.0f : 0.0f) : chance;
        learn_chance(confidence, 0, seen, 1, &state);
      }
      fade_chances(true, &state);
    }
    for (const float log_odds : {-2.0f, 0.0f, 2.0f, 4.0f}) {
      const float confidence = confidence_of(log_odds);
      EXPECT_NEAR(confident_chance(state.model, confidence, 0), draft.chance(confidence), is_lucky ? 0.12 : 0.05)
          << "log odds " << log_odds << (is_lucky ? ", luck" : ", chances");
    }
  }
}

TEST(Confidence, FollowsADraftThatTurnsBadWithinThirtySteps) {
  ConfidenceState state;
  const auto step = [&](float chance) {
    for (int i = 0; i < 4; ++i) learn_chance(0.8f, 0, chance, 1, &state);
    fade_chances(true, &state);
  };
  for (int i = 0; i < 200; ++i) step(0.9f);
  EXPECT_GT(confident_chance(state.model, 0.8f, 0), 0.85f);
  for (int i = 0; i < 30; ++i) step(0.02f);
  EXPECT_LT(confident_chance(state.model, 0.8f, 0), 0.2f);
}

TEST(Confidence, WithoutALookTheFirstBeliefComesBack) {
  ConfidenceState state;
  for (int i = 0; i < 500; ++i) learn_chance(0.8f, 0, 0.0f, 1, &state);
  const float bad = confident_chance(state.model, 0.8f, 0);
  for (int i = 0; i < 3000; ++i) fade_chances(false, &state);
  EXPECT_GT(confident_chance(state.model, 0.8f, 0), bad + 0.4f);
}

TEST(Confidence, ASequenceThatIsBetterThanTheOthersIsSeen) {
  const ConfidenceTerms terms;
  DraftSkill good, bad;
  for (int i = 0; i < 200; ++i) {
    learn_skill(confident_chance(terms, 0.5f, good.offset), 0.7f, 1, &good);
    learn_skill(confident_chance(terms, 0.5f, bad.offset), 0.1f, 1, &bad);
  }
  EXPECT_NEAR(confident_chance(terms, 0.5f, good.offset), 0.7f, 0.15f);
  EXPECT_NEAR(confident_chance(terms, 0.5f, bad.offset), 0.1f, 0.15f);
}

// What is expected of stops, against drafts that end by them.
TEST(Confidence, ExpectsOfStopsWhatDraftsBring) {
  Draft draft{{.bias = -0.3f, .slope = 0.8f}};
  ConfidenceState state;
  state.model = draft.terms;
  std::vector<float> confidences(ExpectedStops::kMaxLen);
  const auto fill = [&] {
    std::generate(confidences.begin(), confidences.end(), [&] { return draft.next_confidence(); });
  };
  for (int i = 0; i < 3000; ++i) {
    fill();
    learn_confidences(confidences, &state);
  }
  const ExpectedStops expected = expected_stops(state, 0);
  for (const int level : {5, 10, 15}) {
    const DraftStop stop{.min_survival = stop_level(level), .model = draft.terms};
    double n_kept = 0, n_accepted = 0, n_expected = 0, n_expected_accepted = 0;
    constexpr int kDrafts = 4000;
    for (int i = 0; i < kDrafts; ++i) {
      fill();
      int n_looked_at = 0;
      float survival = 1;
      for (int j = 0; j < drafted_len(stop, confidences, &n_looked_at); ++j) {
        survival *= draft.chance(confidences[static_cast<size_t>(j)]);
        n_kept += 1.0 / kDrafts;
        n_accepted += survival / kDrafts;
      }
    }
    for (int j = 0; j < ExpectedStops::kMaxLen; ++j) {
      n_expected += expected.n_kept[level][j];
      n_expected_accepted += expected.n_accepted[level][j];
    }
    EXPECT_NEAR(n_expected, n_kept, 0.15 * n_kept + 0.02) << "level " << level;
    EXPECT_NEAR(n_expected_accepted, n_accepted, 0.15 * n_accepted + 0.02) << "level " << level;
  }
}

TEST(Confidence, DraftsThatTellNoneAreExpectedWhole) {
  ConfidenceState state;
  state.model = {.bias = 2.0f, .slope = 1.0f};  // 0.88
  const std::vector<float> unknown(8, kUnknownConfidence);
  for (int i = 0; i < 3000; ++i) learn_confidences(unknown, &state);
  const ExpectedStops expected = expected_stops(state, 0);
  EXPECT_NEAR(expected.n_kept[nearest_stop_level(0.5f)][3], 1, 0.05);
  EXPECT_NEAR(expected.n_accepted[nearest_stop_level(0.5f)][3], std::pow(sigmoid(2.0f), 4), 0.08);
  EXPECT_NEAR(expected.n_kept[nearest_stop_level(0.9f)][3], 0, 0.05);
}

TEST(Confidence, LevelsAreFound) {
  EXPECT_FLOAT_EQ(stop_level(nearest_stop_level(0.2f)), 0.2f);
  EXPECT_EQ(nearest_stop_level(1.0f), 0);
  EXPECT_EQ(nearest_stop_level(0.0f), ExpectedStops::kLevels - 1);
}

}  // namespace
}  // namespace bass
