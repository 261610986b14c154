// Ragged attention over caches of floats on an emulated GPU: near to double precision, and the same bits in every
// layout and batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/attention/attention_testing.h"

namespace bass::cuda {
namespace {

using testing::attend;
using testing::Batch;
using testing::HeadShape;
using testing::kKinds;
using testing::same_bits;
using testing::Sequence;

/// Weights are rounded to the numbers of the cache, everything else is float32: an eighth of a step of the largest
/// value, of some 4, is what that may bring.
double tolerance_of(KvNumbers numbers) { return numbers == KvNumbers::kF16 ? 0x1p-10 : 0x1p-7; }

double largest_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(double{a[i]} - double{b[i]});
    if (!(distance <= largest)) largest = distance;  // a NaN, too
  }
  return largest;
}

std::string describe(const HeadShape& heads, int window) {
  return "head_dim " + std::to_string(heads.head_dim) + ", heads " + std::to_string(heads.n_heads) + "/" +
         std::to_string(heads.n_kv_heads) + ", numbers " + std::to_string(static_cast<int>(heads.numbers)) +
         ", window " + std::to_string(window);
}

/// With both types of floats.
void expect_near_and_equal(HeadShape heads, const std::vector<Sequence>& sequences, int window = 0) {
  static const std::unique_ptr<Device> gpu = testing::real_gpu();
  for (const KvNumbers numbers : {KvNumbers::kF16, KvNumbers::kBf16}) {
    heads.numbers = numbers;
    const Batch batch(heads, sequences, window);
    const std::vector<float> expected = batch.expected();
    const auto check = [&](const auto& attend_in) {
      const std::vector<float> first = attend_in(kKinds[0]);
      EXPECT_LT(largest_distance(first, expected), tolerance_of(numbers)) << describe(heads, window);
      for (const GpuAttentionKind kind : kKinds) {
        EXPECT_TRUE(same_bits(attend_in(kind), first))
            << "layout " << static_cast<int>(kind) << ", " << describe(heads, window);
      }
    };
    check([&](GpuAttentionKind kind) { return attend(batch, kind, window); });
    if (gpu != nullptr) check([&](GpuAttentionKind kind) { return attend(*gpu, batch, kind, window); });
  }
}

TEST(GpuFloatAttention, IsNearAndEqualInAllLayoutsForEveryHeadShape) {
  for (const int head_dim : {64, 80, 96, 128, 16, 256}) {
    for (const auto& [n_heads, n_kv_heads] : {std::pair(2, 2), std::pair(7, 1)}) {
      expect_near_and_equal({head_dim, n_heads, n_kv_heads}, {{40, 3}, {33, 1}, {2, 1}});
    }
    // Cut and shared.
    expect_near_and_equal({head_dim, 4, 1}, {{400, 3}, {395, 1, true, 0, 11}, {350, 1}, {20, 1}});
  }
}

TEST(GpuFloatAttention, IsNearAndEqualInAllLayoutsForEveryLength) {
  for (const int length : {1, 31, 32, 33, 64, 65}) {
    std::vector<Sequence> sequences;
    for (const int n_rows : {1, 2, 5, 6, 11}) {
      if (n_rows <= length) sequences.push_back({length - n_rows, n_rows});
    }
    expect_near_and_equal({32, 3, 1}, sequences);
  }
  expect_near_and_equal({32, 2, 1}, {{0, 40, false}, {64, 33, false}, {70, 2}});  // prompts beside a decode
  expect_near_and_equal({16, 40, 1}, {{33, 1}, {5, 2}});                          // a group of more heads than a tile
  expect_near_and_equal({32, 2, 1}, {{3, 1}, {700, 4}, {0, 1}, {31, 2}, {12, 1}});
}

TEST(GpuFloatAttention, IsNearAndEqualInAllLayoutsForWindowsAndCappedScores) {
  const std::vector<Sequence> sequences{{126, 6}, {300, 2, true}, {310, 1, true, 1, 9}, {60, 1}, {64, 20, false}};
  for (const int window : {1, 5, 32, 33, 100}) expect_near_and_equal({32, 3, 1}, sequences, window);
  expect_near_and_equal({32, 3, 1, KvNumbers::kF16, 5.0f, 0.3f}, sequences, 40);
}

TEST(GpuFloatAttention, ARowsBitsDoNotDependOnItsBatch) {
  for (const KvNumbers numbers : {KvNumbers::kF16, KvNumbers::kBf16}) {
    const HeadShape heads{32, 4, 2, numbers};
    const std::vector<Sequence> sequences{
        {40, 1, true, -1, 0, 11}, {290, 3, true, -1, 0, 12}, {0, 2, true, -1, 0, 13}, {95, 7, true, -1, 0, 14}};
    const Batch together(heads, sequences, 0);
    const std::vector<float> all = attend(together, GpuAttentionKind::kFused, 0);
    constexpr size_t kRowLen = 4 * 32;
    for (size_t i = 0; i < sequences.size(); ++i) {
      // Whatever there is where nobody has written.
      const Batch other(heads, {sequences[i]}, 0, /*has_text=*/true, std::byte{0xE9});
      const std::vector<float> alone = attend(other, GpuAttentionKind::kFused, 0);
      const auto begin =
          all.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(together.segments[i].first_row) * kRowLen);
      EXPECT_TRUE(same_bits(alone, {begin, begin + static_cast<ptrdiff_t>(alone.size())})) << i;
    }
  }
}

TEST(GpuFloatAttention, NeedsNoOrderOfThreads) {
  const Batch batch({32, 3, 1, KvNumbers::kBf16}, {{330, 2}, {321, 1, true, 0, 9}, {20, 7, false}}, 0);
  testing::expect_any_order_of_threads(batch, attend(batch, GpuAttentionKind::kSplit, 0));
}

// Negative controls of the tolerances: f16's is not met by bfloat16, nor bfloat16's by int8.
TEST(GpuFloatAttention, CoarserNumbersAreFartherAway) {
  const std::vector<Sequence> sequences{{400, 3}, {33, 1}};
  const Batch in_bf16({64, 4, 1, KvNumbers::kBf16}, sequences, 0);
  const Batch in_f16({64, 4, 1, KvNumbers::kF16}, sequences, 0);
  EXPECT_GT(largest_distance(attend(in_bf16, GpuAttentionKind::kFused, 0), in_f16.expected()),
            tolerance_of(KvNumbers::kF16));
  const Batch in_int8({64, 4, 1, KvNumbers::kInt8}, sequences, 0);
  EXPECT_GT(largest_distance(attend(in_int8, GpuAttentionKind::kFused, 0), in_f16.expected()),
            tolerance_of(KvNumbers::kBf16));
}

}  // namespace
}  // namespace bass::cuda
