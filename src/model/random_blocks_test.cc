#include "model/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace bass {
namespace {

class RandomBlocksTest : public ::testing::TestWithParam<DType> {};

std::vector<std::byte> fill(const RandomTensor& tensor, int64_t first, int64_t n) {
  std::vector<std::byte> bytes(static_cast<size_t>(n) * random_unit_bytes(tensor.type));
  fill_random_units(tensor, first, n, bytes.data());
  return bytes;
}

TEST_P(RandomBlocksTest, ValuesHaveTheMomentsThatWereAskedFor) {
  constexpr int64_t kUnits = 4000;
  constexpr float kStdDev = 0.0125f;
  const RandomTensor tensor{GetParam(), 7, 3, kStdDev};
  const std::vector<std::byte> bytes = fill(tensor, 0, kUnits);
  std::vector<float> values(kUnits * kRandomUnitLen);
  dequantise_row(tensor.type, bytes.data(), static_cast<int>(values.size()), values.data());
  double sum = 0, sum_of_squares = 0;
  for (const float value : values) {
    ASSERT_TRUE(std::isfinite(value));
    ASSERT_LT(std::abs(value), 4 * kStdDev);
    sum += value;
    sum_of_squares += double{value} * value;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 6 * kStdDev / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(sum_of_squares / n) / kStdDev, 1.0, 0.06);
}

TEST_P(RandomBlocksTest, UnitsDependOnNothingButTheirIndex) {
  const RandomTensor tensor{GetParam(), 7, 3, 1.0f};
  const std::vector<std::byte> whole = fill(tensor, 0, 20);
  const std::vector<std::byte> end = fill(tensor, 13, 7);
  EXPECT_TRUE(std::equal(end.begin(), end.end(), whole.end() - static_cast<ptrdiff_t>(end.size())));
  RandomTensor other = tensor;
  other.seed = 8;
  EXPECT_NE(fill(other, 0, 20), whole);
  other = tensor;
  other.tensor_idx = 4;
  EXPECT_NE(fill(other, 0, 20), whole);
  std::set<std::vector<std::byte>> units;
  for (int64_t i = 0; i < 20; ++i) units.insert(fill(tensor, i, 1));
  units.insert(fill(tensor, (int64_t{1} << 32) + 1, 1));  // the index's high word counts
  EXPECT_EQ(units.size(), 21u);
}

INSTANTIATE_TEST_SUITE_P(Types, RandomBlocksTest, ::testing::ValuesIn(random_types().begin(), random_types().end()),
                         [](const auto& type) { return std::string(dtype_info(type.param).name); });

}  // namespace
}  // namespace bass
