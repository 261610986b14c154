// Vocabulary rows on an emulated GPU: the bits of the CPU's kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/sampling/sampling_kernels.h"
#include "kernels/cuda/sampling/sampling_testing.h"
#include "kernels/sampling/distribution.h"

namespace bass::cuda {
namespace {

using testing::all_devices;
using testing::cpu_kernels;
using testing::DeviceArray;
using testing::random_logits;
using testing::same_float;

struct RowAnswers {
  cpu::RowStats stats;
  float mass;
  int32_t drawn;
  int32_t drawn_of;
  int32_t residual;
  float overlap;
  float overlap_of;
};

/// Asks every function of row_functions.h.
struct AskRow {
  static constexpr const char* kName = "ask_row";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;
  cpu::ProbabilityRow p;
  cpu::ProbabilityRow q;
  cpu::ProbabilityRow q_of;
  const int32_t* ids;  // of q_of's entries
  float factor;
  RandomStream stream;
  RowAnswers* answers;
  template <class Context>
  void operator()(Context& context) const {
    RowBlock<Context> block(context);
    RowAnswers found;
    found.stats = row_stats(block, p.z, p.n);
    found.mass = kept_mass(block, p.z, p.n, found.stats.max, p.kept);
    found.drawn = gumbel_argmax(block, p.z, nullptr, p.n, p.kept, stream);
    found.drawn_of = gumbel_argmax(block, q_of.z, ids, q_of.n, q_of.kept, stream);
    found.residual = residual_argmax(block, p, factor, q, stream);
    found.overlap = overlap(block, p, factor, q, nullptr);
    found.overlap_of = overlap(block, p, factor, q_of, ids);
    if (context.thread() == 0) *answers = found;
  }
};

RandomStream stream_of(unsigned seed) { return {99 + seed, 17, 3, RandomPurpose::kResidual, 2}; }

void expect_row_functions(const std::vector<float>& p_z, const std::vector<float>& q_z, const cpu::KeptSet& kept,
                          unsigned seed, const EmulatorOptions& options) {
  std::mt19937 random(seed);
  const auto n = static_cast<int>(p_z.size()), n_q = static_cast<int>(q_z.size());
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) ids[static_cast<size_t>(i)] = i;
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(static_cast<size_t>(n_q));
  const RandomStream stream = stream_of(seed);
  const cpu::Kernels& cpu = cpu_kernels();
  const cpu::RowStats stats = cpu.row_stats(p_z.data(), n);
  const cpu::ProbabilityRow p{p_z.data(), n, kept, stats.log_sum_exp};
  const cpu::ProbabilityRow q{q_z.data(), n_q, {}, cpu.row_stats(q_z.data(), n_q).log_sum_exp};
  RowAnswers found;
  const AskRow kernel{p, q, q, ids.data(), 0.9f, stream, &found};
  SharedBytes bytes;
  RowBlock<NoContext>::count(bytes);
  emulate(emulated_kernel<AskRow>(), &kernel, {{1, 1, 1}, kRowBlockThreads, bytes.bytes()}, options);
  EXPECT_TRUE(same_float(found.stats.max, stats.max));
  EXPECT_EQ(found.stats.argmax, stats.argmax);
  EXPECT_TRUE(same_float(found.stats.log_sum_exp, stats.log_sum_exp)) << n;
  EXPECT_TRUE(same_float(found.mass, cpu.kept_mass(p_z.data(), n, stats.max, kept))) << n;
  EXPECT_EQ(found.drawn, cpu.gumbel_argmax(p_z.data(), n, kept, stream));
  EXPECT_EQ(found.drawn_of, cpu.gumbel_argmax_of(q_z.data(), ids.data(), n_q, {}, stream));
  EXPECT_EQ(found.residual, cpu.residual_argmax(p, 0.9f, q, stream));
  EXPECT_TRUE(same_float(found.overlap, cpu.overlap(p, 0.9f, q, nullptr))) << n;
  EXPECT_TRUE(same_float(found.overlap_of, cpu.overlap(p, 0.9f, q, ids.data()))) << n;
}

TEST(GpuRows, HaveTheBitsOfTheCpuForEveryLength) {
  EmulatorOptions descending;
#if !defined(__SANITIZE_THREAD__)
  descending.order = EmulatorOrder::kDescending;
#endif
  const auto expect_random_row = [](int n, int n_q, const cpu::KeptSet& kept, unsigned seed,
                                    const EmulatorOptions& options) {
    std::mt19937 random(seed);
    const std::vector<float> p_z = random_logits(static_cast<size_t>(n), random);
    expect_row_functions(p_z, random_logits(static_cast<size_t>(n_q), random), kept, seed, options);
  };
  for (const int n : {1,
                      2,
                      15,
                      16,
                      17,
                      31,
                      63,
                      64,
                      65,
                      383,
                      384,
                      385,
                      1000,
                      2047,
                      2048,
                      2049,
                      kTermTile - 1,
                      kTermTile,
                      3073,
                      4096,
                      6144,
                      6145,
                      9001,
                      3 * 6 * 512,
                      2 * kTermTile + 65}) {
    for (unsigned seed = 0; seed < 3; ++seed) {
      expect_random_row(n, n, {}, seed, {});
      expect_random_row(n, (n + 1) / 2, {0.5f, n / 3}, seed, descending);
    }
  }
  expect_random_row(5000, 5000, {100.0f, 0}, 1, {});  // nothing is kept
}

TEST(GpuRows, DrawTheCpusTokenWhereScoresAreNear) {  // what bounds of the noise must not leave out
  constexpr int kTokens = 6001;
  for (unsigned seed = 0; seed < 20; ++seed) {
    // With their noise scores are the same but for the rounding; some are equal, on a grid. Bounds are tight where the
    // noise is large.
    const float lowest = seed % 2 == 0 ? -kInf : 5.0f;
    std::vector<float> p_z(kTokens, -40.0f), low(kTokens, -60.0f);
    for (size_t i = 0; i < kTokens; ++i) {
      const float noise = gumbel_of(stream_of(seed).bits(static_cast<uint32_t>(i)));
      if (noise > lowest) p_z[i] = seed % 4 < 2 ? -noise : std::round(-noise * 4096) / 4096;
    }
    expect_row_functions(p_z, low, {}, seed, {});
    p_z[5000] += 0x1p-12f;
    expect_row_functions(p_z, p_z, {}, seed, {});
  }
}

TEST(GpuRows, DrawTheCpusTokenFromFlatAndFromSteepRows) {
  constexpr int kTokens = 5003;
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const float step : {0.0f, 1e-3f, -1e-3f, 0.02f, -0.02f, 1.0f, 700.0f}) {
      std::vector<float> p_z(kTokens), q_z(kTokens);
      for (int i = 0; i < kTokens; ++i) {
        p_z[static_cast<size_t>(i)] = step * static_cast<float>(i);
        q_z[static_cast<size_t>(i)] = step * static_cast<float>(i / 2);
      }
      expect_row_functions(p_z, q_z, {}, seed, {});
    }
  }
}

TEST(GpuRows, SayWhichRowsAreUnusable) {
  constexpr float kNan = NAN;
  const std::vector<std::vector<float>> rows = {
      {kNan},       {-kInf},           {kInf},          {-kInf, -kInf, kNan}, {kNan, -kInf, -kInf}, {1, kNan, 3, 3},
      {1, kInf, 3}, {-kInf, 2, 2, -1}, {-1e38f, 3e38f}, {0.0f, -1.0f, 0.0f}};
  for (const std::vector<float>& part : rows) {
    for (const size_t n : {part.size(), size_t{4000}}) {
      std::vector<float> row(n, -kInf);
      std::copy(part.begin(), part.end(), row.end() - static_cast<ptrdiff_t>(part.size()));
      RowAnswers found;
      const AskRow kernel{{row.data(), static_cast<int>(n), {}, 1.0f}, {}, {}, nullptr, 1.0f, stream_of(1), &found};
      SharedBytes bytes;
      RowBlock<NoContext>::count(bytes);
      emulate(emulated_kernel<AskRow>(), &kernel, {{1, 1, 1}, kRowBlockThreads, bytes.bytes()}, {});
      const cpu::RowStats stats = cpu_kernels().row_stats(row.data(), static_cast<int>(n));
      EXPECT_TRUE(same_float(found.stats.max, stats.max));
      EXPECT_EQ(found.stats.argmax, stats.argmax);
      EXPECT_TRUE(same_float(found.stats.log_sum_exp, stats.log_sum_exp));
    }
  }
}

TEST(GpuRows, ShortChainsWouldHaveOtherBits) {  // the negative control of the order of the sums
  std::mt19937 random(1);
  int n_different = 0;
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> z = random_logits(9001, random);
    const cpu::RowStats stats = cpu_kernels().row_stats(z.data(), 9001);
    const float halves = cpu_kernels().kept_mass(z.data(), 4096, stats.max, {}) +
                         cpu_kernels().kept_mass(z.data() + 4096, 9001 - 4096, stats.max, {});
    n_different += same_float(halves, cpu_kernels().kept_mass(z.data(), 9001, stats.max, {})) ? 0 : 1;
  }
  EXPECT_GT(n_different, 5);
}

/// The distribution of one row, with everything that may be asked of it.
struct BuildRow {
  static constexpr const char* kName = "build_row";
  static constexpr int kMaxThreads = kRowBlockThreads;
  static constexpr bool kCooperates = true;
  const float* logits;
  int n;
  SamplingParams params;
  RowScratch scratch;
  RowDistribution* built;
  template <class Context>
  void operator()(Context& context) const {
    BlockSampler<Context> sampler(context, scratch);
    const RowDistribution row = sampler.build(logits, n, params, {}, {.logprob = true, .probabilities = true}, {});
    if (context.thread() == 0) *built = row;
  }
};

void expect_cuts(const std::vector<float>& logits, const SamplingParams& params) {
  const auto n = static_cast<int>(logits.size());
  RowSampler cpu(&cpu_kernels(), n);
  const RowDistribution expected = cpu.build(logits.data(), n, params, {}, Normalise::kYes);
  std::vector<float> z(logits.size());
  std::vector<uint64_t> keys(logits.size());
  RowDistribution found;
  const BuildRow kernel{logits.data(), n, params, {z.data(), nullptr, nullptr, keys.data()}, &found};
  emulate(emulated_kernel<BuildRow>(), &kernel, {{1, 1, 1}, kRowBlockThreads, BlockSampler<NoContext>::shared_bytes()},
          {});
  EXPECT_EQ(found.kept.cut_value, expected.kept.cut_value) << params.top_k << ", " << params.top_p;
  EXPECT_EQ(found.kept.cut_id, expected.kept.cut_id) << params.top_k << ", " << params.top_p;
  EXPECT_TRUE(same_float(found.log_norm, expected.log_norm)) << found.log_norm << ", " << expected.log_norm;
  EXPECT_TRUE(same_float(found.raw_log_sum_exp, expected.raw_log_sum_exp));
  EXPECT_EQ(found.argmax, expected.argmax);
  EXPECT_EQ(found.is_degenerate, expected.is_degenerate);
}

TEST(GpuRows, AreCutWhereTheCpuCutsThem) {
  constexpr int kTokens = 3001;
  std::mt19937 random(4);
  std::vector<std::vector<float>> rows(7, std::vector<float>(kTokens));
  for (size_t i = 0; i < kTokens; ++i) {
    const auto at = static_cast<float>(i);
    rows[0][i] = 0.0f;                                                      // all equal
    rows[1][i] = i % 3 == 0 ? 0.0f : -0.0f;                                 // of both signs
    rows[2][i] = i % 7 == 0 ? 5.0f : 5.0f - 0x1p-20f;                       // hardly different
    rows[3][i] = -at;                                                       // beyond every ring but the last
    rows[4][i] = i % 2 == 0 ? -kInf : at * 1e-3f;                           // banned ones
    rows[5][i] = i == 9 ? 2e38f : i % 2 == 0 ? -2e38f : -3.4e38f;           // distances that are infinite
    rows[6][i] = std::round(static_cast<float>(random() % 4096) / 64) / 4;  // many of each
  }
  rows.push_back(random_logits(kTokens, random));
  for (const std::vector<float>& row : rows) {
    for (const float top_p : {1.0f, 1e-6f, 0.5f, 0.9f, 0.999999f}) {
      for (const int top_k : {0, 1, 40, 1501, 3000}) {
        SamplingParams params;
        params.top_p = top_p;
        params.top_k = top_k;
        expect_cuts(row, params);
        params.temperature = 0.7f;
        params.min_p = 0.01f;
        expect_cuts(row, params);
      }
    }
  }
}

TEST(RowMath, ExpIsTheLibrarysWithinTwoUlp) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> uniform(-700, 700);
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? uniform(random) : uniform(random) / 100;
    const double expected = std::exp(x);
    ASSERT_NEAR(exp_of(x) / expected, 1.0, 2 * 0x1p-52) << x;
  }
  EXPECT_EQ(exp_of(0), 1.0);
  EXPECT_EQ(exp_of(-INFINITY), 0.0);
}

}  // namespace
}  // namespace bass::cuda
