#include "kernels/sampling/draft_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tensor/dtype.h"

namespace bass {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

const cpu::Kernels& kernels() { return *cpu::select_kernels().value(); }

TEST(DraftRow, RoundsAsF16AndExpandsToTheSameBits) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-20.0f, 17.0f);
  for (const int n : {1, 5, 16, 17, 31, 64, 1000}) {
    std::vector<float> logits(static_cast<size_t>(n));
    for (float& logit : logits) logit = 3.0f - std::exp2(exponent(random));
    logits[0] = 3.0f;
    if (n > 20) logits[19] = -kInf, logits[18] = std::numeric_limits<float>::quiet_NaN(), logits[17] = -1e30f;
    std::vector<float> rounded = logits;
    std::vector<uint16_t> stored(logits.size());
    round_draft_logits_f16(rounded.data(), n, 3.0f, stored.data());
    std::vector<float> expanded(logits.size());
    expand_f16(stored.data(), n, expanded.data());
    for (size_t i = 0; i < logits.size(); ++i) {
      const float difference = logits[i] - 3.0f;
      float expected = std::isnan(difference) ? -kInf : f16_to_f32(f32_to_f16(difference));
      if (std::abs(difference) < 0x1p-14f) expected = 0;
      EXPECT_EQ(rounded[i], expected) << difference;
      EXPECT_EQ(expanded[i], rounded[i]);
      EXPECT_EQ(f16_to_f32(stored[i]), rounded[i]);
    }
  }
}

TEST(DraftRow, AChosenVocabularyHasAllTheProbability) {
  const std::vector<int32_t> ids{3, 4, 17, 250, 299};
  const std::vector<float> logits{1.0f, -kInf, 2.5f, 0.0f, 2.5f};
  RowSampler sampler(&kernels(), 300);
  std::vector<uint16_t> stored(300);
  for (const float temperature : {0.0f, 1.0f, 0.7f}) {
    SamplingParams params;
    params.temperature = temperature;
    const float* row = spread_draft_logits(sampler, logits.data(), {ids, {}}, 300);
    const RowDistribution q = sampler.build(row, 300, params, {}, Normalise::kYes);
    const RowDistribution drafted = store_draft_row(sampler, q, stored.data());
    EXPECT_EQ(drafted.argmax, 17) << "the lowest id of equal ones";
    const RowDistribution loaded = load_draft_row(sampler, stored.data(), 300);
    double sum = 0, expected_sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      sum += probability(loaded, ids[i]);
      expected_sum += temperature > 0 ? std::exp(logits[i] / temperature) : 0;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    if (temperature == 0) continue;
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_NEAR(probability(loaded, ids[i]), std::exp(logits[i] / temperature) / expected_sum, 1e-3);
    }
  }
}

TEST(DraftRow, TokensBesideTheVocabularyAreLikeThoseInIt) {
  const std::vector<int32_t> ids{3, 4, 17, 250, 299};
  const std::vector<int32_t> more{0, 16, 270};
  RowSampler sampler(&kernels(), 300);
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits(ids.size() + more.size());
    for (float& logit : logits) logit = static_cast<float>(random() % 4);  // equal ones are frequent
    const float* row = spread_draft_logits(sampler, logits.data(), {ids, more}, 300);
    for (size_t k = 0; k < ids.size(); ++k) EXPECT_EQ(row[ids[k]], logits[k]);
    for (size_t k = 0; k < more.size(); ++k) EXPECT_EQ(row[more[k]], logits[ids.size() + k]);
    EXPECT_EQ(std::count(row, row + 300, -kInf), 300 - 8);
    const TokenId best = kernels().row_stats(row, 300).argmax;
    EXPECT_EQ(likeliest_draft_token(kernels(), logits.data(), {ids, more}), best);
  }
}

TEST(DraftRow, TheStoredDistributionIsTheOneThatIsSampled) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(1.0f, 2.0f);
  std::vector<float> logits(300);
  for (float& logit : logits) logit = normal(random);
  SamplingParams params;
  params.temperature = 0.8f;
  params.top_k = 40;
  params.top_p = 0.95f;
  RowSampler sampler(&kernels(), 300);
  const RowDistribution exact = sampler.build(logits.data(), 300, params, {}, Normalise::kYes);
  std::vector<double> exact_p;
  for (int i = 0; i < 300; ++i) exact_p.push_back(probability(exact, i));
  std::vector<uint16_t> stored(300);
  const RowDistribution drafted = store_draft_row(sampler, exact, stored.data());
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < 200; ++i) tokens.push_back(sample(kernels(), drafted, {5, i, 0, RandomPurpose::kDraft, 0}));

  const RowDistribution loaded = load_draft_row(sampler, stored.data(), 300);
  double sum = 0;
  for (int i = 0; i < 300; ++i) {
    const double p = probability(loaded, i);
    sum += p;
    EXPECT_EQ(p > 0, exact_p[static_cast<size_t>(i)] > 0);
    EXPECT_NEAR(p, exact_p[static_cast<size_t>(i)], 0.01 * p);
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  for (uint32_t i = 0; i < 200; ++i) {
    EXPECT_EQ(sample(kernels(), loaded, {5, i, 0, RandomPurpose::kDraft, 0}), tokens[i]);
  }
}

TEST(DraftRow, OneHotRowsStayOneHot) {
  const std::vector<float> logits{1, 5, 2};
  SamplingParams greedy;
  greedy.temperature = 0;
  RowSampler sampler(&kernels(), 3);
  std::vector<uint16_t> stored(3);
  const RowDistribution row = sampler.build(logits.data(), 3, greedy, {}, Normalise::kYes);
  EXPECT_EQ(sample(kernels(), store_draft_row(sampler, row, stored.data()), {}), 1);
  const RowDistribution loaded = load_draft_row(sampler, stored.data(), 3);
  EXPECT_EQ(probability(loaded, 0), 0);
  EXPECT_EQ(probability(loaded, 1), 1);
}

}  // namespace
}  // namespace bass
