// Normalisation, quantisation, activation, rotation, KV write; and the accuracy of exp and log.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/reference/reference.h"

namespace bass::cpu {
namespace {

using testing::Activations;
using testing::random_floats;
using testing::same_bits;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kLengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 576, 1000};

float float_of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

double ulps(float got, double want) {
  const float rounded = std::fabs(static_cast<float>(want));
  return std::fabs(got - want) / (std::nextafter(rounded, kInfinity) - rounded);
}

class ElementwiseTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
  std::mt19937 rng_{11};
};

// The floats with bits begin, begin + step, ... that are no NaN.
std::vector<float> sweep(uint64_t begin, uint64_t end, uint64_t step) {
  std::vector<float> x;
  for (uint64_t bits = begin; bits < end; bits += step) {
    const float value = float_of_bits(static_cast<uint32_t>(bits));
    if (!std::isnan(value)) x.push_back(value);
  }
  return x;
}
constexpr uint64_t kAllBits = uint64_t{1} << 32;

TEST_P(ElementwiseTest, ExpIsAccurateEverywhere) {
  const std::vector<float> x = sweep(0, kAllBits, 1009);
  std::vector<float> got(x.size());
  kernels_.exp(x.data(), static_cast<int>(x.size()), got.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    if (want < std::numeric_limits<float>::min()) {
      ASSERT_EQ(got[i], 0.0f) << x[i];
    } else if (want > std::numeric_limits<float>::max()) {
      ASSERT_EQ(got[i], kInfinity) << x[i];
    } else {
      ASSERT_LE(ulps(got[i], want), 1.0) << x[i];
    }
  }
}

TEST_P(ElementwiseTest, ExpHasExactSpecialValues) {
  const std::vector<float> x{0.0f, -0.0f, -kInfinity, kInfinity, -1e30f, 1e30f, 1e-45f, -1e-45f};
  std::vector<float> got(x.size());
  kernels_.exp(x.data(), static_cast<int>(x.size()), got.data());
  EXPECT_EQ(got, (std::vector<float>{1, 1, 0, kInfinity, 0, kInfinity, 1, 1}));
}

TEST_P(ElementwiseTest, Exp2IsAccurateAndHasTheSameBitsEverywhere) {
  const Kernels& scalar = *find_kernels(Isa::kScalar);
  std::vector<float> x = sweep(0x80000000, 0xC2700000, 1009);  // -0 to -60
  const auto n = static_cast<int>(x.size());
  std::vector<float> got(x.size()), want(x.size());
  kernels_.exp2(x.data(), n, got.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp2(static_cast<double>(x[i]));
    ASSERT_LE(std::fabs(got[i] / exact - 1), 3 * 0x1p-24) << x[i];
    scalar.exp2(&x[i], 1, &want[i]);
  }
  EXPECT_TRUE(same_bits(got, want));
  const std::vector<float> special{0.0f, -0.0f, -1.0f, -61.0f, -kInfinity};
  std::vector<float> powers(special.size());
  kernels_.exp2(special.data(), static_cast<int>(special.size()), powers.data());
  EXPECT_EQ(powers, (std::vector<float>{1, 1, 0.5f, 0x1p-60f, 0x1p-60f}));
}

TEST_P(ElementwiseTest, LogIsAccurateForNormalNumbers) {
  constexpr uint64_t kOneBits = 0x3F800000;
  std::vector<float> x = sweep(0x00800000, 0x7F800000, 1009);
  const std::vector<float> around_one = sweep(kOneBits - 2000, kOneBits + 2000, 1);  // where log is small
  x.insert(x.end(), around_one.begin(), around_one.end());
  std::vector<float> got(x.size());
  kernels_.log(x.data(), static_cast<int>(x.size()), got.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::log(static_cast<double>(x[i]));
    if (want == 0) {
      ASSERT_EQ(got[i], 0.0f);
    } else {
      ASSERT_LE(ulps(got[i], want), 1.0) << x[i];
    }
  }
}

TEST_P(ElementwiseTest, LogHasExactSpecialValues) {
  const std::vector<float> x{0.0f, -0.0f, kInfinity, 1.0f};
  std::vector<float> got(x.size());
  kernels_.log(x.data(), static_cast<int>(x.size()), got.data());
  EXPECT_EQ(got, (std::vector<float>{-kInfinity, -kInfinity, kInfinity, 0}));
}

TEST_P(ElementwiseTest, ExpAndLogHaveTheSameBitsEverywhereAndInEveryLane) {
  const Kernels& scalar = *find_kernels(Isa::kScalar);
  std::vector<float> x = sweep(0, kAllBits, 100003);
  const auto n = static_cast<int>(x.size());
  std::vector<float> got(x.size()), want(x.size());
  kernels_.exp(x.data(), n, got.data());
  for (size_t i = 0; i < x.size(); ++i) scalar.exp(&x[i], 1, &want[i]);
  EXPECT_TRUE(same_bits(got, want));
  for (float& value : x) value = std::fabs(value);
  kernels_.log(x.data(), n, got.data());
  for (size_t i = 0; i < x.size(); ++i) scalar.log(&x[i], 1, &want[i]);
  EXPECT_TRUE(same_bits(got, want));
}

TEST_P(ElementwiseTest, RmsNormHasTheBitsOfTheReference) {
  for (const int n : kLengths) {
    for (const float deviation : {1.0f, 1e-4f, 1e6f}) {
      const std::vector<float> x = random_floats(static_cast<size_t>(n) + 1, rng_, deviation);
      const std::vector<float> weight = random_floats(static_cast<size_t>(n) + 1, rng_);
      std::vector<float> got(static_cast<size_t>(n) + 1, 7.0f), want(static_cast<size_t>(n) + 1, 7.0f);
      kernels_.rms_norm(x.data() + 1, weight.data() + 1, n, 1e-5f, got.data());
      reference::rms_norm(x.data() + 1, weight.data() + 1, n, 1e-5f, want.data());
      EXPECT_TRUE(same_bits(got, want)) << n;
    }
  }
}

TEST_P(ElementwiseTest, LayerNormHasTheBitsOfTheReference) {
  for (const int n : kLengths) {
    const auto len = static_cast<size_t>(n) + 1;
    std::vector<float> x = random_floats(len, rng_);
    for (float& value : x) value += 3.0f;
    const std::vector<float> weight = random_floats(len, rng_), bias = random_floats(len, rng_);
    std::vector<float> got(len, 7.0f), want(len, 7.0f);
    kernels_.layer_norm(x.data() + 1, weight.data() + 1, bias.data() + 1, n, 1e-5f, got.data());
    reference::layer_norm(x.data() + 1, weight.data() + 1, bias.data() + 1, n, 1e-5f, want.data());
    EXPECT_TRUE(same_bits(got, want)) << n;
  }
}

TEST_P(ElementwiseTest, ActivationsHaveTheBitsOfTheReferenceAlsoInPlace) {
  for (size_t kind = 0; kind < kActivations; ++kind) {
    for (const int n : kLengths) {
      std::vector<float> gate = random_floats(static_cast<size_t>(n), rng_, kind == 0 ? 10.0f : 3.0f);
      gate[0] = -200.0f;
      gate.back() = 150.0f;
      std::vector<float> up = random_floats(static_cast<size_t>(n), rng_);
      std::vector<float> want(static_cast<size_t>(n)), got(static_cast<size_t>(n));
      reference::activate(static_cast<Activation>(kind), gate.data(), nullptr, n, want.data());
      kernels_.activate[kind](gate.data(), nullptr, n, got.data());
      EXPECT_TRUE(same_bits(got, want)) << kind << " of " << n;
      reference::activate(static_cast<Activation>(kind), gate.data(), up.data(), n, want.data());
      kernels_.activate[kind](gate.data(), up.data(), n, gate.data());
      EXPECT_TRUE(same_bits(gate, want)) << kind << " of " << n;
    }
  }
}

TEST_P(ElementwiseTest, ActivationsAreAccurate) {
  std::vector<float> x{0.0f, -0.0f};
  for (float value = 1e-6f; value < 40; value *= 1.01f) x.insert(x.end(), {value, -value});
  const auto n = static_cast<int>(x.size());
  std::vector<float> gelu(x.size()), gelu_tanh(x.size()), relu(x.size()), capped = x;
  kernels_.activate[static_cast<size_t>(Activation::kGelu)](x.data(), nullptr, n, gelu.data());
  kernels_.activate[static_cast<size_t>(Activation::kGeluTanh)](x.data(), nullptr, n, gelu_tanh.data());
  kernels_.activate[static_cast<size_t>(Activation::kRelu)](x.data(), nullptr, n, relu.data());
  kernels_.soft_cap(capped.data(), n, 30.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double tolerance = 1e-6 * std::min(std::fabs(v), 1.0);
    EXPECT_NEAR(gelu[i], v * std::erfc(-v / std::sqrt(2.0)) / 2, tolerance) << v;
    EXPECT_NEAR(gelu_tanh[i], v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))) / 2, tolerance)
        << v;
    EXPECT_EQ(relu[i], std::max(x[i], 0.0f));
    EXPECT_NEAR(capped[i], 30 * std::tanh(v / 30), 1e-5) << v;
    EXPECT_EQ(capped[i], reference::soft_cap(x[i], 30.0f)) << v;
  }
  std::vector<float> special{kInfinity, -kInfinity, NAN};
  kernels_.soft_cap(special.data(), 3, 50.0f);
  EXPECT_EQ(special[0], 50.0f);
  EXPECT_EQ(special[1], -50.0f);
  EXPECT_TRUE(std::isnan(special[2]));
}

TEST_P(ElementwiseTest, RopeHasTheBitsOfTheReference) {
  for (const int n : {2, 14, 16, 18, 32, 64, 80}) {
    std::vector<float> got = random_floats(static_cast<size_t>(n) + 2, rng_);
    std::vector<float> want = got;
    const std::vector<float> cos_pairs = random_floats(static_cast<size_t>(n), rng_);
    const std::vector<float> sin_pairs = random_floats(static_cast<size_t>(n), rng_);
    kernels_.rope(got.data() + 1, n, cos_pairs.data(), sin_pairs.data());
    reference::rope(want.data() + 1, n, cos_pairs.data(), sin_pairs.data());
    EXPECT_TRUE(same_bits(got, want)) << n;
  }
}

void expect_quantised(const Activations& got, int row, const std::vector<float>& x, int n_planes) {
  const auto n = static_cast<int>(x.size());
  const reference::QuantisedRow want = reference::quantise(x.data(), n, n_planes);
  for (int i = 0; i < n; ++i) {
    const int value = n_planes == 1 ? got.quant(row, i, 0) : 256 * got.quant(row, i, 0) + got.quant(row, i, 1);
    ASSERT_EQ(value, want.q[static_cast<size_t>(i)]) << i;
  }
  EXPECT_TRUE(same_bits(got.f32.data() + static_cast<ptrdiff_t>(row) * n, x.data(), x.size()));
  for (int g = 0; g < n / kGroupLen; ++g) {
    const auto i = static_cast<size_t>(g);
    const int32_t start = n_planes == 1 ? kDotBiasBits : 0;
    EXPECT_EQ(got.field<float>(row, g, ActivationField::kScale), want.scale[i]);
    EXPECT_EQ(got.field<float>(row, g, ActivationField::kBias), -kDotBias * want.scale[i]);
    EXPECT_EQ(got.field<float>(row, g, ActivationField::kScaledSum), want.scaled_sum[i]);
    EXPECT_EQ(got.field<int32_t>(row, g, ActivationField::kStart8), start - 8 * want.sum[i]);
    EXPECT_EQ(got.field<int32_t>(row, g, ActivationField::kStart128), start - 128 * want.sum[i]);
    const auto begin = want.q.begin() + static_cast<ptrdiff_t>(g) * kGroupLen;
    const int32_t first_half = std::accumulate(begin, begin + kGroupLen / 2, 0);
    EXPECT_EQ(got.field<int32_t>(row, g, ActivationField::kHalfSum0), first_half);
    EXPECT_EQ(got.field<int32_t>(row, g, ActivationField::kHalfSum1), want.sum[i] - first_half);
  }
}

TEST_P(ElementwiseTest, QuantiseHasTheBitsOfTheReference) {
  constexpr int kCols = 192;
  for (int n_planes = 1; n_planes <= 2; ++n_planes) {
    std::vector<float> x = random_floats(kCols, rng_);
    std::fill_n(x.begin() + 32, 32, 0.0f);    // an empty group
    std::fill_n(x.begin() + 64, 32, 1e-39f);  // too small to have an inverse
    for (size_t i = 0; i < 32; ++i) x[96 + i] = (static_cast<float>(i) - 15.5f) / 127.0f * 31.0f;  // ties
    x[96] = 31.0f;
    std::vector<float> rows = x;
    rows.insert(rows.end(), x.begin(), x.end());
    const Activations got(kernels_, rows.data(), 2, kCols, n_planes);
    expect_quantised(got, 0, x, n_planes);
    expect_quantised(got, 1, x, n_planes);
  }
}

TEST_P(ElementwiseTest, QuantisesColumnsInParts) {
  constexpr int kCols = 160;
  const std::vector<float> x = random_floats(kCols, rng_);
  for (int n_planes = 1; n_planes <= 2; ++n_planes) {
    const std::vector<float> zeros(kCols * 2, 0.0f);
    Activations got(kernels_, zeros.data(), 2, kCols, n_planes);
    kernels_.quantise(x.data() + 96, 0, {1, 2}, {96, 160}, got.rows);
    kernels_.quantise(x.data(), 0, {1, 2}, {0, 96}, got.rows);
    expect_quantised(got, 1, x, n_planes);
    expect_quantised(got, 0, std::vector<float>(kCols, 0.0f), n_planes);
  }
  std::vector<float> copy(kCols);
  ActivationRows plain;
  plain.n_cols = kCols;
  plain.f32 = copy.data();
  kernels_.quantise(x.data(), 0, {0, 1}, {0, 77}, plain);
  kernels_.quantise(x.data() + 77, 0, {0, 1}, {77, kCols}, plain);
  EXPECT_EQ(copy, x);
}

// Whole row blocks are quantised together, the rows in front of them and behind by themselves; others stay as they are.
TEST_P(ElementwiseTest, QuantisesRowsTogetherAsByThemselves) {
  constexpr int kRows = 13, kCols = 12 * kGroupLen, kStride = kCols + 5;
  std::vector<float> x = random_floats(kRows * kStride, rng_);
  const auto group = [&](int row, int g) { return x.begin() + row * kStride + g * kGroupLen; };
  std::fill_n(group(1, 2), kGroupLen, 0.0f);    // an empty group
  std::fill_n(group(5, 0), kGroupLen, 1e-39f);  // too small to have an inverse
  std::fill_n(group(6, 8), kGroupLen, -1e30f);
  for (int i = 0; i < kGroupLen; ++i) group(8, 3)[i] = (static_cast<float>(i) - 15.5f) / 127.0f * 31.0f;  // ties
  group(8, 3)[0] = 31.0f;
  group(9, 4)[31] = -40.0f;  // the largest one is the last
  for (int n_planes = 1; n_planes <= 2; ++n_planes) {
    const std::vector<float> nothing(kRows * kCols, 0.5f);
    for (int first = 0; first <= 4; ++first) {
      for (int end = first; end <= kRows; ++end) {
        for (const WorkRange cols : {WorkRange{0, kCols}, WorkRange{kGroupLen, 2 * kGroupLen}}) {
          Activations got(kernels_, nothing.data(), kRows, kCols, n_planes), want = got;
          want.rows.f32 = want.f32.data();
          want.rows.groups = want.groups.data();
          if (want.rows.panels != nullptr) want.rows.panels = want.panels.data();
          const float* begin = x.data() + first * kStride + cols.begin;
          kernels_.quantise(begin, kStride, {first, end}, cols, got.rows);
          for (int r = first; r < end; ++r) {
            kernels_.quantise(x.data() + r * kStride + cols.begin, 0, {r, r + 1}, cols, want.rows);
          }
          ASSERT_TRUE(std::ranges::equal(got.groups, want.groups)) << first << ".." << end << ", " << n_planes;
          ASSERT_TRUE(std::ranges::equal(got.panels, want.panels)) << first << ".." << end << ", " << n_planes;
          ASSERT_TRUE(same_bits(got.f32, want.f32)) << first << ".." << end << ", " << n_planes;
        }
      }
    }
    Activations all(kernels_, nothing.data(), kRows, kCols, n_planes);
    kernels_.quantise(x.data(), kStride, {0, kRows}, {0, kCols}, all.rows);
    for (int r = 0; r < kRows; ++r) {
      expect_quantised(all, r, {x.begin() + r * kStride, x.begin() + r * kStride + kCols}, n_planes);
    }
  }
}

KvShape kv_shape(int head_dim, int number_bytes) {
  return {.n_heads = 1, .n_kv_heads = 1, .head_dim = head_dim, .number_bytes = number_bytes};
}

/// What write_kv leaves in a page of Int, of which nothing else changes.
template <class Int>
void expect_pairs(const Kernels& kernels, std::mt19937& rng) {
  constexpr int kDim = 48;
  constexpr bool kIsInt8 = sizeof(Int) == 1;
  constexpr size_t kHalf = kDim * kKvPageLen;  // numbers of K, and of V
  constexpr size_t kScaleLen = sizeof(float) / sizeof(Int);
  std::vector<float> k = random_floats(kDim, rng);
  const std::vector<float> v = random_floats(kDim, rng);
  for (const float special : {0.5f, 1e9f, -1e9f}) {
    k[3] = special;
    const reference::QuantisedHead key = kIsInt8 ? reference::quantise_by_maximum(k.data(), kDim, reference::kInt8Steps)
                                                 : reference::quantise_by_norm(k.data(), kDim);
    const reference::QuantisedHead value =
        reference::quantise_by_maximum(v.data(), kDim, kIsInt8 ? reference::kInt8Steps : reference::kInt16Steps);
    for (const int slot : {0, 5, 31}) {
      std::vector<Int> page(2 * kHalf + 2 * kScaleLen * kKvPageLen, -7);
      std::vector<Int> expected = page;
      kernels.write_kv(kv_shape(kDim, sizeof(Int)), k.data(), v.data(), slot,
                       reinterpret_cast<std::byte*>(page.data()));
      for (int d = 0; d < kDim; ++d) {
        const auto i = static_cast<size_t>(d);
        expected[static_cast<size_t>((d / 2 * kKvPageLen + slot) * 2 + d % 2)] = static_cast<Int>(key.q[i]);
        expected[kHalf + static_cast<size_t>((slot / 2 * kDim + d) * 2 + slot % 2)] = static_cast<Int>(value.q[i]);
      }
      const auto scale = [&](int idx) { return &expected[2 * kHalf + kScaleLen * static_cast<size_t>(idx)]; };
      std::memcpy(scale(slot), &key.scale, sizeof(float));
      std::memcpy(scale(kKvPageLen + slot), &value.scale, sizeof(float));
      EXPECT_EQ(page, expected) << "slot " << slot;
    }
  }
}

TEST_P(ElementwiseTest, WritesKeysAndValuesInPairs) { expect_pairs<int16_t>(kernels_, rng_); }
TEST_P(ElementwiseTest, WritesKeysAndValuesInPairsOfBytes) { expect_pairs<int8_t>(kernels_, rng_); }

TEST_P(ElementwiseTest, WritesZeroHeadsAsZeros) {
  constexpr int kDim = 16;
  for (const float tiny : {0.0f, 1e-38f}) {
    const std::vector<float> x(kDim, tiny);
    std::vector<int16_t> page(2 * kDim * kKvPageLen + 4 * kKvPageLen, 0);
    kernels_.write_kv(kv_shape(kDim, 2), x.data(), x.data(), 1, reinterpret_cast<std::byte*>(page.data()));
    EXPECT_EQ(page, std::vector<int16_t>(page.size(), 0));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseTest, ::testing::ValuesIn(testing::kernels_and_emulated_tiles()),
                         testing::isa_name);

}  // namespace
}  // namespace bass::cpu
