// Matrix products and weight packing: the bits of reference/ for every format, shape and number of rows.
#include <algorithm>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/reference/reference.h"

namespace bass::cpu {
namespace {

using testing::Activations;
using testing::FileMatrix;
using testing::PackedCopy;
using testing::random_floats;
using testing::same_bits;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

bool is_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

// [n_rows, n_out]
std::vector<float> reference_product(const FileMatrix& w, const std::vector<float>& x, int n_rows, int n_planes) {
  std::vector<float> out;
  for (int r = 0; r < n_rows; ++r) {
    const float* row = x.data() + static_cast<ptrdiff_t>(r) * w.n_in;
    if (is_float(w.type)) {
      for (int c = 0; c < w.n_out; ++c) out.push_back(reference::float_dot(w.type, w.row(c), row, w.n_in));
    } else {
      const reference::QuantisedRow quantised = reference::quantise(row, w.n_in, n_planes);
      for (int c = 0; c < w.n_out; ++c) out.push_back(reference::quantised_dot(w.type, w.row(c), quantised));
    }
  }
  return out;
}

std::vector<float> product(const Kernels& kernels, const PackedMatrix& w, const Activations& x, int n_rows) {
  std::vector<float> out(static_cast<size_t>(n_rows) * static_cast<size_t>(w.n_out));
  kernels.matmul(w, x.rows, n_rows, {0, w.n_tiles()}, out.data(), w.n_out, 0, false);
  return out;
}

class MatmulTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
  std::mt19937 rng_{7};

  void expect_reference_bits(DType type, int n_rows, int n_out, int n_in, int n_planes) {
    const FileMatrix file(type, n_out, n_in, rng_);
    const PackedCopy packed(file);
    const std::vector<float> x = random_floats(static_cast<size_t>(n_rows) * static_cast<size_t>(n_in), rng_);
    const Activations activations(kernels_, x.data(), n_rows, n_in, n_planes);
    EXPECT_TRUE(
        same_bits(product(kernels_, packed.matrix, activations, n_rows), reference_product(file, x, n_rows, n_planes)))
        << dtype_info(type).name << ", " << n_rows << " rows, " << n_in << " -> " << n_out << ", " << n_planes
        << " planes";
  }
};

TEST_P(MatmulTest, HasTheBitsOfTheReferenceForEveryNumberOfRows) {
  for (const DType type : kTypes) {
    for (int n_rows = 1; n_rows <= 40; ++n_rows) {
      for (int n_planes = 1; n_planes <= (is_float(type) ? 1 : 2); ++n_planes) {
        expect_reference_bits(type, n_rows, 17 + n_rows % 4 * 16, 64, n_planes);
      }
    }
    expect_reference_bits(type, 70, 50, 96, 1);
    expect_reference_bits(type, 70, 50, 96, 2);
  }
}

TEST_P(MatmulTest, HasTheBitsOfTheReferenceForEveryShape) {
  for (const DType type : kTypes) {
    for (const int n_out : {1, 15, 16, 17, 50, 65, 192}) {
      for (const int n_in : {32, 64, 96, 576, 1536}) {
        if (n_out * n_in > 60000 && n_out != 50) continue;
        for (const int n_rows : {1, 2, 5}) {
          for (int n_planes = 1; n_planes <= (is_float(type) ? 1 : 2); ++n_planes) {
            expect_reference_bits(type, n_rows, n_out, n_in, n_planes);
          }
        }
      }
    }
  }
}

// Every quant at its extreme and every activation at its extreme: where 16-bit sums would overflow.
TEST_P(MatmulTest, IsExactAtTheExtremes) {
  constexpr int kLen = 64;
  for (const DType type : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    for (const int byte : {0x00, 0x7F, 0x80, 0x81, 0xFF, 0xF0, 0x0F}) {
      FileMatrix file(type, 16, kLen, rng_);
      const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
      const size_t header_bytes = type == DType::kQ4_1 ? 4 : 2;
      for (size_t i = 0; i < file.data.size(); ++i) {
        if (i % block_bytes >= header_bytes) file.data[i] = static_cast<std::byte>(byte);
      }
      const PackedCopy packed(file);
      // The last one gives q = -32384 = 256 * -126 - 128: a low plane of -128.
      for (const float other : {1.0f, -1.0f, 0.99606299f, -32384.0f / 32512.0f}) {
        std::vector<float> x(kLen, other);
        for (size_t i = 0; i < x.size(); i += 3) x[i] = 1.0f;
        for (int n_planes = 1; n_planes <= 2; ++n_planes) {
          const Activations activations(kernels_, x.data(), 1, kLen, n_planes);
          EXPECT_TRUE(
              same_bits(product(kernels_, packed.matrix, activations, 1), reference_product(file, x, 1, n_planes)))
              << dtype_info(type).name << " quants " << byte << " x " << other;
        }
      }
    }
  }
}

TEST_P(MatmulTest, GivesARowTheSameBitsInEveryBatch) {
  constexpr int kRows = 27;
  constexpr int kIn = 192;
  for (const DType type : kTypes) {
    for (int n_planes = 1; n_planes <= 2; ++n_planes) {
      const FileMatrix file(type, 80, kIn, rng_);
      const PackedCopy packed(file);
      const std::vector<float> x = random_floats(kRows * kIn, rng_);
      const std::vector<float> all =
          product(kernels_, packed.matrix, Activations(kernels_, x.data(), kRows, kIn, n_planes), kRows);
      for (int first = 0; first < kRows; ++first) {
        const int n_rows = 1 + first % 5 < kRows - first ? 1 + first % 5 : 1;
        const Activations some(kernels_, x.data() + first * kIn, n_rows, kIn, n_planes);
        const std::vector<float> part = product(kernels_, packed.matrix, some, n_rows);
        EXPECT_TRUE(same_bits(part.data(), all.data() + static_cast<ptrdiff_t>(first) * 80, part.size()));
      }
    }
  }
}

TEST_P(MatmulTest, WritesOnlyItsChannelsAndAccumulates) {
  constexpr int kOut = 83;
  constexpr int kIn = 64;
  constexpr int kRows = 3;
  constexpr int kStride = kOut + 6;  // rows without alignment
  for (const DType type : kTypes) {
    const FileMatrix file(type, kOut, kIn, rng_);
    const PackedCopy packed(file);
    const std::vector<float> x = random_floats(kRows * kIn, rng_);
    const Activations activations(kernels_, x.data(), kRows, kIn, 1);
    const std::vector<float> plain = product(kernels_, packed.matrix, activations, kRows);
    const std::vector<float> before = random_floats(kRows * kStride, rng_);
    for (const WorkRange tiles : {WorkRange{0, 6}, {0, 1}, {1, 3}, {2, 6}, {5, 6}, {3, 3}}) {
      for (const bool accumulate : {false, true}) {
        std::vector<float> out = before;
        const int first = tiles.begin * kTileLen;
        // A thread's own buffer may begin at its first channel; here it begins one float later.
        kernels_.matmul(packed.matrix, activations.rows, kRows, tiles, out.data() + 1, kStride, first, accumulate);
        std::vector<float> expected = before;
        for (int r = 0; r < kRows; ++r) {
          for (int c = first; c < std::min(kOut, tiles.end * kTileLen); ++c) {
            float& value = expected[static_cast<size_t>(r * kStride + 1 + c - first)];
            value = (accumulate ? value : 0.0f) + plain[static_cast<size_t>(r * kOut + c)];
          }
        }
        EXPECT_EQ(out, expected) << dtype_info(type).name << " tiles " << tiles.begin << ".." << tiles.end;
      }
    }
  }
}

TEST_P(MatmulTest, ReadsFloatRowsOfAnyLength) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int n_in : {1, 7, 33}) {
      const FileMatrix file(type, 20, n_in, rng_);
      const PackedCopy packed(file);
      std::vector<float> x = random_floats(static_cast<size_t>(3 * n_in), rng_);
      ActivationRows rows;
      rows.n_cols = n_in;
      rows.f32 = x.data();
      std::vector<float> out(3 * 20);
      kernels_.matmul(packed.matrix, rows, 3, {0, 2}, out.data(), 20, 0, false);
      EXPECT_TRUE(same_bits(out, reference_product(file, x, 3, 0)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, MatmulTest, ::testing::ValuesIn(testing::all_kernels()), testing::isa_name);

TEST(PackTest, UnpacksToTheBitsOfTheFile) {
  std::mt19937 rng(3);
  for (const DType type : kTypes) {
    for (const int n_out : {1, 16, 19, 33}) {
      const FileMatrix file(type, n_out, 160, rng);
      const PackedCopy packed(file);
      for (int row = 0; row < n_out; ++row) {
        std::vector<float> expected(160), got(160);
        dequantise_row(type, file.row(row), 160, expected.data());
        unpack_row(packed.matrix, row, got.data());
        EXPECT_TRUE(same_bits(got, expected)) << dtype_info(type).name << " row " << row;
      }
    }
  }
}

TEST(PackTest, PacksTheSameInParts) {
  std::mt19937 rng(3);
  const FileMatrix file(DType::kQ4_1, 70, 96, rng);
  const PackedCopy whole(file);
  testing::AlignedVector<std::byte> parts(whole.data.size(), std::byte{0xAA});
  const PackSource source{file.type, file.n_out, file.n_in, file.data.data(), file.row_bytes};
  for (const WorkRange tiles : {WorkRange{3, 5}, {0, 1}, {1, 3}}) pack_tiles(source, tiles, parts.data());
  EXPECT_EQ(parts, whole.data);
}

TEST(PackTest, NeedsHardlyMoreThanTheFile) {
  EXPECT_EQ(packed_bytes(DType::kQ4_1, 576, 576), 576u * 576 / 32 * sizeof(BlockQ4_1));
  EXPECT_EQ(packed_bytes(DType::kQ8_0, 576, 576), 576u * 576 / 32 * sizeof(BlockQ8_0));
  EXPECT_EQ(packed_bytes(DType::kF16, 16, 100), 2u * 16 * 100);
}

}  // namespace
}  // namespace bass::cpu
