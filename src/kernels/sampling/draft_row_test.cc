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

// A row of chosen tokens against the row of all tokens in which the others are impossible.
TEST(DraftRow, AChosenVocabularyIsAWholeOneWithoutTheOthers) {
  constexpr int kVocab = 3000;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<TokenId> ids;
  std::vector<float> logits, whole(kVocab, -kInf);
  for (TokenId id = 2; id < kVocab; id += 1 + static_cast<TokenId>(random() % 5)) ids.push_back(id);
  const size_t n_vocabulary = ids.size();
  for (size_t i = 1; i < n_vocabulary; i += 7) {  // tokens beside them
    if (ids[i - 1] + 1 < ids[i]) ids.push_back(ids[i - 1] + 1);
  }
  const ProposableTokens tokens{ids, n_vocabulary};
  for (const TokenId id : ids) {
    logits.push_back(normal(random));
    whole[static_cast<size_t>(id)] = logits.back();
  }
  const auto n = static_cast<int>(ids.size());
  ASSERT_GT(ids.size(), n_vocabulary + 20);
  const std::vector<TokenId> prompt{ids[5], 1, ids[n_vocabulary + 3]}, output{ids[7], ids[5], ids[7]};
  const std::vector<LogitBias> bias{{ids[9], 4.0f}, {1, 30.0f}};
  const std::vector<TokenId> banned{0, ids[3], ids[n_vocabulary + 11]};
  RowSampler sampler(&kernels(), kVocab), whole_sampler(&kernels(), kVocab);
  std::vector<uint16_t> stored(ids.size()), whole_stored(kVocab);
  for (int trial = 0; trial < 24; ++trial) {
    SamplingParams params;
    params.temperature = trial % 4 == 0 ? 0.0f : 0.5f + 0.5f * static_cast<float>(trial % 3);
    if (trial % 3 == 1) params.top_k = 20;
    if (trial % 3 == 2) params.top_p = 0.8f;
    if (trial >= 12) {
      params.repetition_penalty = 1.5f, params.presence_penalty = 1.0f;
      params.bias = bias.data(), params.n_bias = 2, params.banned = banned.data(), params.n_banned = 3;
      whole[1] = -kInf;
    }
    const TokenHistory history{prompt, output, {}};
    const RowDistribution q = store_draft_row(
        sampler, sampler.build(logits.data(), n, params, history, Normalise::kNo, tokens), stored.data());
    const RowDistribution whole_q = store_draft_row(
        whole_sampler, whole_sampler.build(whole.data(), kVocab, params, history, Normalise::kNo), whole_stored.data());
    for (uint32_t i = 0; i < 50; ++i) {
      const RandomStream stream{7, i, 3, RandomPurpose::kDraft, 1};
      EXPECT_EQ(sample(kernels(), q, stream), sample(kernels(), whole_q, stream)) << trial;
    }
    const RowDistribution loaded = load_draft_row(sampler, stored.data(), kVocab, tokens);
    const RowDistribution expected = load_draft_row(whole_sampler, whole_stored.data(), kVocab);
    const RowDistribution spread = spread_draft_row(sampler, loaded, kVocab);
    EXPECT_EQ(spread.argmax, expected.argmax) << trial;
    EXPECT_EQ(loaded.token(loaded.argmax), expected.argmax) << trial;
    for (TokenId id = 0; id < kVocab; ++id) {
      ASSERT_EQ(spread.z[id], expected.z[id]) << trial;
      ASSERT_NEAR(probability(loaded, id), probability(expected, id), 1e-6) << trial;
    }
  }
}

TEST(DraftRow, ARowOfChosenTokensThatIsNoNumberFallsBackToOneOfThem) {
  const std::vector<TokenId> ids{3, 4, 17};
  const std::vector<TokenId> banned{0, 3};
  RowSampler sampler(&kernels(), 20);
  SamplingParams params;
  params.banned = banned.data(), params.n_banned = 2;
  const std::vector<float> nans(3, std::numeric_limits<float>::quiet_NaN());
  const RowDistribution row = sampler.build(nans.data(), 3, params, {}, Normalise::kNo, {ids, ids.size()});
  EXPECT_TRUE(row.is_degenerate);
  EXPECT_EQ(sample(kernels(), row, {}), 4);
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
