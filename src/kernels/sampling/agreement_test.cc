#include "kernels/sampling/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/sampling/chi_square.h"
#include "kernels/sampling/verify.h"

namespace bass::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

const cpu::Kernels& kernels() { return *cpu::select_kernels().value(); }

std::vector<float> random_logits(int n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<double> probabilities_of(RowSampler& sampler, const std::vector<float>& logits,
                                     const SamplingParams& params) {
  const auto n = static_cast<int>(logits.size());
  const RowDistribution row = sampler.build(logits.data(), n, params, {}, Normalise::kYes);
  std::vector<double> probabilities;
  for (TokenId id = 0; id < n; ++id) probabilities.push_back(probability(row, id));
  return probabilities;
}

// By the definition.
double chance_by_force(const std::vector<double>& p, const std::vector<double>& q) {
  double chance = 0;
  for (size_t x = 0; x < p.size(); ++x) {
    if (p[x] == 0 || q[x] == 0) continue;
    double sum = 0;
    for (size_t y = 0; y < p.size(); ++y) sum += std::max(p[y] / p[x], q[y] / q[x]);
    chance += 1 / sum;
  }
  return chance;
}

double overlap_by_force(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t x = 0; x < p.size(); ++x) sum += std::min(p[x], q[x]);
  return sum;
}

struct Rows {
  std::vector<float> main;
  std::vector<float> draft;
};

// Rows that resemble each other, as those of a draft do.
Rows random_rows(int n, float spread, float difference, uint32_t seed) {
  Rows rows{random_logits(n, spread, seed), {}};
  rows.draft = random_logits(n, difference, seed + 1000);
  for (size_t i = 0; i < rows.draft.size(); ++i) rows.draft[i] += rows.main[i];
  return rows;
}

struct Found {
  AgreementBounds bounds;
  std::vector<LikelyToken> likely;
};

Found find_chance(RowSampler& sampler, const Rows& rows, const SamplingParams& params) {
  Found found;
  found.likely.resize(kMaxLikelyTokens);
  const auto n = static_cast<int>(rows.main.size());
  const RowDistribution q = sampler.build(rows.draft.data(), n, params, {}, Normalise::kNo);
  found.likely.resize(static_cast<size_t>(likely_tokens(sampler, q, rows.draft.data(), found.likely.data())));
  const RowDistribution p = sampler.build(rows.main.data(), n, params, {}, Normalise::kNo);
  found.bounds = agreement_chance(sampler, p, rows.main.data(), found.likely).value();
  return found;
}

// Tokens that both models draw with the same noise, out of n_draws.
int64_t count_agreements(RowSampler& sampler, const Rows& rows, SamplingParams params, uint32_t n_draws) {
  params.rule = VerifyRule::kMatch;
  const auto n = static_cast<int>(rows.main.size());
  int64_t n_equal = 0;
  std::vector<TokenId> drawn(n_draws);
  const RowDistribution q = sampler.build(rows.draft.data(), n, params, {}, Normalise::kNo);
  for (uint32_t i = 0; i < n_draws; ++i) drawn[i] = draft_token(kernels(), q, params, {i, i});
  const RowDistribution p = sampler.build(rows.main.data(), n, params, {}, Normalise::kNo);
  for (uint32_t i = 0; i < n_draws; ++i) {
    n_equal += verify_row(sampler, p, rows.main.data(), params, {i, i}, {drawn[i]}).accepted ? 1 : 0;
  }
  return n_equal;
}

TEST(Agreement, OfTinyRowsIsWhatTheDefinitionGives) {
  SamplingParams params;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const int n = 1 + static_cast<int>(seed % 9);
    params.temperature = seed % 2 == 0 ? 1.0f : 0.7f;
    Rows rows = random_rows(n, 1.0f, 1.0f, seed);
    if (n > 4) rows.main[1] = rows.draft[3] = -kInf;
    RowSampler sampler(&kernels(), n);
    const Found found = find_chance(sampler, rows, params);
    double q_apart = 0;
    for (const LikelyToken& token : found.likely) q_apart += token.q;
    ASSERT_NEAR(q_apart, 1, 0.02) << "no token of so small a vocabulary is unlikely";
    const double chance =
        chance_by_force(probabilities_of(sampler, rows.main, params), probabilities_of(sampler, rows.draft, params));
    EXPECT_NEAR(found.bounds.estimate(), chance, 2 * (1 - q_apart) + 1e-5) << seed;
    EXPECT_LE(found.bounds.low, chance + 1e-5) << seed;
    EXPECT_GE(found.bounds.high, chance - 1e-5) << seed;
  }
}

TEST(Agreement, OfLongRowsLiesBetweenTheBounds) {
  constexpr int kVocab = 3000;
  RowSampler sampler(&kernels(), kVocab);
  for (uint32_t seed = 1; seed <= 48; ++seed) {
    SamplingParams params;
    params.temperature = seed % 3 == 0 ? 1.0f : 0.6f;
    if (seed % 4 == 1) params.top_k = 40;
    if (seed % 4 == 2) params.top_p = 0.9f;
    if (seed % 4 == 3) params.min_p = 0.02f;
    const Rows rows = random_rows(kVocab, 1.0f + static_cast<float>(seed % 5), 1.0f, seed);
    const Found found = find_chance(sampler, rows, params);
    const double chance =
        chance_by_force(probabilities_of(sampler, rows.main, params), probabilities_of(sampler, rows.draft, params));
    double q_rest = 1;
    for (const LikelyToken& token : found.likely) {
      EXPECT_GT(token.q, 0.999 / kMaxLikelyTokens);
      q_rest -= token.q;
    }
    EXPECT_LE(found.bounds.low, chance + 1e-4) << seed;
    EXPECT_GE(found.bounds.high, chance - 1e-4) << seed;
    EXPECT_LE(found.bounds.width(), 2 * q_rest + 1e-4) << seed;
  }
}

// n_draws draws of both with the same noise, as a standard normal number.
TEST(Agreement, IsHowOftenBothDrawTheSameToken) {
  constexpr uint32_t kDraws = 60000;
  bool rejects_overlap = false;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SamplingParams params{.temperature = seed % 2 == 0 ? 1.0f : 0.8f, .seed = seed};
    if (seed > 3) params.top_p = 0.9f;
    const Rows rows = random_rows(12, 1.0f, 1.0f, seed);
    RowSampler sampler(&kernels(), 12);
    const double chance = find_chance(sampler, rows, params).bounds.estimate();
    const auto n_equal = static_cast<double>(count_agreements(sampler, rows, params, kDraws));
    const auto distance = [&](double expected) {
      return std::abs(n_equal - kDraws * expected) / std::sqrt(kDraws * expected * (1 - expected));
    };
    EXPECT_LT(distance(chance), kMayHappen) << seed;
    const double overlap =
        overlap_by_force(probabilities_of(sampler, rows.main, params), probabilities_of(sampler, rows.draft, params));
    rejects_overlap |= distance(overlap) > kMustReject;
  }
  EXPECT_TRUE(rejects_overlap) << "what `rejection` accepts is more";
}

TEST(Agreement, OfACertainDraftIsItsProbability) {
  constexpr int kVocab = 500;
  RowSampler sampler(&kernels(), kVocab);
  const std::vector<float> logits = random_logits(kVocab, 2.0f, 5);
  SamplingParams params{.temperature = 0.8f};
  params.top_k = 50;
  const std::vector<double> expected = probabilities_of(sampler, logits, params);
  const RowDistribution p = sampler.build(logits.data(), kVocab, params, {}, Normalise::kNo);
  int n_impossible = 0;
  for (TokenId id = 0; id < kVocab; ++id) {
    const LikelyToken certain{id, 1.0f};
    const AgreementBounds bounds = agreement_chance(sampler, p, logits.data(), std::span(&certain, 1)).value();
    EXPECT_NEAR(bounds.estimate(), expected[static_cast<size_t>(id)], 1e-5);
    EXPECT_NEAR(bounds.width(), 0, 1e-5);
    n_impossible += bounds.high == 0 ? 1 : 0;
  }
  EXPECT_EQ(n_impossible, kVocab - 50);
}

TEST(Agreement, LikelyTokensAreThoseOfTheDraftsVocabulary) {
  const std::vector<TokenId> ids{4, 7, 9, 30, 2, 50};  // a vocabulary of four, and two beside it
  const ProposableTokens tokens{ids, 4};
  const std::vector<float> logits{1.0f, 0.0f, -20.0f, 2.0f, -kInf, 1.5f};
  SamplingParams params;
  params.top_k = 3;
  RowSampler sampler(&kernels(), 64);
  const RowDistribution q =
      sampler.build(logits.data(), static_cast<int>(logits.size()), params, {}, Normalise::kNo, tokens);
  LikelyToken likely[kMaxLikelyTokens];
  ASSERT_EQ(likely_tokens(sampler, q, logits.data(), likely), 3);
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(1.5);
  const TokenId expected[] = {4, 30, 50};
  const double z[] = {1.0, 2.0, 1.5};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(likely[i].token, expected[i]);
    EXPECT_NEAR(likely[i].q, std::exp(z[i]) / sum, 1e-6);
  }
}

TEST(Agreement, TokensAllAsLikelyAsTheLeastFit) {
  for (const int n : {kMaxLikelyTokens - 1, kMaxLikelyTokens, kMaxLikelyTokens + 1, 5 * kMaxLikelyTokens}) {
    RowSampler sampler(&kernels(), n);
    const Rows rows{std::vector<float>(static_cast<size_t>(n), 0.5f), std::vector<float>(static_cast<size_t>(n), 3.0f)};
    const Found found = find_chance(sampler, rows, {.temperature = 1.0f});
    EXPECT_LE(found.likely.size(), size_t{kMaxLikelyTokens});
    EXPECT_LE(found.bounds.low, 1 + 1e-5);
    EXPECT_NEAR(found.bounds.high, 1, 1e-5) << "equal rows";
  }
}

TEST(Agreement, OfARowThatIsNoDistributionIsUnknown) {
  RowSampler sampler(&kernels(), 8);
  const std::vector<float> broken(8, std::numeric_limits<float>::quiet_NaN());
  const LikelyToken certain{3, 1.0f};
  const RowDistribution p = sampler.build(broken.data(), 8, {.temperature = 1.0f}, {}, Normalise::kNo);
  EXPECT_FALSE(agreement_chance(sampler, p, broken.data(), std::span(&certain, 1)));
  // Its logits are finite, but divided by the temperature they are not.
  const std::vector<float> far{1.0f, 2.0f, 3.0f, 4.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  const RowDistribution hot = sampler.build(far.data(), 8, {.temperature = 1e-39f}, {}, Normalise::kNo);
  EXPECT_FALSE(agreement_chance(sampler, hot, far.data(), std::span(&certain, 1)));
}

}  // namespace
}  // namespace bass::testing
