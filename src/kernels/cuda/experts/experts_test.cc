// Mixture of experts on the device: choices, slots and products beside obvious loops on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cuda/experts/launch_expert_product.h"
#include "kernels/cuda/experts/route_rows.h"
#include "kernels/cuda/matmul/product_testing.h"

namespace bass::cuda {
namespace {

using cpu::testing::FileMatrix;
using cpu::testing::random_floats;
using cpu::testing::same_bits;
using testing::DeviceArray;
using testing::is_float;
using testing::reference_product;
using testing::Rows;
using testing::Uploaded;

size_t product(int a, int b) { return static_cast<size_t>(a) * static_cast<size_t>(b); }

struct Choice {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

/// Of one row, with the exponentials that both backends have.
Choice expected_choice(const float* logits, int n_experts, int n_used, bool sums_to_one) {
  const float largest = *std::max_element(logits, logits + n_experts);
  std::vector<float> p;
  for (int e = 0; e < n_experts; ++e) p.push_back(exp_f32(logits[e] - largest));
  std::vector<int32_t> order(static_cast<size_t>(n_experts));
  std::iota(order.begin(), order.end(), 0);
  const auto probability = [&](int32_t e) { return p[static_cast<size_t>(e)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return probability(a) > probability(b); });
  Choice choice;
  choice.ids.assign(order.begin(), order.begin() + n_used);
  std::sort(choice.ids.begin(), choice.ids.end());
  float sum = 0;
  if (sums_to_one) {
    for (const int32_t id : choice.ids) sum += probability(id);
  } else {
    for (const float x : p) sum += x;
  }
  for (const int32_t id : choice.ids) choice.weights.push_back(probability(id) / sum);
  return choice;
}

/// What ChooseExperts says of rows of logits.
Choice choose(Device* device, const std::vector<float>& logits, int n_rows, int n_experts, int n_used,
              bool sums_to_one) {
  const DeviceArray<float> probabilities(device, logits);
  const DeviceArray<int32_t> chosen(device, std::vector<int32_t>(product(n_rows, n_used), -7));
  const DeviceArray<float> weights(device, std::vector<float>(product(n_rows, n_used)));
  const ChooseExperts kernel{probabilities.data(), n_rows,        n_experts,     n_used,
                             sums_to_one ? 1 : 0,  chosen.data(), weights.data()};
  launch(*device, kernel, kernel.shape());
  return {chosen.read(), weights.read()};
}

void expect_right_choices(Device* device, int n_rows, int n_experts, int n_used, bool sums_to_one, std::mt19937& rng) {
  std::vector<float> logits = random_floats(product(n_rows, n_experts), rng, 3.0f);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i]);  // equal ones
  const Choice got = choose(device, logits, n_rows, n_experts, n_used, sums_to_one);
  for (int row = 0; row < n_rows; ++row) {
    const Choice expected = expected_choice(&logits[product(row, n_experts)], n_experts, n_used, sums_to_one);
    for (int i = 0; i < n_used; ++i) {
      const size_t at = product(row, n_used) + static_cast<size_t>(i);
      ASSERT_EQ(got.ids[at], expected.ids[static_cast<size_t>(i)]) << n_experts << " experts, row " << row;
      ASSERT_EQ(got.weights[at], expected.weights[static_cast<size_t>(i)]) << n_experts << " experts, row " << row;
    }
  }
}

TEST(GpuExperts, ChoosesTheMostProbableAndOfEqualsTheFirst) {
  std::mt19937 rng(11);
  for (const auto& device : testing::all_devices()) {
    for (const bool sums_to_one : {false, true}) {
      for (const int n_experts : {2, 8, 31, 32, 33, 64, 129, kMaxGpuExperts}) {
        for (const int n_rows : {1, 4, 7}) {
          expect_right_choices(device.get(), n_rows, n_experts, std::min(n_experts, 6), sums_to_one, rng);
        }
      }
      expect_right_choices(device.get(), 2, 40, 40, sums_to_one, rng);  // all of them
    }
  }
}

TEST(GpuExperts, NamesExpertsEvenWhereNothingIsANumber) {
  const std::vector<float> logits(36, std::numeric_limits<float>::quiet_NaN());
  for (const auto& device : testing::all_devices()) {
    EXPECT_EQ(choose(device.get(), logits, 1, 36, 3, true).ids, (std::vector<int32_t>{0, 1, 2}));
  }
}

/// Rows that were given to experts, in the device's memory.
struct Placed {
  DeviceArray<int32_t> chosen;
  DeviceArray<int32_t> begins;
  DeviceArray<int32_t> slots;
  DeviceArray<int32_t> rows;

  Placed(Device* device, const std::vector<int32_t>& ids, int n_used, int n_experts)
      : chosen(device, ids),
        begins(device, std::vector<int32_t>(static_cast<size_t>(n_experts) + 1, -7)),
        slots(device, std::vector<int32_t>(ids.size(), -7)),
        rows(device, std::vector<int32_t>(ids.size(), -7)) {
    const int n_rows = static_cast<int>(ids.size()) / n_used;
    const PlaceExperts kernel{chosen.data(), n_rows, n_used, n_experts, begins.data(), slots.data(), rows.data()};
    launch(*device, kernel, kernel.shape());
  }
};

TEST(GpuExperts, GivesTheRowsOfAnExpertNeighbouringSlots) {
  const std::vector<int32_t> ids{1, 4, 0, 4, 1, 2, 1, 4};  // four rows of two; nobody asks for 3
  for (const auto& device : testing::all_devices()) {
    const Placed placed(device.get(), ids, 2, 6);
    EXPECT_EQ(placed.begins.read(), (std::vector<int32_t>{0, 1, 4, 5, 5, 8, 8}));
    EXPECT_EQ(placed.slots.read(), (std::vector<int32_t>{1, 5, 0, 6, 2, 4, 3, 7}));
    EXPECT_EQ(placed.rows.read(), (std::vector<int32_t>{1, 0, 2, 3, 2, 0, 1, 3}));
  }
}

// More experts than threads, one of them with more rows than a block of the product takes.
TEST(GpuExperts, PlacesManyRowsAmongManyExperts) {
  std::vector<int32_t> ids;
  for (int row = 0; row < 40; ++row) ids.insert(ids.end(), {row % 3, 300 + row % 5});
  for (const auto& device : testing::all_devices()) {
    const Placed placed(device.get(), ids, 2, 310);
    const std::vector<int32_t> begins = placed.begins.read();
    const std::vector<int32_t> slots = placed.slots.read();
    const std::vector<int32_t> rows = placed.rows.read();
    EXPECT_EQ(begins.back(), 80);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto expert = static_cast<size_t>(ids[i]);
      EXPECT_TRUE(begins[expert] <= slots[i] && slots[i] < begins[expert + 1]) << i;
      EXPECT_EQ(rows[static_cast<size_t>(slots[i])], static_cast<int>(i / 2));
    }
  }
}

void expect_products_of_experts(Device* device, DType type, int n_planes, std::mt19937& rng) {
  constexpr int kExperts = 4;
  constexpr int kUsed = 2;
  constexpr int kRows = 11;  // more than a block takes
  constexpr int kOut = 21;
  const int n_in = std::max(96 / dtype_info(type).block_len, 1) * dtype_info(type).block_len;
  std::vector<FileMatrix> files;
  std::vector<Uploaded> uploaded;
  std::vector<DeviceMatrix> matrices;
  for (int e = 0; e < kExperts; ++e) files.emplace_back(type, kOut, n_in, rng);
  for (const FileMatrix& file : files) uploaded.emplace_back(device, file);
  for (const Uploaded& one : uploaded) matrices.push_back(one.matrix);
  const DeviceArray<DeviceMatrix> all(device, matrices);
  std::vector<int32_t> ids;
  for (int row = 0; row < kRows; ++row) ids.insert(ids.end(), {0, 2 + row % 2});  // 0: all rows; 1: none
  const Placed placed(device, ids, kUsed, kExperts);
  const int n_slots = kRows * kUsed;
  const std::vector<float> x = random_floats(product(kRows, n_in), rng);
  const int planes = is_float(type) ? 0 : n_planes;
  const Rows rows(device, x, kRows, n_in, planes);
  const Rows gathered(device, std::vector<float>(product(n_slots, n_in)), n_slots, n_in, planes);
  const GatherActivations gather{rows.view, placed.rows.data(), n_slots, gathered.view};
  launch(*device, gather, gather.shape());
  const DeviceArray<float> out(device, std::vector<float>(product(n_slots, kOut), 1));
  launch_expert_product(
      *device, {matrices.front(), all.data(), {kExperts, placed.begins.data()}, gathered.view, out.data(), kRows});
  const std::vector<float> sum_before = random_floats(product(kRows, kOut), rng);
  const std::vector<float> weights = random_floats(ids.size(), rng);
  const DeviceArray<float> sums(device, sum_before);
  const DeviceArray<float> device_weights(device, weights);
  const AddExperts add{out.data(), placed.slots.data(), device_weights.data(), kRows, kUsed, kOut, sums.data()};
  launch(*device, add, add.shape());

  std::vector<std::vector<float>> products;
  for (const FileMatrix& file : files) products.push_back(reference_product(file, x, kRows, n_planes));
  std::vector<float> expected = sum_before;
  for (size_t at = 0; at < expected.size(); ++at) {
    for (size_t i = at / kOut * kUsed; i < (at / kOut + 1) * kUsed; ++i) {
      expected[at] += weights[i] * products[static_cast<size_t>(ids[i])][at];
    }
  }
  EXPECT_TRUE(same_bits(sums.read(), expected)) << dtype_info(type).name << ", " << n_planes << " planes";
}

TEST(GpuExperts, MultipliesAndAddsWithTheBitsOfTheReference) {
  std::mt19937 rng(12);
  for (const auto& device : testing::all_devices()) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                             DType::kQ5_1, DType::kQ2_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
      for (const int n_planes : {1, 2}) expect_products_of_experts(device.get(), type, n_planes, rng);
    }
  }
}

}  // namespace
}  // namespace bass::cuda
