// Matrix products on the device: the bits of reference/ for every format, shape and number of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "kernels/cuda/matmul/launch_product.h"
#include "kernels/cuda/matmul/product_testing.h"
#include "kernels/cuda/rows/embed_rows.h"
#include "kernels/cuda/rows/quantise_tokens.h"

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

// Sums in float32 of products of numbers of 8 bits: 2^-8 of the terms' magnitude bounds what rounding x takes away.
TEST(GpuLibraryProduct, IsNearTheReference) {
  for (const auto& device : testing::all_devices()) {
    if (const Status status = device->open_library(); !status.ok()) {
      ASSERT_FALSE(testing::must_have_gpu()) << status.message();
      std::cout << device->info().name << ": " << status.message() << "\n";
      continue;
    }
    std::mt19937 rng(11);
    for (const auto& [n_rows, n_out, n_in] : {std::array{1, 64, 96}, std::array{3, 21, 576}, std::array{40, 48, 40}}) {
      const std::vector<float> x = random_floats(static_cast<size_t>(n_rows * n_in), rng);
      const std::vector<float> w = random_floats(static_cast<size_t>(n_out * n_in), rng);
      const std::vector<float> bias = random_floats(static_cast<size_t>(n_out), rng);
      std::vector<uint16_t> rounded(w.size());
      std::transform(w.begin(), w.end(), rounded.begin(), to_bf16);
      const DeviceArray<uint16_t> device_w(device.get(), rounded);
      const DeviceArray<float> device_bias(device.get(), bias), device_x(device.get(), x);
      const DeviceArray<uint16_t> x_bf16(device.get(), std::vector<uint16_t>(x.size()));
      DeviceActivations view;
      view.n_cols = n_in;
      view.bf16 = x_bf16.data();
      const ActivateRows round{.gate = device_x.data(), .n_rows = n_rows, .n = n_in, .out = view};
      launch(*device, round, round.shape());
      DeviceMatrix matrix;
      matrix.type = DType::kBF16;
      matrix.library = LibraryNumbers::kBf16;
      matrix.n_out = n_out;
      matrix.n_in = n_in;
      matrix.quants = reinterpret_cast<const std::byte*>(device_w.data());
      matrix.bias = device_bias.data();
      const int stride = n_out + 5;  // other products' columns lie between
      const DeviceArray<float> out(device.get(), std::vector<float>(static_cast<size_t>(n_rows * stride), 1));
      for (const int accumulates : {0, 1}) {
        launch_product(*device, {matrix, view, out.data() + 2, stride, n_rows, accumulates});
      }
      const std::vector<float> found = out.read();
      for (int r = 0; r < n_rows; ++r) {
        for (int c = 0; c < stride; ++c) {
          const float value = found[static_cast<size_t>(r * stride + c)];
          if (c < 2 || c >= n_out + 2) {
            EXPECT_EQ(value, 1.0f) << "what lies between is another's";
            continue;
          }
          double sum = bias[static_cast<size_t>(c - 2)], magnitude = 1;
          for (int k = 0; k < n_in; ++k) {
            const double term = static_cast<double>(bf16_to_f32(rounded[static_cast<size_t>((c - 2) * n_in + k)])) *
                                x[static_cast<size_t>(r * n_in + k)];
            sum += term;
            magnitude += std::abs(term);
          }
          EXPECT_NEAR(value, 2 * sum, magnitude * 2 / 256) << n_rows << " rows, " << n_in << " -> " << n_out;
        }
      }
    }
  }
}

/// Weights and activations in bytes, made by hand: what a library's product of them is, in double.
struct ByteRows {
  std::vector<uint8_t> bytes;
  std::vector<float> scales;
  std::vector<double> values;  // that the bytes stand for

  ByteRows(const std::vector<float>& x, int n_rows, int n_padded_rows, LibraryNumbers numbers) {
    const size_t n = x.size() / static_cast<size_t>(n_rows);
    const bool is_fp8 = numbers == LibraryNumbers::kFp8;
    for (size_t r = 0; r < static_cast<size_t>(n_rows); ++r) {
      float largest = 0;
      for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[r * n + i]));
      const float most = is_fp8 ? 448.0f : 127.0f;
      const float inverse = most / largest;
      scales.push_back(largest / most);
      for (size_t i = 0; i < n; ++i) {
        const float scaled = x[r * n + i] * inverse;
        const auto whole = static_cast<int8_t>(std::lrint(scaled));  // to even, as the default is
        bytes.push_back(is_fp8 ? to_e4m3(scaled) : static_cast<uint8_t>(whole));
        values.push_back(static_cast<double>(scales.back()) * (is_fp8 ? from_e4m3(bytes.back()) : whole));
      }
    }
    bytes.resize(static_cast<size_t>(n_padded_rows) * n, 0);
  }
};

/// What the library can multiply here.
std::vector<LibraryNumbers> byte_numbers(Device* device) {
  if (!device->open_library().ok()) {
    BASS_CHECK(!testing::must_have_gpu());
    return {};
  }
  if (device->info().compute_capability < 89) return {LibraryNumbers::kInt8};
  return {LibraryNumbers::kInt8, LibraryNumbers::kFp8};
}

/// Weights and activations in bytes on a device.
struct ByteProductCase {
  int n_rows, n_out, n_in;
  LibraryNumbers numbers;
  std::vector<float> x, bias;
  ByteRows weights, rows;
  DeviceArray<uint8_t> w, q;
  DeviceArray<float> channel_scales, device_bias, device_x, row_scales;
  DeviceArray<int32_t> sums;
  DeviceActivations view;
  DeviceMatrix matrix;

  ByteProductCase(Device* device, const std::array<int, 3>& shape, LibraryNumbers kind, std::mt19937& rng)
      : n_rows(shape[0]),
        n_out(shape[1]),
        n_in(shape[2]),
        numbers(kind),
        x(random_floats(static_cast<size_t>(n_rows * n_in), rng)),
        bias(random_floats(static_cast<size_t>(n_out), rng)),
        weights(random_floats(static_cast<size_t>(n_out * n_in), rng), n_out, library_padded(n_out, kind), kind),
        rows(x, n_rows, library_padded(n_rows, kind) + kLibraryAlignment, kind),
        w(device, weights.bytes),
        q(device, std::vector<uint8_t>(rows.bytes.size(), 0)),
        channel_scales(device, weights.scales),
        device_bias(device, bias),
        device_x(device, x),
        row_scales(device, std::vector<float>(static_cast<size_t>(n_rows), 99)),
        sums(device, std::vector<int32_t>(static_cast<size_t>((library_padded(n_rows, kind) + kLibraryAlignment) *
                                                              library_padded(n_out, kind)))) {
    view.n_cols = n_in;
    view.token = {kind, q.data(), row_scales.data(), reinterpret_cast<std::byte*>(sums.data())};
    matrix.library = kind;
    matrix.n_out = n_out;
    matrix.n_in = n_in;
    matrix.quants = reinterpret_cast<const std::byte*>(w.data());
    matrix.channel_scales = channel_scales.data();
    matrix.bias = device_bias.data();
    const QuantiseTokens quantise{device_x.data(), n_rows, n_in, view.token};
    launch(*device, quantise, quantise.shape());
  }

  /// A GPU sums products of FP8 more coarsely than float32.
  void expect_near(float value, int row, int channel, double factor) const {
    double sum = bias[static_cast<size_t>(channel)], magnitude = 1;
    for (int k = 0; k < n_in; ++k) {
      const double term =
          weights.values[static_cast<size_t>(channel * n_in + k)] * rows.values[static_cast<size_t>(row * n_in + k)];
      sum += term;
      magnitude += std::abs(term);
    }
    EXPECT_NEAR(value, factor * sum, factor * magnitude * (numbers == LibraryNumbers::kFp8 ? 0x1p-10 : 1e-6))
        << "row " << row << ", channel " << channel;
  }
};

TEST(GpuLibraryProduct, BytesAreScaledByRowAndChannel) {
  for (const auto& device : testing::all_devices()) {
    std::mt19937 rng(12);
    for (const LibraryNumbers numbers : byte_numbers(device.get())) {
      for (const std::array<int, 3>& shape : {std::array{1, 64, 96}, std::array{3, 21, 576}, std::array{40, 48, 48}}) {
        SCOPED_TRACE(shape[1]);
        const ByteProductCase given(device.get(), shape, numbers, rng);
        EXPECT_EQ(given.q.read(), given.rows.bytes);
        EXPECT_EQ(given.row_scales.read(), given.rows.scales);
        const int stride = given.n_out + 5;
        const DeviceArray<float> out(device.get(), std::vector<float>(static_cast<size_t>(given.n_rows * stride), 1));
        for (const int accumulates : {0, 1}) {
          launch_product(*device, {given.matrix, given.view, out.data() + 2, stride, given.n_rows, accumulates});
        }
        const std::vector<float> found = out.read();
        for (int r = 0; r < given.n_rows; ++r) {
          for (int c = 0; c < stride; ++c) {
            const float value = found[static_cast<size_t>(r * stride + c)];
            if (c >= 2 && c < given.n_out + 2) {
              given.expect_near(value, r, c - 2, 2);
            } else {
              EXPECT_EQ(value, 1.0f) << "what lies between is another's";
            }
          }
        }
      }
    }
  }
}

// A prompt's own rows of a head meet some of a block's rows: a product may begin at any row, and end at any.
TEST(GpuLibraryProduct, BytesFromAnyRow) {
  for (const auto& device : testing::all_devices()) {
    std::mt19937 rng(13);
    for (const LibraryNumbers numbers : byte_numbers(device.get())) {
      const ByteProductCase given(device.get(), {20, 24, 64}, numbers, rng);
      for (const int first : {1, 17}) {
        const int n_rows = given.n_rows - first;
        const DeviceArray<float> out(device.get(), std::vector<float>(static_cast<size_t>(n_rows * given.n_out), 99));
        launch_product(*device, {given.matrix, given.view.from_row(first), out.data(), given.n_out, n_rows, 0});
        const std::vector<float> found = out.read();
        for (size_t i = 0; i < found.size(); ++i) {
          const int at = static_cast<int>(i);
          given.expect_near(found[i], first + at / given.n_out, at % given.n_out, 1);
        }
      }
    }
  }
}

TEST(GpuLibraryProduct, RowsOfZerosAndOfNoNumbers) {
  constexpr int kCols = 48;
  std::vector<float> x(5 * kCols, 0.0f);
  std::fill_n(x.begin() + kCols, kCols, 1e-40f);  // too small for an inverse
  x[2 * kCols + 7] = -3.0f;
  for (const int row : {3, 4}) std::fill_n(x.begin() + row * kCols, kCols, 1.0f);
  x[3 * kCols + 40] = std::nanf("");
  x[4 * kCols + 1] = -kInf;
  for (const auto& device : testing::all_devices()) {
    for (const LibraryNumbers numbers : {LibraryNumbers::kInt8, LibraryNumbers::kFp8}) {
      const DeviceArray<float> device_x(device.get(), x), scales(device.get(), std::vector<float>(5, 99));
      const DeviceArray<uint8_t> q(device.get(), std::vector<uint8_t>(x.size(), 99));
      const QuantiseTokens quantise{device_x.data(), 5, kCols, {numbers, q.data(), scales.data(), nullptr}};
      launch(*device, quantise, quantise.shape());
      std::vector<uint8_t> found = q.read();
      found.resize(3 * kCols);  // of a row without a scale the bytes do not matter
      std::vector<uint8_t> expected(3 * kCols, 0);
      expected[2 * kCols + 7] = numbers == LibraryNumbers::kInt8 ? uint8_t{0x81} : uint8_t{0xFE};
      EXPECT_EQ(found, expected);
      const std::vector<float> found_scales = scales.read();
      EXPECT_EQ(found_scales[0], 0.0f);
      EXPECT_EQ(found_scales[1], 0.0f);
      EXPECT_EQ(found_scales[2], 3.0f / (numbers == LibraryNumbers::kInt8 ? 127.0f : 448.0f));
      EXPECT_TRUE(std::isnan(found_scales[3]) && std::isnan(found_scales[4]));
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
