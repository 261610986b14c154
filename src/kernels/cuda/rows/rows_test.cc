// The operations on rows between products: the bits of the CPU's kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/float_kv_testing.h"
#include "kernels/cuda/rows/activate_rows.h"
#include "kernels/cuda/rows/norm_rows.h"
#include "kernels/cuda/rows/quantise_tokens.h"
#include "kernels/cuda/rows/rope_and_write_kv.h"

namespace bass::cuda {
namespace {

using cpu::testing::random_floats;
using cpu::testing::same_bits;
using testing::DeviceArray;

const cpu::Kernels& cpu_kernels() { return *cpu::find_kernels(cpu::Isa::kScalar); }

/// Quantised rows on the device, beside the CPU's of the same numbers.
struct QuantisedRows {
  int n_rows;
  int n_cols;
  DeviceArray<int8_t> q;
  DeviceArray<float> scale;
  DeviceArray<int32_t> sums;
  DeviceActivations view;

  QuantisedRows(Device* device, int rows, int cols, int n_planes)
      : n_rows(rows),
        n_cols(cols),
        q(device, std::vector<int8_t>(n_elements() * 2, 99)),
        scale(device, std::vector<float>(n_elements() / kGroupLen + 1, 99)),
        sums(device, std::vector<int32_t>(n_elements() / kGroupLen * 2 + 1, 99)) {
    view = {cols, n_planes, static_cast<int64_t>(n_elements()), q.data(), scale.data(), sums.data(), nullptr};
  }
  [[nodiscard]] size_t n_elements() const { return static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols); }

  void expect_cpu_bits(const std::vector<float>& x) const {
    const cpu::testing::Activations expected(cpu_kernels(), x.data(), n_rows, n_cols, view.n_planes);
    const std::vector<int8_t> got = q.read();
    const std::vector<float> scales = scale.read();
    const std::vector<int32_t> half_sums = sums.read();
    for (int r = 0; r < n_rows; ++r) {
      for (int c = 0; c < n_cols; ++c) {
        const auto at = static_cast<size_t>(r * n_cols + c);
        for (int plane = 0; plane < view.n_planes; ++plane) {
          ASSERT_EQ(got[at + static_cast<size_t>(plane) * n_elements()], expected.quant(r, c, plane)) << r << " " << c;
        }
      }
      for (int g = 0; g < n_cols / kGroupLen; ++g) {
        const auto at = static_cast<size_t>(r * (n_cols / kGroupLen) + g);
        ASSERT_EQ(scales[at], expected.field<float>(r, g, cpu::ActivationField::kScale));
        ASSERT_EQ(half_sums[at * 2], expected.field<int32_t>(r, g, cpu::ActivationField::kHalfSum0));
        ASSERT_EQ(half_sums[at * 2 + 1], expected.field<int32_t>(r, g, cpu::ActivationField::kHalfSum1));
      }
    }
  }
};

TEST(GpuRows, NormsHaveTheBitsOfTheCpu) {
  std::mt19937 rng(1);
  for (const auto& device : testing::all_devices()) {
    for (const int n : {32, 96, 576, 1000, 2080}) {
      for (const bool is_layer : {false, true}) {
        constexpr int kRows = 3;
        const std::vector<float> x = random_floats(static_cast<size_t>(kRows * n), rng);
        const std::vector<float> weight = random_floats(static_cast<size_t>(n), rng);
        const std::vector<float> bias = random_floats(static_cast<size_t>(n), rng);
        std::vector<float> expected(x.size());
        const std::vector<int32_t> ids{2, 0, 1};
        for (int r = 0; r < kRows; ++r) {
          const float* from = x.data() + ids[static_cast<size_t>(r)] * n;
          if (is_layer) {
            cpu_kernels().layer_norm(from, weight.data(), bias.data(), n, 1e-5f, expected.data() + r * n);
          } else {
            cpu_kernels().rms_norm(from, weight.data(), n, 1e-5f, expected.data() + r * n);
          }
        }
        const DeviceArray<float> device_x(device.get(), x), device_weight(device.get(), weight);
        const DeviceArray<float> device_bias(device.get(), bias), out(device.get(), x), added(device.get(), x);
        const DeviceArray<int32_t> device_ids(device.get(), ids);
        QuantisedRows rows(device.get(), kRows, n, 1);
        rows.view.f32 = out.data();
        if (n % kGroupLen != 0) rows.view.q = nullptr;
        const NormRows kernel{.x = device_x.data(),
                              .x_stride = n,
                              .ids = device_ids.data(),
                              .n_rows = kRows,
                              .n = n,
                              .norm = {device_weight.data(), is_layer ? device_bias.data() : nullptr},
                              .eps = 1e-5f,
                              .out = rows.view,
                              .add_to = added.data()};
        launch(*device, kernel, kernel.shape());
        EXPECT_TRUE(same_bits(out.read(), expected)) << n << is_layer;
        if (n % kGroupLen == 0) rows.expect_cpu_bits(expected);
        for (size_t i = 0; i < x.size(); ++i) expected[i] = x[i] + expected[i];
        EXPECT_TRUE(same_bits(added.read(), expected)) << n;
      }
    }
  }
}

// The same bytes as from the finished rows, whatever the order of threads.
TEST(GpuRows, NormsAlsoGiveALibrarysBytes) {
  constexpr int kRows = 3, kCols = 320;
  std::mt19937 rng(21);
  const std::vector<float> x = random_floats(kRows * kCols, rng), weight = random_floats(kCols, rng);
  for (const auto& device : testing::all_devices()) {
    const DeviceArray<float> device_x(device.get(), x), device_weight(device.get(), weight);
    const DeviceArray<float> normed(device.get(), std::vector<float>(x.size()));
    for (const LibraryNumbers numbers : {LibraryNumbers::kInt8, LibraryNumbers::kFp8}) {
      const DeviceArray<uint8_t> q(device.get(), std::vector<uint8_t>(x.size(), 99)), later_q(device.get(), q.read());
      const DeviceArray<float> scale(device.get(), std::vector<float>(kRows, 99)),
          later_scale(device.get(), scale.read());
      NormRows norm;
      norm.x = device_x.data();
      norm.x_stride = norm.n = norm.out.n_cols = kCols;
      norm.n_rows = kRows;
      norm.norm.weight = device_weight.data();
      norm.eps = 1e-5f;
      norm.out.f32 = normed.data();
      norm.out.token = {numbers, q.data(), scale.data(), nullptr};
      launch(*device, norm, norm.shape());
      const QuantiseTokens later{{.gate = normed.data(), .stride = kCols, .n_rows = kRows, .n = kCols},
                                 {numbers, later_q.data(), later_scale.data(), nullptr}};
      launch(*device, later, later.shape());
      EXPECT_EQ(q.read(), later_q.read());
      EXPECT_EQ(scale.read(), later_scale.read());
    }
  }
}

TEST(GpuRows, ActivationsAndRoundingHaveTheBitsOfTheCpu) {
  std::mt19937 rng(2);
  for (const auto& device : testing::all_devices()) {
    for (const int n_planes : {1, 2}) {
      for (size_t kind = 0; kind < cpu::kActivations; ++kind) {
        constexpr int kRows = 3;
        constexpr int kColumns = 1184;
        std::vector<float> gate = random_floats(kRows * kColumns, rng, 3.0f);
        const std::vector<float> up = random_floats(gate.size(), rng);
        std::fill(gate.begin(), gate.begin() + 32, 0.0f);  // a group of zeros
        std::fill(gate.begin() + 32, gate.begin() + 64, 1e-38f);
        for (const bool is_gated : {true, false}) {
          std::vector<float> expected(gate.size());
          cpu_kernels().activate[kind](gate.data(), is_gated ? up.data() : nullptr, static_cast<int>(gate.size()),
                                       expected.data());
          const DeviceArray<float> device_gate(device.get(), gate), device_up(device.get(), up);
          QuantisedRows rows(device.get(), kRows, kColumns, n_planes);
          rows.view.f32 = device_gate.data();
          const ActivateRows kernel{{.gate = device_gate.data(),
                                     .up = is_gated ? device_up.data() : nullptr,
                                     .stride = kColumns,
                                     .n_rows = kRows,
                                     .n = kColumns,
                                     .kind = static_cast<ActivatedRows::Kind>(kind)},
                                    rows.view};
          launch(*device, kernel, kernel.shape());
          EXPECT_TRUE(same_bits(device_gate.read(), expected));
          rows.expect_cpu_bits(expected);
        }
      }
    }
  }
}

/// Rows of a small attention: what the CPU writes into its pages and leaves in q is what the device does. Floats are
/// rounded to nearest even.
struct HeadsCase {
  int n_heads;
  int n_kv_heads;
  int head_dim;
  int rope_dim;
  KvNumbers numbers;
  bool normalises;
};

void expect_cpu_heads(Device* device, const HeadsCase& c) {
  constexpr int kPages = 4;
  constexpr int kPositions = 96;
  std::mt19937 rng(9);
  cpu::KvShape shape{.n_heads = c.n_heads, .n_kv_heads = c.n_kv_heads, .head_dim = c.head_dim};
  shape.number_bytes = bytes_of(c.numbers);
  if (is_float(c.numbers)) shape.scale_bytes = 0;
  shape.layer_bytes = static_cast<size_t>(c.n_kv_heads) * shape.head_bytes();
  const size_t page_bytes = 2 * shape.layer_bytes;  // two layers; the second is written
  const std::vector<DeviceRow> rows{{0, 31, 0}, {0, 32, 0}, {0, 95, 1}, {0, 7, 2}};
  const std::vector<DeviceSegment> segments{{.first_row = 0, .n_rows = 2, .start = 31, .first_page = 0},
                                            {.first_row = 2, .n_rows = 1, .start = 95, .first_page = 1},
                                            {.first_row = 3, .n_rows = 1, .start = 7, .first_page = 3}};
  const std::vector<int32_t> pages{3, 1, 0, 2, 0};
  const int stride = (c.n_heads + 2 * c.n_kv_heads) * c.head_dim;
  std::vector<float> qkv = random_floats(rows.size() * static_cast<size_t>(stride), rng, 4.0f);
  qkv[5] = 1e9f;  // more than a cache holds, in q; and in v
  qkv[qkv.size() - 3] = -1e9f;
  const std::vector<float> norms = random_floats(static_cast<size_t>(c.n_heads * c.head_dim), rng);
  const size_t n_pairs = static_cast<size_t>(c.rope_dim / 2);
  const std::vector<float> tables = random_floats(2 * kPositions * n_pairs, rng);

  std::vector<std::byte> expected_pages(kPages * page_bytes, std::byte{7});
  const DeviceArray<std::byte> device_pages(device, expected_pages);
  const DeviceArray<float> device_qkv(device, qkv), device_norms(device, norms), device_tables(device, tables);
  const DeviceArray<DeviceRow> device_rows(device, rows);
  const DeviceArray<DeviceSegment> device_segments(device, segments);
  const DeviceArray<int32_t> page_ids(device, pages);
  RopeAndWriteKv kernel;
  kernel.batch = {device_rows.data(), device_segments.data(), page_ids.data(), static_cast<int32_t>(rows.size()), 3};
  kernel.kv = {device_pages.data(),
               static_cast<int64_t>(page_bytes),
               static_cast<int64_t>(shape.layer_bytes),
               static_cast<int64_t>(shape.head_bytes()),
               c.n_heads,
               c.n_kv_heads,
               c.head_dim,
               c.numbers};
  kernel.layer_offset = kernel.kv.layer_bytes;
  kernel.qkv = device_qkv.data();
  kernel.rope = {device_tables.data(), kPositions, c.rope_dim, 0};
  if (c.normalises) kernel.q_norm = kernel.k_norm = device_norms.data();
  kernel.eps = 1e-6f;
  launch(*device, kernel, kernel.shape());

  for (size_t r = 0; r < rows.size(); ++r) {
    float* q = qkv.data() + r * static_cast<size_t>(stride);
    std::vector<float> cosines, sines;
    for (size_t i = 0; i < n_pairs; ++i) {
      const float cosine = tables[static_cast<size_t>(rows[r].position) * n_pairs + i];
      const float sine = tables[(kPositions + static_cast<size_t>(rows[r].position)) * n_pairs + i];
      cosines.insert(cosines.end(), {cosine, cosine});
      sines.insert(sines.end(), {-sine, sine});
    }
    for (int h = 0; h < c.n_heads + c.n_kv_heads; ++h) {
      float* head = q + h * c.head_dim;
      const float* weight = norms.data() + (h < c.n_heads ? h : h - c.n_heads) * c.head_dim;
      if (c.normalises) cpu_kernels().rms_norm(head, weight, c.head_dim, kernel.eps, head);
      cpu_kernels().rope(head, c.rope_dim, cosines.data(), sines.data());
    }
    const auto first_page = static_cast<size_t>(segments[static_cast<size_t>(rows[r].segment)].first_page);
    const auto page = static_cast<size_t>(pages[first_page + static_cast<size_t>(rows[r].position / kPageLen)]);
    for (int h = 0; h < c.n_kv_heads; ++h) {
      float* k = q + (c.n_heads + h) * c.head_dim;
      float* v = k + c.n_kv_heads * c.head_dim;
      const int t = rows[r].position % kPageLen;
      std::byte* place =
          expected_pages.data() + page * page_bytes + shape.layer_bytes + static_cast<size_t>(h) * shape.head_bytes();
      if (is_float(c.numbers)) {
        for (int d = 0; d < c.head_dim; ++d) v[d] = std::clamp(v[d], -65504.0f, 65504.0f);
        testing::write_floats(c.numbers, c.head_dim, k, v, t, place);
      } else {
        cpu_kernels().write_kv(shape, k, v, t, place);
      }
    }
  }
  EXPECT_EQ(device_pages.read(), expected_pages);
  const std::vector<float> got = device_qkv.read();
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t at = r * static_cast<size_t>(stride);
    EXPECT_TRUE(same_bits(got.data() + at, qkv.data() + at, static_cast<size_t>(c.n_heads * c.head_dim)));
  }
}

TEST(GpuRows, HeadsAreRotatedAndCachedWithTheBitsOfTheCpu) {
  for (const auto& device : testing::all_devices()) {
    for (const KvNumbers numbers : {KvNumbers::kInt8, KvNumbers::kInt16, KvNumbers::kF16, KvNumbers::kBf16}) {
      expect_cpu_heads(
          device.get(),
          {.n_heads = 9, .n_kv_heads = 3, .head_dim = 64, .rope_dim = 64, .numbers = numbers, .normalises = false});
      expect_cpu_heads(
          device.get(),
          {.n_heads = 2, .n_kv_heads = 2, .head_dim = 80, .rope_dim = 20, .numbers = numbers, .normalises = true});
    }
  }
}

// What a row does not see is multiplied by 0.
TEST(GpuRows, NothingButFiniteFloatsIsCached) {
  constexpr int kDim = 16;
  for (const auto& device : testing::all_devices()) {
    for (const KvNumbers numbers : {KvNumbers::kF16, KvNumbers::kBf16}) {
      std::vector<float> qkv(3 * kDim, 1.0f);
      for (const size_t head : {size_t{kDim}, size_t{2 * kDim}}) {
        qkv[head] = NAN;
        qkv[head + 1] = -NAN;
        qkv[head + 2] = INFINITY;
        qkv[head + 3] = -INFINITY;
        qkv[head + 4] = 65520.0f;  // would become infinite in f16
      }
      constexpr size_t kHeadBytes = 2 * kPageLen * kDim * sizeof(uint16_t);
      const DeviceArray<std::byte> pages(device.get(), std::vector<std::byte>(kHeadBytes));
      const DeviceArray<float> device_qkv(device.get(), qkv);
      const DeviceArray<DeviceRow> rows(device.get(), {{0, 3, 0}});
      const DeviceArray<DeviceSegment> segments(device.get(), {{.n_rows = 1, .start = 3}});
      const DeviceArray<int32_t> page_ids(device.get(), {0});
      RopeAndWriteKv kernel;
      kernel.batch = {rows.data(), segments.data(), page_ids.data(), 1, 1};
      kernel.kv = {pages.data(), kHeadBytes, kHeadBytes, kHeadBytes, 1, 1, kDim, numbers};
      kernel.qkv = device_qkv.data();
      launch(*device, kernel, kernel.shape());
      const std::vector<std::byte> written = pages.read();
      const auto* cached = reinterpret_cast<const uint16_t*>(written.data());
      for (size_t i = 0; i < kHeadBytes / sizeof(uint16_t); ++i)
        EXPECT_TRUE(std::isfinite(testing::from_bits(numbers, cached[i]))) << i;
      EXPECT_EQ(testing::from_bits(numbers, cached[testing::float_place(kDim, 3, 3, true)]),
                numbers == KvNumbers::kF16 ? -65504.0f : -65536.0f);
      EXPECT_EQ(testing::from_bits(numbers, cached[testing::float_place(kDim, 3, 5, false)]), 1.0f);
    }
  }
}

}  // namespace
}  // namespace bass::cuda
