#include "executor/cpu/head_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/kernels_testing.h"
#include "tensor/quant_format.h"
#include "tensor/quantise.h"

namespace bass::cpu {
namespace {

using testing::FileMatrix;
using testing::PackedCopy;

constexpr int kInputs = 256;

std::vector<float> row_of(const PackedMatrix& matrix, int row) {
  std::vector<float> values(static_cast<size_t>(matrix.n_in));
  unpack_row(matrix, row, values.data());
  return values;
}

std::vector<float> as_q4_0(const std::vector<float>& row) {
  std::vector<std::byte> blocks(row.size() / kGroupLen * sizeof(BlockQ4_0));
  std::vector<float> values(row.size());
  EXPECT_TRUE(quantise_row(DType::kQ4_0, row.data(), static_cast<int>(row.size()), blocks.data()));
  dequantise_row(DType::kQ4_0, blocks.data(), static_cast<int>(row.size()), values.data());
  return values;
}

class HeadRowsOf : public ::testing::TestWithParam<DType> {
 protected:
  std::mt19937 rng_{7};
  ThreadTeam team_{3};
  FileMatrix file_{GetParam(), 90, kInputs, rng_};
  PackedCopy head_{file_};
  const std::vector<int32_t> ids_{2, 7, 8, 30, 31, 32, 33, 34, 50, 51, 52, 60, 61, 62, 70, 71, 80, 89};
};
INSTANTIATE_TEST_SUITE_P(Types, HeadRowsOf,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ6_K, DType::kQ5_1,
                                           DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ2_K),
                         [](const auto& test) { return std::string(dtype_info(test.param).name); });

TEST_P(HeadRowsOf, AreTheMainModelsToTheBit) {
  const auto rows = HeadRows::pack(head_.matrix, ids_, std::nullopt, &team_);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->matrix().type, head_.matrix.type);
  for (size_t i = 0; i < ids_.size(); ++i) {
    EXPECT_EQ(row_of(rows->matrix(), static_cast<int>(i)), row_of(head_.matrix, ids_[i])) << i;
  }
}

TEST_P(HeadRowsOf, AreQuantisedUnlessTheyAreNarrow) {
  const auto rows = HeadRows::pack(head_.matrix, ids_, DType::kQ4_0, &team_);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  const bool is_narrow = head_.matrix.is_quantised() && quant_format(GetParam()).bits <= 4;
  EXPECT_EQ(rows->matrix().type, is_narrow ? GetParam() : DType::kQ4_0);
  for (size_t i = 0; i < ids_.size(); ++i) {
    const std::vector<float> whole = row_of(head_.matrix, ids_[i]);
    EXPECT_EQ(row_of(rows->matrix(), static_cast<int>(i)), is_narrow ? whole : as_q4_0(whole)) << i;
  }
}

TEST(HeadRows, KeepTheirBiasWhenTheyMove) {
  std::mt19937 rng(7);
  ThreadTeam team(1);
  PackedCopy head(FileMatrix(DType::kF32, 20, kInputs, rng));
  const std::vector<float> bias = testing::random_floats(20, rng);
  head.matrix.bias = bias.data();
  HeadRows rows = HeadRows::pack(head.matrix, std::vector<int32_t>{3, 19}, std::nullopt, &team).value();
  const HeadRows moved = std::move(rows);
  EXPECT_EQ(moved.matrix().bias[0], bias[3]);
  EXPECT_EQ(moved.matrix().bias[1], bias[19]);
}

TEST(HeadRows, OfNoWholeGroupsStay) {
  std::mt19937 rng(7);
  ThreadTeam team(1);
  const PackedCopy head(FileMatrix(DType::kF16, 20, 40, rng));
  const auto rows = HeadRows::pack(head.matrix, std::vector<int32_t>{3}, DType::kQ4_0, &team);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->matrix().type, DType::kF16);
}

TEST(HeadRows, ThatFourBitsCannotHoldAreAnError) {
  std::mt19937 rng(7);
  ThreadTeam team(2);
  FileMatrix file(DType::kF32, 20, kInputs, rng);
  constexpr float kHuge = 1e30f;
  std::memcpy(file.data.data() + 4 * file.row_bytes, &kHuge, sizeof(kHuge));
  const PackedCopy head(file);
  EXPECT_TRUE(HeadRows::pack(head.matrix, std::vector<int32_t>{3, 5}, DType::kQ4_0, &team).ok());
  const auto rows = HeadRows::pack(head.matrix, std::vector<int32_t>{3, 4}, DType::kQ4_0, &team);
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(rows.status().message(), ::testing::HasSubstr("the main model's head"));
}

}  // namespace
}  // namespace bass::cpu
