// Log-probabilities of fixed texts, and how far one engine's are from another's.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/engine_run.h"

namespace bass::testing {

/// Fixed texts whose tokens' log-probabilities are wanted.
inline std::vector<Request> texts_to_score(int vocab_size) {
  std::vector<Request> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int t = 0; t < 30 + 20 * static_cast<int>(i); ++t) {
      requests[i].prompt_tokens.push_back((t * t * 7 + static_cast<int>(i) * 31 + t % 4) % vocab_size);
    }
    requests[i].max_tokens = 0;
    requests[i].prompt_logprobs = true;
  }
  return requests;
}

struct Scores {
  std::vector<float> logprobs;
  std::vector<TokenId> best;
};

inline Scores score(const EngineOptions& options, int vocab_size) {
  Scores scores;
  const auto engine = load_engine(options);
  if (engine == nullptr) return scores;
  for (const RequestResult& result : run_all(*engine, texts_to_score(vocab_size))) {
    const Event& prompt = result.prompt;
    scores.logprobs.insert(scores.logprobs.end(), prompt.prompt_logprobs.begin(), prompt.prompt_logprobs.end());
    scores.best.insert(scores.best.end(), prompt.prompt_argmax.begin(), prompt.prompt_argmax.end());
  }
  return scores;
}

struct ScoreDistance {
  double mean = NAN;
  double largest = NAN;
  double other_best = NAN;  // share of the places whose most probable token is another
};

inline ScoreDistance distance_of(const Scores& found, const Scores& expected) {
  EXPECT_EQ(found.logprobs.size(), expected.logprobs.size());
  EXPECT_GT(found.logprobs.size(), 100u);
  const size_t n = std::min(found.logprobs.size(), expected.logprobs.size());
  ScoreDistance distance{0, 0, 0};
  for (size_t i = 0; i < n; ++i) {
    const double difference = std::abs(static_cast<double>(found.logprobs[i]) - expected.logprobs[i]);
    if (!(difference <= distance.largest)) distance.largest = difference;  // what is not a number, too
    distance.mean += difference / static_cast<double>(n);
    distance.other_best += found.best[i] != expected.best[i] ? 1 / static_cast<double>(n) : 0;
  }
  return distance;
}

}  // namespace bass::testing
