// Matrix products on the device: the bits of reference/ for every format, shape and number of rows.
#include <gtest/gtest.h>

#include "kernels/cuda/matmul/launch_product.h"
#include "kernels/cuda/matmul/product_testing.h"
#include "kernels/cuda/rows/embed_rows.h"

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

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,  DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K,  DType::kQ3_K,
                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL};

void expect_reference_bits(Device* device, ProductKind kind, DType type, int n_rows, int n_out, int min_in,
                           int n_planes) {
  std::mt19937 rng(static_cast<uint32_t>(n_rows * 1000 + n_out));
  const int block_len = dtype_info(type).block_len;
  const int n_in = (min_in + block_len - 1) / block_len * block_len;
  const FileMatrix file(type, n_out, n_in, rng);
  const std::vector<float> x = random_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(n_in), rng);
  const Uploaded w(device, file);
  const Rows rows(device, x, n_rows, n_in, is_float(type) ? 0 : n_planes);
  const DeviceArray<float> out(device, std::vector<float>(static_cast<size_t>(n_rows) * static_cast<size_t>(n_out), 1));
  ProductArguments arguments{w.matrix, rows.view, out.data(), n_out, n_rows, 0};
  launch_product(*device, arguments, kind);
  std::vector<float> expected = reference_product(file, x, n_rows, n_planes);
  ASSERT_TRUE(same_bits(out.read(), expected)) << dtype_info(type).name << ", " << n_rows << " rows, " << n_in << " -> "
                                               << n_out << ", " << n_planes << " planes";
  arguments.accumulates = 1;
  launch_product(*device, arguments, kind);
  for (float& value : expected) value = value + value;
  ASSERT_TRUE(same_bits(out.read(), expected)) << dtype_info(type).name << " accumulating";
}

TEST(GpuProduct, HasTheBitsOfTheReferenceForEveryFormatAndShape) {
  for (const auto& device : testing::all_devices()) {
    for (const DType type : kTypes) {
      for (const int n_planes : {1, 2}) {
        for (const ProductKind kind : {ProductKind::kBytes, ProductKind::kTiles}) {
          for (const int n_rows : {1, 3, 4, 9}) {
            expect_reference_bits(device.get(), kind, type, n_rows, 21, 96, n_planes);
          }
          expect_reference_bits(device.get(), kind, type, 2, 1, 32, n_planes);
          expect_reference_bits(device.get(), kind, type, 5, 48, 1280, n_planes);  // more than a round of groups
        }
      }
    }
  }
}

// Tiles are multiplied by other blocks where there are more rows, and weights read ahead in other steps where a matrix
// has few tiles, more, or many.
TEST(GpuProduct, HasTheBitsOfTheReferenceInBlocksOfAnySize) {
  for (const auto& device : testing::all_devices()) {
    for (const DType type : kTypes) {
      if (is_float(type)) continue;
      for (const int n_rows : {8, 16, 25, 41, 70}) {
        expect_reference_bits(device.get(), ProductKind::kTiles, type, n_rows, 21, 576, 1);
      }
      // Around the ring, which copies are made for whose registers are others than those of the first ones.
      for (const int n_rows : {8, 16, 25, 41}) {
        expect_reference_bits(device.get(), ProductKind::kTiles, type, n_rows, 21, 3392, 1);
      }
      expect_reference_bits(device.get(), ProductKind::kTiles, type, 33, 21, 352, 2);
      expect_reference_bits(device.get(), ProductKind::kTiles, type, 2, 513 * kChannels + 1, 32, 1);
    }
    for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
      expect_reference_bits(device.get(), ProductKind::kTiles, type, 3, 21, 3392, 1);  // around the ring and further
      expect_reference_bits(device.get(), ProductKind::kTiles, type, 1, 132 * kChannels + 1, 1312, 1);
      expect_reference_bits(device.get(), ProductKind::kTiles, type, 2, 264 * kChannels + 1, 288, 1);
    }
    // The same of matrices with more tiles, and with many.
    expect_reference_bits(device.get(), ProductKind::kTiles, DType::kQ8_0, 8, 513 * kChannels + 1, 1792, 1);
    expect_reference_bits(device.get(), ProductKind::kTiles, DType::kQ8_0, 16, 193 * kChannels + 1, 3392, 1);
    expect_reference_bits(device.get(), ProductKind::kTiles, DType::kQ8_0, 25, 529 * kChannels, 1312, 1);
    expect_reference_bits(device.get(), ProductKind::kTiles, DType::kQ4_0, 16, 529 * kChannels, 672, 1);
    expect_reference_bits(device.get(), ProductKind::kTiles, DType::kQ8_0, 33, 529 * kChannels, 480, 1);
  }
}

TEST(GpuProduct, AddsABiasToTheFinishedSum) {
  for (const auto& device : testing::all_devices()) {
    std::mt19937 rng(3);
    for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ4_K}) {
      const FileMatrix file(type, 20, 256, rng);
      const std::vector<float> x = random_floats(256 * 2, rng);
      const std::vector<float> bias = random_floats(20, rng);
      Uploaded w(device.get(), file);
      const DeviceArray<float> device_bias(device.get(), bias);
      w.matrix.bias = device_bias.data();
      const Rows rows(device.get(), x, 2, 256, is_float(type) ? 0 : 1);
      const DeviceArray<float> out(device.get(), std::vector<float>(2 * 20));
      launch_product(*device, {w.matrix, rows.view, out.data(), 20, 2, 0});
      std::vector<float> expected = reference_product(file, x, 2, 1);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 20];
      EXPECT_TRUE(same_bits(out.read(), expected)) << dtype_info(type).name;
    }
  }
}

TEST(GpuEmbedding, HasTheNumbersOfTheFile) {
  for (const auto& device : testing::all_devices()) {
    std::mt19937 rng(5);
    for (const DType type : kTypes) {
      const FileMatrix file(type, 37, 256, rng);
      const Uploaded w(device.get(), file);
      // Row 2's token is what the step has drafted at 1.
      const DeviceArray<DeviceRow> rows(device.get(), {{36, 0}, {0, 1}, {-2, 2}});
      const DeviceArray<int32_t> drafted(device.get(), {5, 17});
      const DeviceArray<float> x(device.get(), std::vector<float>(3 * 256));
      EmbedRows kernel{
          .embedding = w.matrix, .rows = rows.data(), .drafted = drafted.data(), .x = x.data(), .n_rows = 3};
      launch(*device, kernel, kernel.shape());
      std::vector<float> expected(3 * 256);
      const int tokens[] = {36, 0, 17};
      for (int i = 0; i < 3; ++i) dequantise_row(type, file.row(tokens[i]), 256, expected.data() + i * 256);
      EXPECT_TRUE(same_bits(x.read(), expected)) << dtype_info(type).name;
    }
  }
}

}  // namespace
}  // namespace bass::cuda
