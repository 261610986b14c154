#include "kernels/cuda/matmul/product_choice.h"

#include <gtest/gtest.h>

#include "kernels/cuda/matmul/product_testing.h"

namespace bass::cuda {
namespace {

using cpu::testing::FileMatrix;
using testing::Uploaded;

TEST(ProductChoice, TakesBytesAsLongAsTheyAreNoSlower) {
  const std::vector<ProductTimes> usual{{1, 1, 3}, {2, 1.5, 3}, {4, 3, 3}, {8, 6, 3}, {16, 2, 3}};
  EXPECT_EQ(choose_byte_rows(usual), 4) << "what comes behind a slower one is chance";
  EXPECT_EQ(choose_byte_rows(std::vector<ProductTimes>{{1, 2, 1}, {2, 1, 2}}), 0);
  EXPECT_EQ(choose_byte_rows(std::vector<ProductTimes>{{1, 1, 2}, {64, 1, 2}}), 64);
  EXPECT_EQ(choose_byte_rows({}), 0);
}

// Times of the emulator choose something that no GPU would, and products of one shape alike.
TEST(ProductChoice, MeasuresEachShapeOnce) {
  EmulatedDeviceOptions options;
  options.has_own_speed = true;
  const auto device = open_emulated_device(options);
  std::mt19937 rng(4);
  const FileMatrix small(DType::kQ8_0, 40, 64, rng), same(DType::kQ8_0, 40, 64, rng), other(DType::kQ4_1, 40, 64, rng);
  const FileMatrix floats(DType::kF16, 40, 64, rng);
  Uploaded a(device.get(), small), b(device.get(), other), c(device.get(), same), d(device.get(), floats);
  for (Uploaded* uploaded : {&a, &b, &c, &d}) uploaded->matrix.byte_rows = -1;
  ASSERT_TRUE(choose_all_products(device.get(), {&a.matrix, &b.matrix, &c.matrix, &d.matrix}).ok());
  EXPECT_GE(a.matrix.byte_rows, 0);
  EXPECT_EQ(a.matrix.byte_rows, c.matrix.byte_rows);
  EXPECT_GE(b.matrix.byte_rows, 0);
  EXPECT_EQ(d.matrix.byte_rows, -1) << "floats have one kernel";
}

TEST(ProductChoice, LeavesTheGuessWhereTimesSayNothing) {
  const auto device = open_emulated_device();
  std::mt19937 rng(5);
  Uploaded matrix(device.get(), FileMatrix(DType::kQ8_0, 16, 32, rng));
  const int guess = matrix.matrix.byte_rows;
  ASSERT_TRUE(choose_all_products(device.get(), {&matrix.matrix}).ok());
  EXPECT_EQ(matrix.matrix.byte_rows, guess);
}

}  // namespace
}  // namespace bass::cuda
