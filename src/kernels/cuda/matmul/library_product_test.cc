// Products of a library's numbers: by the library, and by skinny products of our own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "kernels/cuda/matmul/launch_product.h"
#include "kernels/cuda/matmul/product_testing.h"
#include "kernels/cuda/matmul/skinny_product.h"
#include "kernels/cuda/rows/quantise_tokens.h"

namespace bass::cuda {
namespace {

using cpu::testing::random_floats;
using cpu::testing::same_bits;
using testing::DeviceArray;

constexpr int kMaxSkinnyRows = kSkinnyMaxRows[kSkinnySizes - 1];

/// The kernels that can multiply these.
std::vector<SkinnyKind> kinds_of(const DeviceMatrix& w, int n_rows) {
  std::vector<SkinnyKind> kinds{SkinnyKind::kNone, SkinnyKind::kOneTile, SkinnyKind::kTwoTiles, SkinnyKind::kResident};
  std::erase_if(kinds, [&](SkinnyKind kind) { return !can_launch_skinny(w, n_rows, kind); });
  return kinds;
}

/// Into columns of wider rows; twice, the second time added to the first.
std::vector<float> multiply_twice(Device* device, const DeviceMatrix& w, const DeviceActivations& x, int n_rows,
                                  SkinnyKind kind) {
  const int stride = w.n_out + 5;  // other products' columns lie between
  const DeviceArray<float> out(device, std::vector<float>(static_cast<size_t>(n_rows * stride), 1));
  for (const int accumulates : {0, 1}) {
    launch_skinny(*device, {w, x, out.data() + 2, stride, n_rows, accumulates}, kind);
  }
  const std::vector<float> found = out.read();
  std::vector<float> results;
  for (size_t i = 0; i < found.size(); ++i) {
    const int column = static_cast<int>(i) % stride;
    if (column >= 2 && column < w.n_out + 2) {
      results.push_back(found[i]);
    } else {
      EXPECT_EQ(found[i], 1.0f) << "what lies between is another's";
    }
  }
  return results;
}

/// Weights and activations in bfloat16 on a device.
struct Bf16ProductCase {
  int n_rows, n_out, n_in;
  std::vector<float> x, bias;
  std::vector<uint16_t> weights;
  DeviceArray<uint16_t> w, x_bf16;
  DeviceArray<float> device_bias, device_x;
  DeviceActivations view;
  DeviceMatrix matrix;

  Bf16ProductCase(Device* device, const std::array<int, 3>& shape, std::mt19937& rng)
      : n_rows(shape[0]),
        n_out(shape[1]),
        n_in(shape[2]),
        x(random_floats(static_cast<size_t>(n_rows * n_in), rng)),
        bias(random_floats(static_cast<size_t>(n_out), rng)),
        weights(rounded(random_floats(static_cast<size_t>(n_out * n_in), rng))),
        w(device, weights),
        x_bf16(device, std::vector<uint16_t>(x.size())),
        device_bias(device, bias),
        device_x(device, x) {
    view.n_cols = n_in;
    view.bf16 = x_bf16.data();
    const ActivateRows round{{.gate = device_x.data(), .stride = n_in, .n_rows = n_rows, .n = n_in}, view};
    launch(*device, round, round.shape());
    matrix.type = DType::kBF16;
    matrix.library = LibraryNumbers::kBf16;
    matrix.n_out = n_out;
    matrix.n_in = n_in;
    matrix.quants = reinterpret_cast<const std::byte*>(w.data());
    matrix.bias = device_bias.data();
  }

  static std::vector<uint16_t> rounded(const std::vector<float>& values) {
    std::vector<uint16_t> bits(values.size());
    std::transform(values.begin(), values.end(), bits.begin(), to_bf16);
    return bits;
  }

  // 2^-8 of the terms' magnitude bounds what rounding x takes away.
  void expect_near(float value, int row, int channel, double factor) const {
    double sum = bias[static_cast<size_t>(channel)], magnitude = 1;
    for (int k = 0; k < n_in; ++k) {
      const double term = static_cast<double>(bf16_to_f32(weights[static_cast<size_t>(channel * n_in + k)])) *
                          x[static_cast<size_t>(row * n_in + k)];
      sum += term;
      magnitude += std::abs(term);
    }
    EXPECT_NEAR(value, factor * sum, factor * magnitude / 256) << "row " << row << ", channel " << channel;
  }
};

TEST(GpuLibraryProduct, IsNearTheReference) {
  for (const auto& device : testing::all_devices()) {
    if (const Status status = device->open_library(); !status.ok()) {
      ASSERT_FALSE(testing::must_have_gpu()) << status.message();
      std::cout << device->info().name << ": " << status.message() << "\n";
      continue;
    }
    std::mt19937 rng(11);
    for (const std::array<int, 3>& shape :
         {std::array{1, 64, 96}, std::array{3, 21, 576}, std::array{17, 40, 608}, std::array{40, 48, 40}}) {
      const Bf16ProductCase given(device.get(), shape, rng);
      for (const SkinnyKind kind : kinds_of(given.matrix, given.n_rows)) {
        const std::vector<float> found = multiply_twice(device.get(), given.matrix, given.view, given.n_rows, kind);
        for (size_t i = 0; i < found.size(); ++i) {
          const int at = static_cast<int>(i);
          given.expect_near(found[i], at / given.n_out, at % given.n_out, 2);
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
    const QuantiseTokens quantise{{.gate = device_x.data(), .stride = n_in, .n_rows = n_rows, .n = n_in}, view.token};
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
        for (const SkinnyKind kind : kinds_of(given.matrix, given.n_rows)) {
          const std::vector<float> found = multiply_twice(device.get(), given.matrix, given.view, given.n_rows, kind);
          for (size_t i = 0; i < found.size(); ++i) {
            const int at = static_cast<int>(i);
            given.expect_near(found[i], at / given.n_out, at % given.n_out, 2);
          }
        }
      }
    }
  }
}

// What the library refuses our own kernel multiplies, of however many rows; where that cannot, the device is lost.
TEST(GpuLibraryProduct, ARefusedShapeIsMultipliedOtherwise) {
  const auto device = open_emulated_device({.max_library_rows = 0});
  std::mt19937 rng(13);
  for (const std::array<int, 3>& shape : {std::array{3, 21, 576}, std::array{200, 48, 64}}) {
    const Bf16ProductCase given(device.get(), shape, rng);
    const std::vector<float> found =
        multiply_twice(device.get(), given.matrix, given.view, given.n_rows, SkinnyKind::kNone);
    for (size_t i = 0; i < found.size(); ++i) {
      const int at = static_cast<int>(i);
      given.expect_near(found[i], at / given.n_out, at % given.n_out, 2);
    }
    for (const LibraryNumbers numbers : {LibraryNumbers::kInt8, LibraryNumbers::kFp8}) {
      const ByteProductCase bytes(device.get(), shape, numbers, rng);
      const std::vector<float> scaled =
          multiply_twice(device.get(), bytes.matrix, bytes.view, bytes.n_rows, SkinnyKind::kNone);
      for (size_t i = 0; i < scaled.size(); ++i) {
        const int at = static_cast<int>(i);
        bytes.expect_near(scaled[i], at / bytes.n_out, at % bytes.n_out, 2);
      }
    }
  }
  EXPECT_TRUE(device->synchronize().ok());
  const Bf16ProductCase odd(device.get(), {3, 21, 40}, rng);
  launch_skinny(*device, {odd.matrix, odd.view, odd.device_x.data(), 21, 3, 0}, SkinnyKind::kNone);
  EXPECT_EQ(device->synchronize().code(), StatusCode::kInternal);
}

// Which kernel multiplies int8 is a question of speed alone; of other numbers it is so among our own ones.
TEST(GpuSkinnyProduct, ARowHasTheSameBitsInEveryBatch) {
  constexpr int kRows = kMaxSkinnyRows, kOut = 7 * kChannels + 5;  // more tiles than an emulated GPU has blocks
  for (const auto& device : testing::all_devices()) {
    const bool has_library = device->open_library().ok();
    std::mt19937 rng(17);
    const auto expect_equal_rows = [&](const DeviceMatrix& w, const DeviceActivations& x) {
      const std::vector<float> all = multiply_twice(device.get(), w, x, kRows, SkinnyKind::kOneTile);
      int n_compared = 0;
      for (const int n_rows : {1, 7, 8, 9, 16, 17, 32}) {
        for (const SkinnyKind kind : kinds_of(w, n_rows)) {
          if (kind == SkinnyKind::kNone && (w.library != LibraryNumbers::kInt8 || !has_library)) continue;
          EXPECT_TRUE(
              same_bits(multiply_twice(device.get(), w, x, n_rows, kind), {all.begin(), all.begin() + n_rows * kOut}))
              << n_rows << " rows of " << w.n_in << ", kind " << static_cast<int>(kind);
          ++n_compared;
        }
      }
      EXPECT_GE(n_compared, 12);
    };
    for (const int n_in : {64, 704, 4096}) {
      const Bf16ProductCase floats(device.get(), {kRows, kOut, n_in}, rng);
      const ByteProductCase whole(device.get(), {kRows, kOut, n_in}, LibraryNumbers::kInt8, rng);
      expect_equal_rows(floats.matrix, floats.view);
      expect_equal_rows(whole.matrix, whole.view);
    }
    for (const LibraryNumbers numbers : byte_numbers(device.get())) {                  // in blocks for the longest rows
      if (numbers == LibraryNumbers::kFp8 && !device->info().has_own_speed) continue;  // emulated it takes long
      const ByteProductCase whole(device.get(), {kRows, kOut, 8448}, numbers, rng);
      expect_equal_rows(whole.matrix, whole.view);
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
      const QuantiseTokens quantise{{.gate = device_x.data(), .stride = kCols, .n_rows = 5, .n = kCols},
                                    {numbers, q.data(), scales.data(), nullptr}};
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

}  // namespace
}  // namespace bass::cuda
