#include "kernels/sampling/evidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/sampling/verify_testing.h"

namespace bass::testing {
namespace {

constexpr int kVocab = 7;
constexpr int kLen = 4;

// softmax(logits / temperature) in double
std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> row;
  double sum = 0;
  for (const float logit : logits) sum += row.emplace_back(std::exp(logit / temperature));
  for (double& p : row) p /= sum;
  return row;
}

struct Round {
  ToyModel main{kVocab, 1};
  ToyModel draft{kVocab, 2};
  Tokens drafted;                       // [kLen]
  std::vector<DraftEvidence> evidence;  // of the functions
};

// The evidence of a round, from rows as the executor has them.
Round judged_round(const SamplingParams& params, bool is_one_hot, uint64_t seed) {
  Round round;
  round.evidence.reserve(kLen);
  RowSampler sampler(kernels(), kVocab);
  double joint = 1;
  for (int i = 0; i < kLen; ++i) {
    const auto token = static_cast<TokenId>(philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, seed)[0] % kVocab);
    const std::vector<float> logits = round.main.logits(round.drafted);
    const std::vector<float> draft_logits = round.draft.logits(round.drafted);
    std::vector<uint16_t> stored(kVocab);
    store_draft_row(sampler, sampler.build(draft_logits.data(), kVocab, params, {}, Normalise::kNo), stored.data());
    const RowDistribution q = load_draft_row(sampler, stored.data(), kVocab);
    const RowDistribution p = sampler.build(logits.data(), kVocab, params, {}, normalise_for_verification(params));
    const TokenId regular = regular_row(sampler, p, logits.data(), params, static_cast<uint32_t>(9 + i)).token;
    add_evidence(sampler, p, params, {token, is_one_hot ? nullptr : &q}, regular, &joint, &round.evidence);
    round.drafted.push_back(token);
  }
  return round;
}

TEST(Evidence, IsWhatTheWholeRowsGive) {
  SamplingParams params{.temperature = 0.8f, .rule = VerifyRule::kRejection};
  constexpr double kTolerance = 1e-3;  // q is stored as f16
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool is_one_hot : {false, true}) {
      const Round round = judged_round(params, is_one_hot, seed);
      double joint = 1;
      Tokens prefix;
      for (size_t i = 0; i < kLen; ++i) {
        const auto x = static_cast<size_t>(round.drafted[i]);
        const std::vector<double> p = softmax(round.main.logits(prefix), params.temperature);
        std::vector<double> q = softmax(round.draft.logits(prefix), params.temperature);
        if (is_one_hot) {
          q.assign(kVocab, 0);
          q[x] = 1;
        }
        double overlap = 0, residual = 0;
        for (size_t y = 0; y < kVocab; ++y) {
          overlap += std::min(p[y], q[y]);
          residual += std::max(joint * p[y] - q[y], 0.0);
        }
        EXPECT_NEAR(round.evidence[i].p, p[x], 1e-5);
        EXPECT_NEAR(round.evidence[i].q, q[x], kTolerance);
        EXPECT_NEAR(round.evidence[i].overlap, overlap, kTolerance);
        if (i > 0) {
          EXPECT_NEAR(round.evidence[i - 1].block, block_acceptance(joint, residual), 5 * kTolerance);
        }
        joint = next_joint(joint, p[x], q[x]);
        prefix.push_back(round.drafted[i]);
      }
      EXPECT_NEAR(round.evidence.back().block, joint, 5 * kTolerance) << "nothing follows: h_l = p_l";
    }
  }
}

TEST(Evidence, OfComparedTokensIsWhetherTheyAreEqual) {
  for (const SamplingParams& params : {SamplingParams{.temperature = 0.0f, .rule = VerifyRule::kMatch},
                                       SamplingParams{.temperature = 0.8f, .rule = VerifyRule::kMatch}}) {
    int n_equal = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      double joint = 1;
      for (const DraftEvidence& draft : judged_round(params, false, seed).evidence) {
        EXPECT_TRUE(draft.p == 0 || draft.p == 1);
        EXPECT_EQ(draft.q, 1);
        EXPECT_EQ(draft.overlap, draft.p);
        EXPECT_EQ(draft.block, joint *= draft.p);
        n_equal += static_cast<int>(draft.p);
      }
    }
    EXPECT_GT(n_equal, 0);
  }
}

}  // namespace
}  // namespace bass::testing
