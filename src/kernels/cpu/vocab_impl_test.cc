// The vocabulary functions of every instruction set that this machine has.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/sampling/chi_square.h"

// The inner functions, whose lanes are looked at one by one.
#define BASS_SIMD_NAMESPACE vocab_impl_test
// clang-format off
#include "kernels/cpu/simd_scalar.h"
#include "kernels/cpu/math_impl.h"
#include "kernels/cpu/vocab_impl.h"
// clang-format on

namespace bass::cpu {
namespace {

using testing::chi_square_z;
using testing::kMayHappen;
using testing::kMustReject;
namespace simd = vocab_impl_test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr KeptSet kAll{};

std::vector<const Kernels*> all_kernels() {
  std::array<const Kernels*, 8> tables{};
  const int n = available_kernels(tables.data(), static_cast<int>(tables.size()));
  return {tables.begin(), tables.begin() + n};
}

std::vector<int> all_sizes() {
  std::vector<int> sizes;
  for (int n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const int n : {127, 128, 129, 191, 1000, 49152}) sizes.push_back(n);
  return sizes;
}

std::vector<float> random_logits(std::mt19937& random, int n, float spread) {
  std::normal_distribution<float> normal(3.0f, spread);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

simd::I32x16 bits(uint32_t x) { return simd::broadcast_i32(static_cast<int32_t>(x)); }
float exponential(uint32_t x) { return simd::first_lane(simd::exponential_of(bits(x))); }
float gumbel(uint32_t x) { return simd::first_lane(simd::gumbel_of(bits(x))); }

// -log((x + .5) 2^-32) to the precision of a double, also near u = 1.
double exact_exponential(uint32_t x) {
  return x >= 1u << 31 ? -std::log1p(-uniform_open(~x)) : -std::log(uniform_open(x));
}

std::vector<uint32_t> interesting_bits() {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < 3000; ++i) {
    for (const uint32_t base : {0u, 1u << 23, 1u << 24, 1u << 31, 46341u << 16, 3037000500u}) {
      all.push_back(base + i);
      all.push_back(base - 1 - i);
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) all.push_back(static_cast<uint32_t>(random()));
  return all;
}

TEST(VocabRows, ExponentialAndGumbelNumbersAreAccurateToTheExtremes) {
  for (const uint32_t x : interesting_bits()) {
    const double exact = exact_exponential(x);
    const double error = std::abs(exponential(x) - exact) / exact;
    const double gumbel_error = std::abs(gumbel(x) + std::log(exact)) / (1 + std::abs(std::log(exact)));
    ASSERT_LT(error, 3e-7) << x;
    ASSERT_LT(gumbel_error, 4e-7) << x;
    ASSERT_LE(gumbel(x), simd::kMaxGumbel);
    ASSERT_LE(simd::first_lane(simd::exponential_lower_bound(bits(x))), exponential(x)) << x;
    ASSERT_GE(simd::first_lane(simd::gumbel_upper_bound(bits(x))), gumbel(x)) << x;
  }
  EXPECT_FLOAT_EQ(exponential(0), 33 * std::log(2.0f));
  EXPECT_FLOAT_EQ(exponential(0xFFFFFFFFu), 0x1p-33f);  // u = 1 - 2^-33 is not rounded to 1
}

TEST(VocabRows, NoiseBitsAreThoseOfTheStream) {
  const RandomStream stream{0x123456789ABCDEFu, 77, 70, RandomPurpose::kResidual, 5};
  for (const int begin : {0, 64, 49088}) {
    const simd::NoiseBlock block = simd::noise_bits(stream, begin);
    for (int i = 0; i < simd::kNoiseBlockLen; ++i) {
      const auto lane = static_cast<uint32_t>(block.bits[i / 16].v[i % 16]);
      ASSERT_EQ(lane, stream.bits(static_cast<uint32_t>(begin + i))) << begin + i;
    }
  }
}

TEST(VocabRows, NoiseBitsOfChosenTokensAreThoseOfTheStream) {
  const RandomStream stream{0x123456789ABCDEFu, 77, 70, RandomPurpose::kDraft, 5};
  std::mt19937 random(4);
  for (int trial = 0; trial < 100; ++trial) {
    int32_t ids[16];
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 200000);
    const auto lanes = simd::noise_bits_of(stream, simd::load_i32(ids));
    for (int i = 0; i < 16; ++i) {
      ASSERT_EQ(static_cast<uint32_t>(lanes.v[i]), stream.bits(static_cast<uint32_t>(ids[i]))) << ids[i];
    }
  }
}

TEST(VocabRows, RowStats) {
  std::mt19937 random(1);
  for (const Kernels* kernels : all_kernels()) {
    for (const int n : all_sizes()) {
      std::vector<float> logits = random_logits(random, n, 4.0f);
      if (n > 20) logits[17] = logits[5] = 30.0f;  // a tie
      const RowStats stats = kernels->row_stats(logits.data(), n);
      size_t best = 0;
      double sum = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] > logits[best]) best = i;
      }
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[best]);
      EXPECT_EQ(stats.argmax, static_cast<TokenId>(best));
      EXPECT_EQ(stats.max, logits[best]);
      EXPECT_NEAR(stats.log_sum_exp, logits[best] + std::log(sum), 2e-5) << kernels->name << " " << n;
    }
  }
}

TEST(VocabRows, RowStatsTellsUnusableRows) {
  for (const Kernels* kernels : all_kernels()) {
    std::vector<float> logits(100, 1.0f);
    logits[40] = 5;
    logits[90] = kNan;
    EXPECT_TRUE(std::isnan(kernels->row_stats(logits.data(), 100).log_sum_exp));
    EXPECT_EQ(kernels->row_stats(logits.data(), 100).argmax, 40);
    EXPECT_FALSE(std::isnan(kernels->row_stats(logits.data(), 90).log_sum_exp));
    logits[90] = kInfinity;
    EXPECT_TRUE(std::isnan(kernels->row_stats(logits.data(), 100).log_sum_exp));
    const std::vector<float> nothing(33, -kInfinity);
    EXPECT_TRUE(std::isnan(kernels->row_stats(nothing.data(), 33).log_sum_exp));
    EXPECT_EQ(kernels->gumbel_argmax(nothing.data(), 33, kAll, {}), -1);
    const std::vector<float> nans(33, kNan);
    EXPECT_EQ(kernels->gumbel_argmax(nans.data(), 33, kAll, {}), -1);
    EXPECT_EQ(kernels->residual_argmax({nans.data(), 33}, 1.0f, {}, {}), -1);
    EXPECT_EQ(kernels->overlap({nans.data(), 33}, 1.0f, {}, nullptr), 0.0f);
  }
}

// The definitions, token by token, with the same single-number functions and nothing skipped. Entry i is
// token i + step i.
TokenId naive_gumbel_argmax(const std::vector<float>& z, KeptSet kept, const RandomStream& stream, size_t step = 0) {
  TokenId best_id = -1;
  float best = -kInfinity;
  for (size_t i = 0; i < z.size(); ++i) {
    if (!kept.contains(z[i], static_cast<TokenId>(i))) continue;
    const float score = z[i] + gumbel(stream.bits(static_cast<uint32_t>(i + step * i)));
    if (score > best) best = score, best_id = static_cast<TokenId>(i);
  }
  return best_id;
}

float exp_of(float x) { return simd::first_lane(simd::exp_f32(simd::broadcast(x))); }

// max(factor p_i - q_i, 0) of every token.
std::vector<float> naive_residual(const ProbabilityRow& p, float factor, const ProbabilityRow& q) {
  const auto probability = [](const ProbabilityRow& row, int i) {
    return i < row.n && row.kept.contains(row.z[i], i) ? exp_of(row.z[i] - row.log_norm) : 0.0f;
  };
  std::vector<float> residual;
  for (int i = 0; i < p.n; ++i)
    residual.push_back(std::max(0.0f, std::fma(factor, probability(p, i), -probability(q, i))));
  return residual;
}

// min(factor p_t, q_i) of every entry.
std::vector<float> naive_overlap(const ProbabilityRow& p, float factor, const ProbabilityRow& q, const TokenId* ids) {
  std::vector<float> common;
  for (int i = 0; i < q.n; ++i) {
    const TokenId id = ids == nullptr ? i : ids[i];
    const float p_i = p.kept.contains(p.z[id], id) ? exp_of(p.z[id] - p.log_norm) : 0.0f;
    common.push_back(std::min(factor * p_i, exp_of(q.z[i] - q.log_norm)));
  }
  return common;
}

TokenId naive_residual_argmax(const std::vector<float>& residual, const RandomStream& stream) {
  TokenId best_id = -1;
  float best = 0;
  for (size_t i = 0; i < residual.size(); ++i) {
    const float score = residual[i] / exponential(stream.bits(static_cast<uint32_t>(i)));
    if (score > best) best = score, best_id = static_cast<TokenId>(i);
  }
  return best_id;
}

// Element i in lane i % 16, then the fixed tree.
float sum_in_lanes(const std::vector<float>& values) {
  float lanes[16] = {};
  for (size_t i = 0; i < values.size(); ++i) lanes[i % 16] += values[i];
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Every instruction set against the definitions: equal tokens, equal bits of sums.
TEST(VocabRows, EveryInstructionSetGivesTheBitsOfTheDefinition) {
  std::mt19937 random(2);
  const std::vector<const Kernels*> tables = all_kernels();
  for (const int n : all_sizes()) {
    for (int trial = 0; trial < (n > 1000 ? 2 : 6); ++trial) {
      const auto size = static_cast<size_t>(n);
      std::vector<float> z = random_logits(random, n, trial % 3 == 0 ? 12.0f : 2.0f);
      if (trial % 2 == 1) {
        for (float& value : z) value = std::round(value);  // ties
      }
      const std::vector<float> zq = random_logits(random, std::max(1, n - trial), 2.0f);
      const KeptSet kept = trial < 2 ? kAll : KeptSet{z[random() % size], static_cast<TokenId>(random() % size)};
      const RandomStream stream{random(), static_cast<uint32_t>(trial), 3, RandomPurpose::kDraft,
                                static_cast<uint32_t>(trial)};
      const RowStats stats = tables[0]->row_stats(z.data(), n);
      const RowStats stats_q = tables[0]->row_stats(zq.data(), static_cast<int>(zq.size()));
      const float mass = tables[0]->kept_mass(z.data(), n, stats.max, kept);
      const TokenId drawn = naive_gumbel_argmax(z, kept, stream);
      const TokenId drawn_of_third = naive_gumbel_argmax(z, kept, stream, 2);
      std::vector<TokenId> every_third(size);
      for (size_t i = 0; i < size; ++i) every_third[i] = static_cast<TokenId>(3 * i);
      const ProbabilityRow q{zq.data(), static_cast<int>(zq.size()), kAll, stats_q.log_sum_exp};
      const float factor = trial == 0 ? 1.0f : std::ldexp(static_cast<float>(1 + random() % 1000), -10);
      const std::vector<float> residual = naive_residual({z.data(), n, kept, stats.log_sum_exp}, factor, q);
      const TokenId residual_drawn = naive_residual_argmax(residual, stream);
      std::vector<TokenId> backwards(zq.size());
      for (size_t i = 0; i < zq.size(); ++i) backwards[i] = static_cast<TokenId>(size - 1 - i);
      const std::vector<float> common = naive_overlap({z.data(), n, kept, stats.log_sum_exp}, factor, q, nullptr);
      const std::vector<float> common_backwards =
          naive_overlap({z.data(), n, kept, stats.log_sum_exp}, factor, q, backwards.data());

      std::vector<float> moved(size + 1), scaled(size + 2, -7.0f);  // rows need no alignment
      std::copy(z.begin(), z.end(), moved.begin() + 1);
      for (const Kernels* kernels : tables) {
        const std::string where = std::string(kernels->name) + " " + std::to_string(n);
        const RowStats same = kernels->row_stats(moved.data() + 1, n);
        EXPECT_EQ(same.max, stats.max) << where;
        EXPECT_EQ(same.argmax, stats.argmax) << where;
        EXPECT_EQ(same.log_sum_exp, stats.log_sum_exp) << where;
        EXPECT_EQ(kernels->kept_mass(moved.data() + 1, n, stats.max, kept), mass) << where;
        EXPECT_EQ(kernels->gumbel_argmax(moved.data() + 1, n, kept, stream), drawn) << where;
        EXPECT_EQ(kernels->gumbel_argmax_of(moved.data() + 1, every_third.data(), n, kept, stream), drawn_of_third)
            << where;
        const ProbabilityRow p{moved.data() + 1, n, kept, stats.log_sum_exp};
        EXPECT_EQ(kernels->residual_argmax(p, factor, q, stream), residual_drawn) << where;
        EXPECT_EQ(kernels->overlap(p, factor, q, nullptr), sum_in_lanes(common)) << where;
        EXPECT_EQ(kernels->overlap(p, factor, q, backwards.data()), sum_in_lanes(common_backwards)) << where;
        kernels->scale(moved.data() + 1, 1.25f, n, scaled.data() + 1);
        for (size_t i = 0; i < size; ++i) ASSERT_EQ(scaled[i + 1], z[i] * 1.25f) << where;
        ASSERT_EQ(scaled.front(), -7.0f) << where;
        ASSERT_EQ(scaled.back(), -7.0f) << where;
      }
    }
  }
}

TEST(VocabRows, TiesGoToTheLowestId) {
  const std::vector<float> logits(130, 1e9f);  // so large that noise is rounded away: all scores are equal
  for (const Kernels* kernels : all_kernels()) {
    EXPECT_EQ(kernels->row_stats(logits.data(), 130).argmax, 0);
    EXPECT_EQ(kernels->row_stats(logits.data() + 3, 100).argmax, 0);
    EXPECT_EQ(kernels->gumbel_argmax(logits.data(), 130, kAll, {}), 0);
    std::vector<float> later = logits;
    std::fill(later.begin(), later.begin() + 77, 0.0f);
    EXPECT_EQ(kernels->gumbel_argmax(later.data(), 130, kAll, {}), 77);
    EXPECT_EQ(kernels->gumbel_argmax(later.data(), 130, {1e9f, 80}, {}), 77);
    EXPECT_EQ(kernels->gumbel_argmax(later.data(), 130, {1e9f, 76}, {}), -1);
  }
}

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits) sum += p.emplace_back(std::exp(static_cast<double>(logit)));
  for (double& value : p) value /= sum;
  return p;
}

TEST(VocabRows, GumbelArgmaxSamplesTheSoftmax) {
  const Kernels* kernels = all_kernels().back();
  std::mt19937 random(5);
  const std::vector<float> logits = random_logits(random, 70, 2.0f);
  const std::vector<double> p = softmax(logits);
  constexpr uint32_t kDraws = 200000;
  std::vector<int64_t> counts(70), wrong_sign(70), coarse(70);
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    const RandomStream stream{42, draw, 0, RandomPurpose::kSample, 0};
    ++counts[static_cast<size_t>(kernels->gumbel_argmax(logits.data(), 70, kAll, stream))];
    if (draw % 4 != 0) continue;
    // Negative controls: G with the wrong sign, and u rounded to 6 bits.
    size_t best_wrong = 0, best_coarse = 0;
    double wrong = -1e9, rounded = -1e9;
    for (size_t i = 0; i < 70; ++i) {
      const uint32_t x = stream.bits(static_cast<uint32_t>(i));
      const double minus = logits[i] + std::log(exact_exponential(x));
      const double six = logits[i] - std::log(exact_exponential(x & 0xFC000000u));
      if (minus > wrong) wrong = minus, best_wrong = i;
      if (six > rounded) rounded = six, best_coarse = i;
    }
    ++wrong_sign[best_wrong];
    ++coarse[best_coarse];
  }
  EXPECT_LT(chi_square_z(counts, p), kMayHappen);
  EXPECT_GT(chi_square_z(wrong_sign, p), kMustReject);
  EXPECT_GT(chi_square_z(coarse, p), kMustReject);
}

// The residual as its definition has it, in double precision.
TEST(VocabRows, ResidualArgmaxSamplesTheResidualAndOverlapIsTheRest) {
  const Kernels* kernels = all_kernels().back();
  std::mt19937 random(6);
  const std::vector<float> zp = random_logits(random, 40, 1.5f), zq = random_logits(random, 33, 1.5f);
  const std::vector<double> p = softmax(zp), q = softmax(zq);
  const ProbabilityRow row_p{zp.data(), 40, kAll, kernels->row_stats(zp.data(), 40).log_sum_exp};
  const ProbabilityRow row_q{zq.data(), 33, kAll, kernels->row_stats(zq.data(), 33).log_sum_exp};
  for (const float factor : {1.0f, 0.6f, 0.05f}) {
    std::vector<double> residual(40);
    double sum = 0;
    for (size_t i = 0; i < 40; ++i) sum += residual[i] = std::max(0.0, factor * p[i] - (i < q.size() ? q[i] : 0));
    for (double& value : residual) value /= sum;
    EXPECT_NEAR(factor - kernels->overlap(row_p, factor, row_q, nullptr), sum, 1e-6);
    std::vector<int64_t> counts(40);
    for (uint32_t draw = 0; draw < 200000; ++draw) {
      const RandomStream stream{43, draw, 0, RandomPurpose::kResidual, 0};
      ++counts[static_cast<size_t>(kernels->residual_argmax(row_p, factor, row_q, stream))];
    }
    EXPECT_LT(chi_square_z(counts, residual), kMayHappen) << factor;
    EXPECT_GT(chi_square_z(counts, p), kMustReject) << factor;
  }
  // Equal distributions leave nothing, nor does a factor of 0.
  EXPECT_EQ(kernels->residual_argmax(row_p, 1.0f, row_p, {}), -1);
  EXPECT_NEAR(kernels->overlap(row_p, 1.0f, row_p, nullptr), 1.0f, 1e-6f);
  EXPECT_EQ(kernels->residual_argmax(row_p, 0.0f, row_q, {}), -1);
  EXPECT_EQ(kernels->overlap(row_p, 0.0f, row_q, nullptr), 0.0f);
}

}  // namespace
}  // namespace bass::cpu
