#include "kernels/sampling/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace bass {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

const cpu::Kernels& kernels() { return *cpu::select_kernels().value(); }

// What every processor may do to a row, the plain way: double precision and a sort of the whole vocabulary.
std::vector<double> naive_distribution(const std::vector<float>& logits, const SamplingParams& params,
                                       const TokenHistory& history) {
  const size_t n = logits.size();
  std::vector<double> z(logits.begin(), logits.end());
  std::map<TokenId, int> generated;
  std::set<TokenId> seen(history.prompt.begin(), history.prompt.end());
  for (const auto& part : {history.output, history.drafted}) {
    for (const TokenId id : part) ++generated[id], seen.insert(id);
  }
  for (const TokenId id : seen) {
    double& value = z[static_cast<size_t>(id)];
    value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
  }
  for (const auto& [id, count] : generated) {
    z[static_cast<size_t>(id)] -= params.presence_penalty + static_cast<double>(params.frequency_penalty) * count;
  }
  for (int i = 0; i < params.n_bias; ++i) z[static_cast<size_t>(params.bias[i].id)] += params.bias[i].bias;
  const bool is_early = static_cast<int>(history.drafted.size()) < params.n_early;
  for (int i = 0; i < params.n_banned; ++i) {
    if (is_early || i < params.n_banned - params.n_banned_early) z[static_cast<size_t>(params.banned[i])] = -kInf;
  }

  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
  std::vector<double> p(n, 0.0);
  if (params.is_greedy()) {
    p[order[0]] = 1;
    return p;
  }
  std::vector<double> mass;
  for (const size_t i : order) mass.push_back(std::exp((z[i] - z[order[0]]) / params.temperature));
  size_t n_kept = n;
  if (params.top_k > 0) n_kept = std::min(n_kept, static_cast<size_t>(params.top_k));
  if (params.top_p < 1) {
    double total = 0, front = 0;
    for (size_t i = 0; i < n_kept; ++i) total += mass[i];
    for (size_t i = 0; i < n_kept; ++i) {
      front += mass[i];
      if (front >= params.top_p * total) n_kept = i + 1;
    }
  }
  while (n_kept > 1 && mass[n_kept - 1] < params.min_p) --n_kept;
  double total = 0;
  for (size_t i = 0; i < n_kept; ++i) total += mass[i];
  for (size_t i = 0; i < n_kept; ++i) p[order[i]] = mass[i] / total;
  return p;
}

void expect_distribution(const std::vector<float>& logits, const SamplingParams& params, const TokenHistory& history,
                         const std::string& where) {
  const auto n = static_cast<int>(logits.size());
  RowSampler sampler(&kernels(), n);
  const RowDistribution row = sampler.build(logits.data(), n, params, history, Normalise::kYes);
  const std::vector<double> expected = naive_distribution(logits, params, history);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double p = probability(row, static_cast<TokenId>(i));
    ASSERT_NEAR(p, expected[i], 1e-6 + 1e-5 * expected[i]) << where << " token " << i;
    ASSERT_EQ(p > 0, expected[i] > 1e-30) << where << " token " << i;
  }
  // A row that is not normalised has the same tokens; so has a second call with the same scratch.
  const std::vector<float> z(row.z, row.z + n);
  const RowDistribution again = sampler.build(logits.data(), n, params, history, Normalise::kNo);
  EXPECT_EQ(again.argmax, row.argmax) << where;
  if (row.is_one_hot) return;
  for (int i = 0; i < n; ++i) {
    ASSERT_EQ(again.kept.contains(again.z[i], i), row.kept.contains(z[static_cast<size_t>(i)], i)) << where;
  }
}

// Logits a quarter apart, so that ties are common and roundings cannot move a cut.
std::vector<float> coarse_logits(std::mt19937& random, size_t n) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = std::round(normal(random) * 4) / 4;
  return logits;
}

TEST(RowDistribution, EqualsTheNaiveProcessorsInEveryCombination) {
  std::mt19937 random(11);
  const std::vector<TokenId> prompt{1, 2, 2, 5, 9}, output{2, 7, 7, 7, 3}, drafted{7, 4};
  const std::vector<LogitBias> bias{{0, 2.0f}, {3, -1.5f}, {3, -1.0f}, {8, 4.0f}};
  const std::vector<TokenId> banned{6, 8};
  int n_rows = 0;
  for (const size_t n : {size_t{12}, size_t{61}, size_t{700}}) {
    for (int combination = 0; combination < 256; ++combination) {
      const auto on = [&](int bit) { return (combination >> bit & 1) != 0; };
      SamplingParams params;
      params.temperature = on(0) ? 0.75f : 1.0f;
      if (combination % 37 == 0) params.temperature = 0;
      params.top_k = on(1) ? static_cast<int>(1 + random() % n) : 0;
      params.top_p = on(2) ? 0.0437f + 0.95f * static_cast<float>(random() % 1000) / 1000 : 1.0f;
      params.min_p = on(3) ? 0.0517f : 0.0f;
      params.repetition_penalty = on(4) ? 1.25f : 1.0f;
      params.presence_penalty = on(5) ? 0.5f : 0.0f;
      params.frequency_penalty = on(5) ? 0.25f : 0.0f;
      if (on(6)) params.bias = bias.data(), params.n_bias = static_cast<int>(bias.size());
      if (on(7)) params.banned = banned.data(), params.n_banned = static_cast<int>(banned.size());
      if (on(7)) params.n_banned_early = combination % 3, params.n_early = combination % 5;  // 2 tokens are drafted
      expect_distribution(coarse_logits(random, n), params, {prompt, output, drafted},
                          "n " + std::to_string(n) + " combination " + std::to_string(combination));
      ++n_rows;
    }
  }
  EXPECT_EQ(n_rows, 768);
}

TEST(RowDistribution, FlatAndPeakedRowsAreCutExactly) {
  std::mt19937 random(12);
  for (const float spread : {0.0f, 0.001f, 0.25f, 1.0f, 20.0f, 300.0f}) {
    for (const int top_k : {0, 1, 5, 4000, 5000, 6000}) {
      for (const float top_p : {1e-6f, 0.3137f, 0.9f, 0.99999f, 1.0f}) {
        std::uniform_real_distribution<float> uniform(-spread, spread);
        std::vector<float> logits(5000);
        for (float& logit : logits) logit = std::round(uniform(random) * 1024) / 1024;
        SamplingParams params;
        params.top_k = top_k;
        params.top_p = top_p;
        const std::vector<double> expected = naive_distribution(logits, params, {});
        RowSampler sampler(&kernels(), 5000);
        const RowDistribution row = sampler.build(logits.data(), 5000, params, {}, Normalise::kYes);
        // The mass of the whole row is summed in float32, so the cut may be one group of roundings away.
        double missed = 0;
        for (int i = 0; i < 5000; ++i) missed += std::abs(probability(row, i) - expected[static_cast<size_t>(i)]);
        EXPECT_LT(missed, 5e-4) << spread << " " << top_k << " " << top_p;
      }
    }
  }
}

TEST(RowDistribution, BoundariesOfTheCuts) {
  const std::vector<float> logits{1.0f, 3.0f, 3.0f, 2.0f, 3.0f, -kInf};
  RowSampler sampler(&kernels(), 6);
  const auto kept_ids = [&](auto set) {
    SamplingParams params;
    set(params);
    const RowDistribution row = sampler.build(logits.data(), 6, params, {}, Normalise::kYes);
    std::vector<int> ids;
    for (int i = 0; i < 6; ++i) {
      if (probability(row, i) > 0) ids.push_back(i);
    }
    return ids;
  };
  using Ids = std::vector<int>;
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 1; }), (Ids{1}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 2; }), (Ids{1, 2}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 4; }), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 6; }), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 1000; }), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_p = 1e-9f; }), (Ids{1}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.min_p = 1.0f; }), (Ids{1, 2, 4}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.min_p = 0.3f; }), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 2, p.min_p = 0.3f; }), (Ids{1, 2}));
  // Top-k first: of the two that are left each has half of the mass.
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 2, p.top_p = 0.5f; }), (Ids{1}));
  EXPECT_EQ(kept_ids([](SamplingParams& p) { p.top_k = 2, p.top_p = 0.51f; }), (Ids{1, 2}));
}

TEST(RowDistribution, EarlyBansEndBehindAsManyDraftedTokens) {
  const std::vector<float> logits{1, 2, 3, 4};
  const std::vector<TokenId> banned{2, 3}, drafted{0, 0, 0};
  SamplingParams params;
  params.temperature = 0;
  params.banned = banned.data();
  params.n_banned = 2;
  params.n_banned_early = 1;
  RowSampler sampler(&kernels(), 4);
  const auto likeliest = [&](size_t n_drafted) {
    const TokenHistory history{{}, {}, std::span(drafted).first(n_drafted)};
    return sample(kernels(), sampler.build(logits.data(), 4, params, history, Normalise::kYes), {});
  };
  EXPECT_EQ(likeliest(0), 3) << "none of the step's tokens is early";
  params.n_early = 2;
  EXPECT_EQ(likeliest(0), 1);
  EXPECT_EQ(likeliest(1), 1);
  EXPECT_EQ(likeliest(2), 3);
  params.n_banned_early = 2;
  params.n_early = 0;
  EXPECT_FALSE(params.edits_logits()) << "rows behind the early ones are read as they are";
}

TEST(RowDistribution, WithoutProcessorsNothingIsCopied) {
  const std::vector<float> logits{0.5f, 2.0f, 1.0f};
  RowSampler sampler(&kernels(), 3);
  EXPECT_EQ(sampler.build(logits.data(), 3, {}, {}, Normalise::kYes).z, logits.data());
  SamplingParams truncated;
  truncated.top_k = 2;
  truncated.top_p = 0.9f;
  EXPECT_EQ(sampler.build(logits.data(), 3, truncated, {}, Normalise::kYes).z, logits.data());
  SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(sampler.build(logits.data(), 3, greedy, {}, Normalise::kYes).z, logits.data());
}

TEST(RowDistribution, GreedyTakesTheLowestOfEqualOnes) {
  const std::vector<float> logits{0.5f, 2.0f, 1.0f, 2.0f};
  RowSampler sampler(&kernels(), 4);
  SamplingParams params;
  params.temperature = 0;
  const RowDistribution row = sampler.build(logits.data(), 4, params, {}, Normalise::kNo);
  EXPECT_EQ(sample(kernels(), row, {}), 1);
  EXPECT_EQ(probability(row, 1), 1);
  EXPECT_EQ(probability(row, 3), 0);
  EXPECT_EQ(probability(row, 4), 0);
  EXPECT_EQ(probability(row, -1), 0);
}

TEST(RowDistribution, RawLogprobIsBeforeTheProcessors) {
  const std::vector<float> logits{0.5f, 2.0f, 1.0f};
  const std::vector<TokenId> banned{1};
  RowSampler sampler(&kernels(), 3);
  SamplingParams params;
  params.temperature = 0.3f;
  params.banned = banned.data();
  params.n_banned = 1;
  const RowDistribution row = sampler.build(logits.data(), 3, params, {}, Normalise::kYes);
  const double lse = std::log(std::exp(0.5) + std::exp(2.0) + std::exp(1.0));
  EXPECT_NEAR(raw_logprob(logits.data(), row, 2), 1.0 - lse, 1e-6);
  EXPECT_NEAR(raw_logprob(logits.data(), row, 1), 2.0 - lse, 1e-6);
}

// A mask of what a grammar allows does what a list of banned tokens does, to the bit, also to rows of a part of the
// vocabulary.
TEST(RowDistribution, AMaskOfAllowedTokensBansTheOthers) {
  std::mt19937 random(11);
  constexpr int kVocab = 203;
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < kVocab; id += 1 + id % 3) ids.push_back(id);
  for (int i = 0; i < 60; ++i) {
    const bool is_part = i % 2 != 0;
    const auto n = is_part ? static_cast<int>(ids.size()) : kVocab;
    std::vector<float> logits(static_cast<size_t>(n));
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100;
    std::vector<uint32_t> allowed((kVocab + 31) / 32);
    for (uint32_t& word : allowed) word = i % 5 == 0 ? random() : i % 5 == 1 ? ~0u : random() % 2 == 0 ? 0u : random();
    std::vector<TokenId> banned;
    for (TokenId id = 0; id < kVocab; ++id) {
      if ((allowed[static_cast<size_t>(id / 32)] >> (id % 32) & 1u) == 0) banned.push_back(id);
    }
    SamplingParams params;
    params.temperature = i % 3 == 0 ? 0.0f : 0.7f;
    if (i % 4 == 0) params.top_p = 0.8f;
    SamplingParams with_list = params;
    with_list.banned = banned.data();
    with_list.n_banned = static_cast<int>(banned.size());
    TokenHistory history;
    history.allowed = allowed.data();
    ProposableTokens tokens;
    if (is_part) tokens = {ids, ids.size()};
    RowSampler masked(&kernels(), kVocab), listed(&kernels(), kVocab);
    const RowDistribution a = masked.build(logits.data(), n, params, history, Normalise::kYes, tokens);
    const RowDistribution b = listed.build(logits.data(), n, with_list, {}, Normalise::kYes, tokens);
    ASSERT_EQ(a.is_degenerate, b.is_degenerate);
    ASSERT_EQ(a.argmax, b.argmax);
    if (a.is_degenerate) continue;
    for (TokenId id = 0; id < kVocab; ++id) ASSERT_EQ(probability(a, id), probability(b, id)) << i << " " << id;
    const RowDistribution again = masked.restore(a, logits.data(), params, history);
    for (int at = 0; at < n && !a.is_one_hot; ++at) ASSERT_EQ(again.z[at], b.z[at]);
  }
}

TEST(RowDistribution, UnusableRowsAreSaidSoAndDoNotCrash) {
  const std::vector<TokenId> all{0, 1, 2, 3}, some{0, 1};
  RowSampler sampler(&kernels(), 4);
  const auto build = [&](const std::vector<float>& logits, const std::vector<TokenId>& banned, float temperature) {
    SamplingParams params;
    params.temperature = temperature;
    params.top_k = 3;
    params.top_p = 0.9f;
    params.banned = banned.data();
    params.n_banned = static_cast<int>(banned.size());
    return sampler.build(logits.data(), 4, params, {}, Normalise::kYes);
  };
  for (const float temperature : {0.0f, 0.7f, 1.0f}) {
    for (const std::vector<float>& logits :
         {std::vector<float>{1, kNan, 2, 3}, {kNan, kNan, kNan, kNan}, {1, kInf, 0, 0}, {-kInf, -kInf, -kInf, -kInf}}) {
      const RowDistribution row = build(logits, some, temperature);
      EXPECT_TRUE(row.is_degenerate);
      EXPECT_EQ(sample(kernels(), row, {}), 2);  // the lowest that is not banned
      EXPECT_EQ(sample(kernels(), build(logits, {}, temperature), {}), 0);
    }
    const RowDistribution nothing_left = build({1, 2, 3, 4}, all, temperature);
    EXPECT_TRUE(nothing_left.is_degenerate);
    EXPECT_EQ(sample(kernels(), nothing_left, {}), 0);
    EXPECT_FALSE(build({1, 2, 3, 4}, some, temperature).is_degenerate);
    EXPECT_FALSE(build({1, -kInf, 3, 4}, some, temperature).is_degenerate);
  }
}

TEST(RowDistribution, HistoryOutsideOfASmallerVocabularyIsIgnored) {
  const std::vector<float> logits{0.5f, 2.0f, 1.0f};
  const std::vector<TokenId> prompt{1, 50}, output{99, 3, 2};
  RowSampler sampler(&kernels(), 3);
  SamplingParams params;
  params.repetition_penalty = 2;
  params.frequency_penalty = 1;
  const RowDistribution row = sampler.build(logits.data(), 3, params, {prompt, output, {}}, Normalise::kNo);
  EXPECT_EQ(row.z[0], 0.5f);
  EXPECT_EQ(row.z[1], 1.0f);
  EXPECT_EQ(row.z[2], -0.5f);
}

TEST(RowDistribution, WithoutTokenDrawsTheOthers) {
  const std::vector<float> logits{0.0f, 9.0f, 0.0f};
  RowSampler sampler(&kernels(), 3);
  const RowDistribution row = sampler.build(logits.data(), 3, {}, {}, Normalise::kYes);
  const RowDistribution rest = sampler.without_token(row, 1);
  for (uint32_t position = 0; position < 50; ++position) {
    EXPECT_NE(sample(kernels(), rest, {1, position, 0, RandomPurpose::kResidual, 0}), 1);
  }
  EXPECT_EQ(logits[1], 9.0f);
}

}  // namespace
}  // namespace bass
