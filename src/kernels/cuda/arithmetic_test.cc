// The numbers of kernels/cuda are those of kernels/cpu, to the bit.
#include "kernels/cuda/arithmetic.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace bass::cuda {
namespace {

const cpu::Kernels& cpu_kernels() { return *cpu::find_kernels(cpu::Isa::kScalar); }

/// Floats of all sizes, and special ones.
std::vector<float> many_floats(float lowest, float highest) {
  std::mt19937 random(7);
  std::vector<float> x{0.0f, -0.0f, 1.0f, -1.0f, 0x1p-126f, 0x1p-149f, -87.33654f, 88.72283f, 89.0f, -kInf, kInf};
  std::uniform_real_distribution<float> uniform(lowest, highest);
  for (int i = 0; i < 50000; ++i) x.push_back(uniform(random));
  for (int i = 0; i < 50000; ++i) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (any == any) x.push_back(any);
  }
  std::erase_if(x, [=](float v) { return v < lowest || v > highest; });
  return x;
}

void expect_same_bits(const std::vector<float>& x, void (*row)(const float*, int, float*), float (*one)(float)) {
  std::vector<float> expected(x.size());
  row(x.data(), static_cast<int>(x.size()), expected.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(bits_of(one(x[i])), bits_of(expected[i])) << x[i];
}

TEST(GpuArithmetic, ZerosOfAWordAreCounted) {
  EXPECT_EQ(leading_zeros(0), 64);
  for (int i = 0; i < 64; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    EXPECT_EQ(leading_zeros(bit), 63 - i);
    EXPECT_EQ(leading_zeros(bit | 1), 63 - i);
    if (i >= 32) continue;
    EXPECT_EQ(trailing_zeros(static_cast<uint32_t>(bit)), i);
    EXPECT_EQ(trailing_zeros(static_cast<uint32_t>(bit) | 0x80000000u), i);
  }
}

TEST(GpuArithmetic, ExpAndLogHaveTheBitsOfTheCpu) {
  expect_same_bits(many_floats(-kInf, kInf), cpu_kernels().exp, exp_f32);
  expect_same_bits(many_floats(-1000.0f, 0.0f), cpu_kernels().exp, exp_of_low);
  EXPECT_EQ(exp_of_low(-kInf), 0.0f);
  expect_same_bits(many_floats(-kInf, 0.0f), cpu_kernels().exp2, exp2_f32);
  expect_same_bits(many_floats(0.0f, kInf), cpu_kernels().log, log_f32);
}

TEST(GpuArithmetic, NoNumberBecomesOneInBfloat16) {
  for (const uint32_t nan : {0x7FFFFFFFu, 0xFFFFFFFFu, 0x7FC00000u, 0xFFC00000u, 0x7F800001u}) {
    const float back = from_bf16(to_bf16(float_of(nan)));
    EXPECT_FALSE(back == back) << nan;
  }
  EXPECT_EQ(from_bf16(to_bf16(kInf)), kInf);
}

TEST(GpuArithmetic, ActivationsHaveTheBitsOfTheCpu) {
  const std::vector<float> gate = many_floats(-100.0f, 100.0f);
  const auto n = static_cast<int>(gate.size());
  std::vector<float> up(gate.rbegin(), gate.rend());
  std::vector<float> expected(gate.size());
  float (*const functions[])(float, float) = {silu, gelu_tanh, gelu, relu};
  for (size_t kind = 0; kind < cpu::kActivations; ++kind) {
    cpu_kernels().activate[kind](gate.data(), up.data(), n, expected.data());
    for (size_t i = 0; i < gate.size(); ++i) {
      ASSERT_EQ(bits_of(functions[kind](gate[i], up[i] * gate[i])), bits_of(expected[i])) << kind << ": " << gate[i];
    }
  }
  expected = gate;
  cpu_kernels().soft_cap(expected.data(), n, 30.0f);
  for (size_t i = 0; i < gate.size(); ++i) ASSERT_EQ(bits_of(soft_cap(gate[i], 30.0f)), bits_of(expected[i]));
}

// A row of equal logits is won by the largest noise: the token whose noise is offered last without being beaten.
TEST(GpuArithmetic, NoiseHasTheBitsOfTheCpu) {
  const RandomStream stream{.seed = 99, .position = 17};
  constexpr int kTokens = 20000;
  const std::vector<float> z(kTokens, 0.5f);
  for (int n = 1; n <= kTokens; n = n * 2 + 1) {
    float best = -kInf;
    int winner = -1;
    for (int id = 0; id < n; ++id) {
      const float score = z[static_cast<size_t>(id)] + gumbel_of(stream.bits(static_cast<uint32_t>(id)));
      if (score > best) {
        best = score;
        winner = id;
      }
    }
    EXPECT_EQ(winner, cpu_kernels().gumbel_argmax(z.data(), n, {}, stream));
  }
}

TEST(GpuArithmetic, E4m3HasTheNumbersOfItsSpecification) {
  EXPECT_EQ(from_e4m3(0x00), 0.0f);
  EXPECT_EQ(from_e4m3(0x01), 0x1p-9f);
  EXPECT_EQ(from_e4m3(0x07), 0.875f * 0x1p-6f);
  EXPECT_EQ(from_e4m3(0x08), 0x1p-6f);
  EXPECT_EQ(from_e4m3(0x38), 1.0f);
  EXPECT_EQ(from_e4m3(0xFE), -448.0f);
  EXPECT_TRUE(std::isnan(from_e4m3(0x7F)) && std::isnan(from_e4m3(0xFF)));
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(to_e4m3(from_e4m3(static_cast<uint8_t>(byte))), byte);
  EXPECT_EQ(to_e4m3(1e9f), 0x7E);
  EXPECT_EQ(to_e4m3(-kInf), 0xFE);
}

// Between two neighbours, at a quarter, the middle and three quarters of the way.
TEST(GpuArithmetic, E4m3RoundsToTheNearestAndHalvesToEven) {
  for (int byte = 0; byte < 0x7E; ++byte) {
    const float low = from_e4m3(static_cast<uint8_t>(byte)), high = from_e4m3(static_cast<uint8_t>(byte + 1));
    const int even = byte % 2 == 0 ? byte : byte + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const int sign_bit = sign < 0 ? 0x80 : 0;
      EXPECT_EQ(to_e4m3(sign * (low + 0.25f * (high - low))), sign_bit | byte) << byte;
      EXPECT_EQ(to_e4m3(sign * (low + 0.5f * (high - low))), sign_bit | even) << byte;
      EXPECT_EQ(to_e4m3(sign * (low + 0.75f * (high - low))), sign_bit | (byte + 1)) << byte;
    }
  }
}

TEST(GpuArithmetic, RoundsHalvesToEven) {
  EXPECT_EQ(round_to_int(0.5f), 0);
  EXPECT_EQ(round_to_int(1.5f), 2);
  EXPECT_EQ(round_to_int(-2.5f), -2);
  EXPECT_EQ(round_to_int(32511.5f), 32512);
  EXPECT_EQ(round_to_int(-127.49f), -127);
}

}  // namespace
}  // namespace bass::cuda
