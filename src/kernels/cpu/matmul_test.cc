// Matrix products and weight packing: the bits of reference/ for every format, shape and number of rows.
#include <algorithm>
#include <bit>
#include <tuple>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/reference/reference.h"

namespace bass::cpu {
namespace {

using testing::Activations;
using testing::FileMatrix;
using testing::PackedCopy;
using testing::product;
using testing::random_floats;
using testing::same_bits;

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,  DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K,  DType::kQ3_K,
                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL};

// n_in, or what of whole blocks comes next.
int whole_blocks(DType type, int n_in) {
  const int len = dtype_info(type).block_len;
  return (n_in + len - 1) / len * len;
}

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

// Sets all bytes but those of f16 numbers.
void fill_quants(int byte, FileMatrix* file) {
  const auto block_bytes = static_cast<size_t>(dtype_info(file->type).block_bytes);
  for (size_t i = 0; i < file->data.size(); ++i) {
    const size_t at = i % block_bytes;
    bool is_half = false;
    for (const size_t offset : testing::half_offsets(file->type)) is_half |= at == offset || at == offset + 1;
    if (!is_half) file->data[i] = static_cast<std::byte>(byte);
  }
}

class MatmulTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
  std::mt19937 rng_{7};

  void expect_reference_bits(DType type, int n_rows, int n_out, int min_in, int n_planes) {
    const int n_in = whole_blocks(type, min_in);
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
    for (const int n_rows : {5, 30}) {  // rows so long that they are taken in chunks
      for (int n_planes = 1; n_planes <= (is_float(type) ? 1 : 2); ++n_planes) {
        expect_reference_bits(type, n_rows, 17, 2304, n_planes);
      }
    }
  }
}

// Prompts' chunks: a product takes so many rows in several runs.
TEST_P(MatmulTest, HasTheBitsOfTheReferenceForManyRows) {
  const auto for_each_planes = [](DType type, auto&& visit) {
    for (int n_planes = 1; n_planes <= (is_float(type) ? 1 : 2); ++n_planes) visit(n_planes);
  };
  for (const DType type : kTypes) {
    for (const int n_rows : {95, 96, 97, 98, 99, 193, 256}) {
      for_each_planes(type, [&](int n_planes) { expect_reference_bits(type, n_rows, 33, 64, n_planes); });
    }
  }
  for (const DType type : {DType::kF16, DType::kQ8_0, DType::kQ4_1, DType::kQ6_K}) {
    for (int n_rows = 41; n_rows < 70; ++n_rows) expect_reference_bits(type, n_rows, 17, 64, 1);
    expect_reference_bits(type, 512, 17, 64, 1);
    expect_reference_bits(type, 100, 17, 2304, 1);  // in chunks, too
  }
}

// Rows that are taken in many chunks.
TEST_P(MatmulTest, HasTheBitsOfTheReferenceForTheLongestRows) {
  for (const int n_planes : {1, 2}) {
    expect_reference_bits(DType::kQ4_1, 100, 17, 8192, n_planes);
    expect_reference_bits(DType::kQ8_0, 40, 17, 40960, n_planes);
  }
}

// What tiles read is what vectors read, in another order.
template <int kPlanes>
void expect_panels_hold_the_records(const Activations& x, int n_rows) {
  for (int row = 0; row < n_rows; ++row) {
    for (int g = 0; g < x.rows.n_cols / kGroupLen; ++g) {
      const auto& panel = *reinterpret_cast<const PanelGroup<kPlanes>*>(x.rows.panel(row, g));
      const int at = row % kPanelRows;
      for (int i = 0; i < kPlanes * kGroupLen; ++i) {
        ASSERT_EQ(panel.q[i / kGroupLen][at][i % kGroupLen],
                  x.quant(row, g * kGroupLen + i % kGroupLen, i / kGroupLen));
      }
      const auto& fields = panel.fields[at / kRowBlock];
      ASSERT_EQ(fields.scale[at % kRowBlock], x.field<float>(row, g, ActivationField::kScale));
      if constexpr (kPlanes == 1) {
        ASSERT_EQ(fields.bias[at % kRowBlock], x.field<float>(row, g, ActivationField::kBias));
      }
      ASSERT_EQ(fields.scaled_sum[at % kRowBlock], x.field<float>(row, g, ActivationField::kScaledSum));
      ASSERT_EQ(fields.half_sums[0][at % kRowBlock], x.field<int32_t>(row, g, ActivationField::kHalfSum0));
      ASSERT_EQ(fields.half_sums[1][at % kRowBlock], x.field<int32_t>(row, g, ActivationField::kHalfSum1));
    }
  }
}

// Also where the numbers are as large as a float can be: bits that are no numbers, but the same ones.
TEST_P(MatmulTest, GivesARowTheSameBitsInEveryBatchOfHugeNumbers) {
  constexpr int kRows = 40, kCols = 128;
  for (const DType type : {DType::kQ4_1, DType::kQ5_0, DType::kQ8_0}) {
    const FileMatrix file(type, 16, kCols, rng_);
    const PackedCopy packed(file);
    std::vector<float> x = random_floats(kRows * kCols, rng_);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i % 3 == 0 ? 1e38f : 1e34f;
    const Activations activations(kernels_, x.data(), kRows, kCols, 1);
    const std::vector<float> together = product(kernels_, packed.matrix, activations, kRows);
    const std::vector<float> few = product(kernels_, packed.matrix, activations, 8);
    for (size_t i = 0; i < few.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(together[i]), std::bit_cast<uint32_t>(few[i])) << i;
    }
  }
}

TEST_P(MatmulTest, PanelsHoldWhatTheRecordsHold) {
  if (kernels_.min_panel_rows == 0) GTEST_SKIP() << kernels_.name << " reads no panels";
  constexpr int kRows = 43, kCols = 5 * kGroupLen;
  const std::vector<float> x = random_floats(kRows * kCols, rng_);
  expect_panels_hold_the_records<1>(Activations(kernels_, x.data(), kRows, kCols, 1), kRows);
  expect_panels_hold_the_records<2>(Activations(kernels_, x.data(), kRows, kCols, 2), kRows);
}

// Rows that begin inside of a panel have none: vectors take them, with the same bits.
TEST_P(MatmulTest, GivesTheSameBitsWithoutPanels) {
  constexpr int kRows = 70, kOut = 40, kCols = 256;
  const FileMatrix file(DType::kQ4_1, kOut, kCols, rng_);
  const PackedCopy packed(file);
  const std::vector<float> x = random_floats(kRows * kCols, rng_);
  const Activations all(kernels_, x.data(), kRows, kCols, 1);
  const std::vector<float> whole = product(kernels_, packed.matrix, all, kRows);
  for (const int begin : {4, 12, 16, 36, 48}) {
    const ActivationRows rows = rows_from(all.rows, begin);
    EXPECT_EQ(rows.panels != nullptr, all.rows.panels != nullptr && begin % kPanelRows == 0);
    std::vector<float> part(static_cast<size_t>(kRows - begin) * kOut);
    kernels_.matmul(packed.matrix, rows, kRows - begin, {0, packed.matrix.n_tiles()}, part.data(), kOut, 0, false,
                    nullptr);
    EXPECT_TRUE(same_bits(part, {whole.begin() + static_cast<ptrdiff_t>(begin) * kOut, whole.end()})) << begin;
  }
}

TEST_P(MatmulTest, HasTheBitsOfTheReferenceForEveryShape) {
  for (const DType type : kTypes) {
    for (const int n_out : {1, 15, 16, 17, 50, 65, 192}) {
      for (const int n_in : {32, 64, 96, 576, 1536}) {
        if (n_out * n_in > 60000 && n_out != 50) continue;
        for (const int n_rows : {1, 2, 5, 29}) {
          if (n_rows == 29 && n_in > 96) continue;  // for tiles: one group, two, three
          for (int n_planes = 1; n_planes <= (is_float(type) ? 1 : 2); ++n_planes) {
            expect_reference_bits(type, n_rows, n_out, n_in, n_planes);
          }
        }
      }
    }
  }
}

// Every quant (and every whole-number scale) at its extreme and every activation at its extreme: where 16-bit sums
// would overflow.
TEST_P(MatmulTest, IsExactAtTheExtremes) {
  for (const DType type : kTypes) {
    if (is_float(type)) continue;
    const int len = whole_blocks(type, 64);
    for (const int byte : {0x00, 0x7F, 0x80, 0x81, 0xFF, 0xF0, 0x0F}) {
      FileMatrix file(type, 16, len, rng_);
      fill_quants(byte, &file);
      const PackedCopy packed(file);
      // The last one gives q = -32384 = 256 * -126 - 128: a low plane of -128.
      for (const float other : {1.0f, -1.0f, 0.99606299f, -32384.0f / 32512.0f}) {
        std::vector<float> x(static_cast<size_t>(len), other);
        for (size_t i = 0; i < x.size(); i += 3) x[i] = 1.0f;
        std::vector<float> many;  // rows for tiles
        for (int r = 0; r < 29; ++r) many.insert(many.end(), x.begin(), x.end());
        for (int n_planes = 1; n_planes <= 2; ++n_planes) {
          const std::vector<float> expected = reference_product(file, x, 1, n_planes);
          const Activations activations(kernels_, many.data(), 29, len, n_planes);
          for (const int n_rows : {1, 29}) {
            const std::vector<float> got = product(kernels_, packed.matrix, activations, n_rows);
            for (int r = 0; r < n_rows; ++r) {
              EXPECT_TRUE(same_bits(got.data() + static_cast<ptrdiff_t>(r) * 16, expected.data(), 16))
                  << dtype_info(type).name << " quants " << byte << " x " << other << " row " << r;
            }
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, AddsABiasToTheFinishedSum) {
  for (const DType type : kTypes) {
    for (const auto& [n_rows, n_out, min_in] :
         {std::tuple(1, 33, 64), {5, 16, 2304}, {20, 50, 96}, {45, 50, 2304}}) {  // 2304: in chunks
      const int n_in = whole_blocks(type, min_in);
      const FileMatrix file(type, n_out, n_in, rng_);
      PackedCopy packed(file);
      const std::vector<float> bias = random_floats(static_cast<size_t>(n_out), rng_);
      packed.matrix.bias = bias.data();
      const std::vector<float> x = random_floats(static_cast<size_t>(n_rows * n_in), rng_);
      const Activations activations(kernels_, x.data(), n_rows, n_in, 1);
      std::vector<float> expected = reference_product(file, x, n_rows, 1);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % bias.size()];
      EXPECT_TRUE(same_bits(product(kernels_, packed.matrix, activations, n_rows), expected)) << dtype_info(type).name;
      std::vector<float> out = random_floats(expected.size(), rng_);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = out[i] + expected[i];
      kernels_.matmul(packed.matrix, activations.rows, n_rows, {0, packed.matrix.n_tiles()}, out.data(), n_out, 0, true,
                      nullptr);
      EXPECT_TRUE(same_bits(out, expected)) << dtype_info(type).name;
    }
  }
}

TEST_P(MatmulTest, GivesARowTheSameBitsInEveryBatch) {
  constexpr int kRows = 27;
  for (const DType type : kTypes) {
    const int n_in = whole_blocks(type, 192);
    for (int n_planes = 1; n_planes <= 2; ++n_planes) {
      const FileMatrix file(type, 80, n_in, rng_);
      const PackedCopy packed(file);
      const std::vector<float> x = random_floats(static_cast<size_t>(kRows * n_in), rng_);
      const std::vector<float> all =
          product(kernels_, packed.matrix, Activations(kernels_, x.data(), kRows, n_in, n_planes), kRows);
      for (int first = 0; first < kRows; ++first) {
        const int n_rows = 1 + first % 5 < kRows - first ? 1 + first % 5 : 1;
        const Activations some(kernels_, x.data() + first * n_in, n_rows, n_in, n_planes);
        const std::vector<float> part = product(kernels_, packed.matrix, some, n_rows);
        EXPECT_TRUE(same_bits(part.data(), all.data() + static_cast<ptrdiff_t>(first) * 80, part.size()));
      }
    }
  }
}

TEST_P(MatmulTest, WritesOnlyItsChannelsAndAccumulates) {
  constexpr int kOut = 83;
  constexpr int kStride = kOut + 6;  // rows without alignment
  const auto expect_channels = [&](DType type, int n_rows) {
    const int n_in = whole_blocks(type, 64);
    const FileMatrix file(type, kOut, n_in, rng_);
    const PackedCopy packed(file);
    const std::vector<float> x = random_floats(static_cast<size_t>(n_rows * n_in), rng_);
    const Activations activations(kernels_, x.data(), n_rows, n_in, 1);
    const std::vector<float> plain = product(kernels_, packed.matrix, activations, n_rows);
    const std::vector<float> before = random_floats(static_cast<size_t>(n_rows * kStride), rng_);
    for (const WorkRange tiles : {WorkRange{0, 6}, {0, 1}, {1, 3}, {2, 6}, {2, 5}, {5, 6}, {3, 3}}) {
      for (const bool accumulate : {false, true}) {
        std::vector<float> out = before;
        const int first = tiles.begin * kTileLen;
        // A thread's own buffer may begin at its first channel; here it begins one float later.
        kernels_.matmul(packed.matrix, activations.rows, n_rows, tiles, out.data() + 1, kStride, first, accumulate,
                        nullptr);
        std::vector<float> expected = before;
        for (int r = 0; r < n_rows; ++r) {
          for (int c = first; c < std::min(kOut, tiles.end * kTileLen); ++c) {
            float& value = expected[static_cast<size_t>(r * kStride + 1 + c - first)];
            value = (accumulate ? value : 0.0f) + plain[static_cast<size_t>(r * kOut + c)];
          }
        }
        EXPECT_EQ(out, expected) << dtype_info(type).name << ", " << n_rows << " rows, tiles " << tiles.begin << ".."
                                 << tiles.end;
      }
    }
  };
  for (const DType type : kTypes) {
    for (const int n_rows : {3, 6, 29}) expect_channels(type, n_rows);  // a tile at a time, two, and several row blocks
  }
}

// What a product takes of a queue changes no bit. Of few rows it takes nothing, of many all that there is.
TEST_P(MatmulTest, FetchesBesideItsOwnWork) {
  constexpr int kOut = 640;
  constexpr int kBlockBytes = 1056;
  const int n_in = whole_blocks(DType::kQ4_1, 512);
  const FileMatrix file(DType::kQ4_1, kOut, n_in, rng_);
  const PackedCopy packed(file);
  const std::vector<std::byte> memory(8 * kBlockBytes);
  std::vector<const std::byte*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(memory.data() + static_cast<ptrdiff_t>(i) * kBlockBytes - 64);
  for (const int n_rows : {1, kMaxRowsWithoutFetch, kMaxRowsWithoutFetch + 1, 33}) {
    const std::vector<float> x = random_floats(static_cast<size_t>(n_rows * n_in), rng_);
    const Activations activations(kernels_, x.data(), n_rows, n_in, 1);
    FetchQueue queue{blocks.data(), 8, 64, kBlockBytes};
    std::vector<float> out(static_cast<size_t>(n_rows) * kOut);
    kernels_.matmul(packed.matrix, activations.rows, n_rows, {0, packed.matrix.n_tiles()}, out.data(), kOut, 0, false,
                    &queue);
    EXPECT_TRUE(same_bits(out, product(kernels_, packed.matrix, activations, n_rows)));
    const bool takes = n_rows > kMaxRowsWithoutFetch;
    EXPECT_EQ(queue.n_bytes_left(), takes ? 0 : 8 * kBlockBytes) << n_rows;
    EXPECT_GE(matmul_fetch_bytes(packed.matrix, n_rows), takes ? 8 * kBlockBytes : 0);
  }
}

TEST(FetchQueueTest, GivesEachBlockFromItsOffsetOn) {
  const std::byte memory[200]{};
  const std::byte* blocks[] = {memory, memory + 100};
  FetchQueue queue{blocks, 2, 10, 64};
  EXPECT_EQ(queue.n_bytes_left(), 128);
  EXPECT_EQ(queue.take(48), memory + 10);
  EXPECT_EQ(queue.n_bytes_left(), 80);
  EXPECT_EQ(queue.take(48), memory + 58);  // and 32 bytes behind the block
  EXPECT_EQ(queue.take(48), memory + 110);
  EXPECT_EQ(queue.take(48), memory + 158);
  EXPECT_EQ(queue.n_bytes_left(), 0);
  EXPECT_EQ(queue.take(48), nullptr);
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
      kernels_.matmul(packed.matrix, rows, 3, {0, 2}, out.data(), 20, 0, false, nullptr);
      EXPECT_TRUE(same_bits(out, reference_product(file, x, 3, 0)));
    }
  }
}

TEST(PackTest, TakesHalvesOfHeadsAsPairs) {
  constexpr RowOrder kOrder{.head_dim = 8, .rope_dim = 6};
  constexpr int kFileRows[] = {0, 3, 1, 4, 2, 5, 6, 7, 8, 11, 9, 12, 10, 13, 14, 15};
  std::mt19937 rng(3);
  const FileMatrix file(DType::kQ8_0, 16, 64, rng);
  const PackedCopy as_it_is(file);
  PackedCopy ordered(file);
  pack_tiles({file.type, file.n_out, file.n_in, file.data.data(), file.row_bytes, kOrder}, {0, 1}, ordered.data.data());
  std::vector<float> got(64), expected(64);
  for (int row = 0; row < 16; ++row) {
    EXPECT_EQ(kOrder.file_row(row), kFileRows[row]);
    unpack_row(ordered.matrix, row, got.data());
    unpack_row(as_it_is.matrix, kFileRows[row], expected.data());
    EXPECT_TRUE(same_bits(got, expected)) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, MatmulTest, ::testing::ValuesIn(testing::kernels_and_emulated_tiles()),
                         testing::isa_name);

TEST(PackTest, UnpacksToTheBitsOfTheFile) {
  std::mt19937 rng(3);
  for (const DType type : kTypes) {
    const int n_in = type == DType::kF32 ? 160 : whole_blocks(type, 480);
    for (const int n_out : {1, 16, 19, 33}) {
      const FileMatrix file(type, n_out, n_in, rng);
      const PackedCopy packed(file);
      for (int row = 0; row < n_out; ++row) {
        std::vector<float> expected(static_cast<size_t>(n_in)), got(static_cast<size_t>(n_in));
        dequantise_row(type, file.row(row), n_in, expected.data());
        unpack_row(packed.matrix, row, got.data());
        EXPECT_TRUE(same_bits(got, expected)) << dtype_info(type).name << " row " << row;
      }
    }
  }
}

TEST(PackTest, PacksTheSameInParts) {
  std::mt19937 rng(3);
  for (const DType type : {DType::kQ4_1, DType::kQ4_K, DType::kQ6_K, DType::kIQ4_NL}) {
    const FileMatrix file(type, 70, whole_blocks(type, 96), rng);
    const PackedCopy whole(file);
    testing::AlignedVector<std::byte> parts(whole.data.size(), std::byte{0xAA});
    const PackSource source{file.type, file.n_out, file.n_in, file.data.data(), file.row_bytes};
    for (const WorkRange tiles : {WorkRange{3, 5}, {0, 1}, {1, 3}}) pack_tiles(source, tiles, parts.data());
    EXPECT_EQ(parts, whole.data);
  }
}

TEST(PackTest, GathersTheBitsOfTheChosenChannels) {
  std::mt19937 rng(3);
  const std::vector<int32_t> ids{0, 3, 3, 15, 16, 17, 31, 40, 41, 42, 43, 44, 45, 46, 47, 60, 69, 1, 2};
  for (const DType type : kTypes) {
    const FileMatrix file(type, 70, whole_blocks(type, 96), rng);
    FileMatrix chosen = file;
    chosen.n_out = static_cast<int>(ids.size());
    chosen.data.clear();
    for (const int32_t id : ids) {
      chosen.data.insert(chosen.data.end(), file.row(id), file.row(id) + file.row_bytes);
    }
    const PackedCopy from(file), expected(chosen);
    testing::AlignedVector<std::byte> gathered(expected.data.size(), std::byte{0xAA});
    for (const WorkRange tiles : {WorkRange{1, 2}, {0, 1}}) gather_tiles(from.matrix, ids, tiles, gathered.data());
    EXPECT_EQ(gathered, expected.data) << dtype_info(type).name;
  }
}

TEST(PackTest, NeedsHardlyMoreThanTheFile) {
  EXPECT_EQ(packed_bytes(DType::kQ4_1, 576, 576), 576u * 576 / 32 * sizeof(BlockQ4_1));
  EXPECT_EQ(packed_bytes(DType::kQ8_0, 576, 576), 576u * 576 / 32 * sizeof(BlockQ8_0));
  EXPECT_EQ(packed_bytes(DType::kQ5_0, 576, 576), 576u * 576 / 32 * sizeof(BlockQ5_0));
  EXPECT_EQ(packed_bytes(DType::kQ6_K, 576, 512), 576u * 512 / 256 * sizeof(BlockQ6_K));
  EXPECT_EQ(packed_bytes(DType::kQ5_K, 576, 512), 576u * 512 / 256 * (sizeof(BlockQ5_K) + 4));
  EXPECT_EQ(packed_bytes(DType::kQ4_K, 576, 512), 576u * 512 / 256 * (sizeof(BlockQ4_K) + 4));
  EXPECT_EQ(packed_bytes(DType::kQ3_K, 576, 512), 576u * 512 / 256 * (sizeof(BlockQ3_K) + 4));
  EXPECT_EQ(packed_bytes(DType::kQ2_K, 576, 512), 576u * 512 / 256 * (sizeof(BlockQ2_K) + 16));
  EXPECT_EQ(packed_bytes(DType::kIQ4_NL, 576, 576), 576u * 576 / 32 * sizeof(BlockQ8_0));  // as numbers
  EXPECT_EQ(packed_bytes(DType::kF16, 16, 100), 2u * 16 * 100);
}

}  // namespace
}  // namespace bass::cpu
