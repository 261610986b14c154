// Batches for tests of ragged attention, in the host's memory and on a device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/emulator/emulated_device.h"
#include "kernels/cuda/float_kv_testing.h"

namespace bass::cuda::testing {

inline const cpu::Kernels& cpu_kernels() { return *cpu::find_kernels(cpu::Isa::kScalar); }

struct HeadShape {
  int head_dim = 64;
  int n_heads = 2;
  int n_kv_heads = 1;
  KvNumbers numbers = KvNumbers::kInt16;
  float score_cap = 0;
  float score_scale = 0;
};

/// A sequence's part of a batch. Its pages begin with the first n_shared_chunks pages of `prefix` (n samples of one
/// prompt), the others are its own.
struct Sequence {
  int start = 0;
  int n_rows = 1;
  bool is_decode = true;
  int prefix = -1;
  int n_shared_chunks = 0;
  unsigned text = 0;  // seed of what its own pages hold, and of its queries; 0: by its index
};

/// A batch in the host's memory: pages that the CPU's kernels have written, queries, and what the CPU makes of them.
class Batch {
 public:
  static constexpr int kLayers = 2;        // attention is in the second
  static constexpr int kFloatsBehind = 3;  // of a row of q

  /// has_text: whether the pages are written; a plan does not read them. unwritten: the bytes of floats that nobody has
  /// written, which must be finite.
  Batch(const HeadShape& heads, const std::vector<Sequence>& sequences, int window, bool has_text = true,
        std::byte unwritten = std::byte{0x5A})
      : heads_(heads), sequences_(sequences), window_(window), has_text_(has_text), unwritten_(unwritten) {
    shape_.n_heads = heads.n_heads;
    shape_.n_kv_heads = heads.n_kv_heads;
    shape_.head_dim = heads.head_dim;
    shape_.number_bytes = bytes_of(heads.numbers);
    if (is_float(heads.numbers)) shape_.scale_bytes = 0;
    shape_.score_cap = heads.score_cap;
    shape_.score_scale = heads.score_scale;
    shape_.layer_bytes = static_cast<size_t>(heads.n_kv_heads) * shape_.head_bytes();
    for (size_t i = 0; i < sequences.size(); ++i) add(i);
  }

  [[nodiscard]] int q_stride() const { return heads_.n_heads * heads_.head_dim + kFloatsBehind; }
  [[nodiscard]] size_t page_bytes() const { return kLayers * shape_.layer_bytes; }

  DeviceKv kv(std::byte* pages) const {
    DeviceKv kv;
    kv.pages = pages;
    kv.page_bytes = static_cast<int64_t>(page_bytes());
    kv.layer_bytes = static_cast<int64_t>(shape_.layer_bytes);
    kv.head_bytes = static_cast<int64_t>(shape_.head_bytes());
    kv.n_heads = heads_.n_heads;
    kv.n_kv_heads = heads_.n_kv_heads;
    kv.head_dim = heads_.head_dim;
    kv.numbers = heads_.numbers;
    kv.score_factor =
        heads_.score_scale > 0 ? kLog2E * heads_.score_scale : kLog2E / std::sqrt(static_cast<float>(heads_.head_dim));
    kv.score_cap = heads_.score_cap * kLog2E;
    return kv;
  }

  /// [n_rows, n_heads, head_dim] of the CPU's kernels; of a cache of floats in double precision, but for the queries,
  /// which are rounded as keys are.
  [[nodiscard]] std::vector<float> expected() const {
    const auto row_len = static_cast<size_t>(heads_.n_heads * heads_.head_dim);
    std::vector<float> out(rows.size() * row_len, NAN);
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<const std::byte*> pages = pages_of(r);
      for (int kv_head = 0; kv_head < heads_.n_kv_heads; ++kv_head) {
        const auto offset = static_cast<size_t>(kv_head * shape_.group_size() * heads_.head_dim);
        const float* row = q.data() + r * static_cast<size_t>(q_stride()) + offset;
        float* result = out.data() + r * row_len + offset;
        if (is_float(heads_.numbers)) {
          for (int h = 0; h < shape_.group_size() * heads_.head_dim; h += heads_.head_dim)
            attend_floats(pages, kv_head, rows[r].position, row + h, result + h);
        } else {
          attend_on_cpu(pages, kv_head, rows[r].position, row, result);
        }
      }
    }
    return out;
  }

  std::vector<DeviceSegment> segments;
  std::vector<DeviceRow> rows;
  std::vector<int32_t> page_ids;
  std::vector<std::byte> memory;  // [n_pages, page_bytes]
  std::vector<float> q;           // [n_rows, q_stride]

 private:
  [[nodiscard]] std::vector<const std::byte*> pages_of(size_t row) const {
    const DeviceSegment& segment = segments[static_cast<size_t>(rows[row].segment)];
    std::vector<const std::byte*> pages;
    for (int i = 0; i < segment.n_pages; ++i) {
      pages.push_back(memory.data() +
                      static_cast<size_t>(page_ids[static_cast<size_t>(segment.first_page + i)]) * page_bytes());
    }
    return pages;
  }
  [[nodiscard]] int first_seen(int position) const { return window_ > 0 ? std::max(0, position - window_ + 1) : 0; }
  [[nodiscard]] size_t head_offset(int kv_head) const {
    return shape_.layer_bytes + static_cast<size_t>(kv_head) * shape_.head_bytes();
  }

  void attend_on_cpu(const std::vector<const std::byte*>& pages, int kv_head, int position, const float* row,
                     float* out) const {
    const cpu::AttentionToken token{row, out, position, first_seen(position)};
    cpu::AttentionUnit unit;
    unit.tokens = &token;
    unit.n_tokens = 1;
    unit.end_chunk = n_chunks_of(position + 1);
    unit.pages = pages.data();
    unit.head_offset = head_offset(kv_head);
    cpu_kernels().attend(shape_, unit);
  }
  /// One head's.
  void attend_floats(const std::vector<const std::byte*>& pages, int kv_head, int position, const float* row,
                     float* out) const {
    const DeviceKv described = kv(nullptr);
    const auto number = [&](int t, int dim, bool is_v) {
      const auto* page =
          reinterpret_cast<const uint16_t*>(pages[static_cast<size_t>(t / kPageLen)] + head_offset(kv_head));
      return double{from_bits(heads_.numbers, page[float_place(heads_.head_dim, t % kPageLen, dim, is_v)])};
    };
    std::vector<double> weights, sums(static_cast<size_t>(heads_.head_dim));
    double largest = -INFINITY, total = 0;
    for (int t = first_seen(position); t <= position; ++t) {
      double score = 0;
      for (int d = 0; d < heads_.head_dim; ++d)
        score += double{from_bits(heads_.numbers, to_bits(heads_.numbers, row[d]))} * number(t, d, false);
      score *= double{described.score_factor};
      if (described.score_cap > 0) score = described.score_cap * std::tanh(score / double{described.score_cap});
      weights.push_back(score);
      largest = std::max(largest, score);
    }
    for (int t = first_seen(position); t <= position; ++t) {
      const double weight = std::exp2(weights[static_cast<size_t>(t - first_seen(position))] - largest);
      total += weight;
      for (int d = 0; d < heads_.head_dim; ++d) sums[static_cast<size_t>(d)] += weight * number(t, d, true);
    }
    for (size_t d = 0; d < sums.size(); ++d) out[d] = static_cast<float>(sums[d] / total);
  }
  void add(size_t idx) {
    const Sequence& sequence = sequences_[idx];
    DeviceSegment segment;
    segment.first_row = static_cast<int32_t>(rows.size());
    segment.n_rows = sequence.n_rows;
    segment.start = sequence.start;
    segment.is_decode = sequence.is_decode ? 1 : 0;
    segment.first_page = static_cast<int32_t>(page_ids.size());
    segment.n_pages = n_chunks_of(sequence.start + sequence.n_rows);
    std::mt19937 random(sequence.text != 0 ? sequence.text : static_cast<unsigned>(77 + idx));
    for (int chunk = 0; chunk < segment.n_pages; ++chunk) {
      if (sequence.prefix >= 0 && chunk < sequence.n_shared_chunks) {
        page_ids.push_back(
            page_ids[static_cast<size_t>(segments[static_cast<size_t>(sequence.prefix)].first_page + chunk)]);
      } else {
        page_ids.push_back(write_page(random, sequence.start + sequence.n_rows - chunk * kPageLen));
      }
    }
    std::normal_distribution<float> normal;
    for (int i = 0; i < sequence.n_rows; ++i) {
      rows.push_back({0, sequence.start + i, static_cast<int32_t>(idx), -1});
      for (int k = 0; k < q_stride(); ++k) q.push_back(normal(random));
    }
    segments.push_back(segment);
  }

  /// A page with n positions; what is not written are NaN scales and numbers of all bits, in a cache of floats what
  /// the constructor says.
  int32_t write_page(std::mt19937& random, int n_positions) {
    if (!has_text_) return n_pages_++;
    const size_t begin = memory.size();
    memory.resize(begin + page_bytes(), is_float(heads_.numbers) ? unwritten_ : std::byte{0xFF});
    std::normal_distribution<float> normal;
    std::vector<float> k(static_cast<size_t>(heads_.head_dim)), v(k.size());
    for (int t = 0; t < std::min(n_positions, kPageLen); ++t) {
      for (int kv_head = 0; kv_head < heads_.n_kv_heads; ++kv_head) {
        for (float& x : k) x = normal(random);
        for (float& x : v) x = normal(random);
        k[3] *= 6;  // some positions weigh more than others
        write_position(k, v, t, memory.data() + begin + head_offset(kv_head));
      }
    }
    return n_pages_++;
  }
  void write_position(const std::vector<float>& k, const std::vector<float>& v, int t, std::byte* place) const {
    if (!is_float(heads_.numbers)) return cpu_kernels().write_kv(shape_, k.data(), v.data(), t, place);
    write_floats(heads_.numbers, heads_.head_dim, k.data(), v.data(), t, place);
  }

  HeadShape heads_;
  std::vector<Sequence> sequences_;
  int window_;
  bool has_text_;
  std::byte unwritten_;
  int32_t n_pages_ = 0;
  cpu::KvShape shape_;
};

template <class T>
DeviceBuffer upload(Device& device, const std::vector<T>& values) {
  DeviceBuffer buffer(&device, std::max<size_t>(1, values.size()) * sizeof(T));
  device.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

/// A batch on a device.
struct Uploaded {
  DeviceBuffer memory, rows, segments, page_ids, q;
  AttentionArguments args;

  Uploaded(Device& device, const Batch& batch, int window)
      : memory(upload(device, batch.memory)),
        rows(upload(device, batch.rows)),
        segments(upload(device, batch.segments)),
        page_ids(upload(device, batch.page_ids)),
        q(upload(device, batch.q)) {
    args.kv = batch.kv(memory.data());
    args.layer_offset = args.kv.layer_bytes;
    args.batch.rows = rows.as<DeviceRow>();
    args.batch.segments = segments.as<DeviceSegment>();
    args.batch.pages = page_ids.as<int32_t>();
    args.batch.n_rows = static_cast<int32_t>(batch.rows.size());
    describe_segments(batch.segments, &args.batch);
    args.q = q.as<float>();
    args.q_stride = batch.q_stride();
    args.window = window;
  }
};

inline GpuAttentionOptions options_for(const Batch& batch, const DeviceKv& kv, GpuAttentionKind kind) {
  GpuAttentionOptions options{kv, kind, static_cast<int>(batch.rows.size()),
                              static_cast<int>(batch.segments.size()) + 1};
  options.min_saved_bytes = 0;
  for (const DeviceSegment& segment : batch.segments) {
    options.max_kv_len = std::max(options.max_kv_len, segment.start + segment.n_rows);
    if (segment.is_decode != 0) options.max_decode_rows = std::max(options.max_decode_rows, segment.n_rows);
  }
  return options;
}

/// [n_rows, n_heads, head_dim]; what is not written is what the device's memory holds: NaN, where it is emulated.
/// max_kv_len: a bound that is not the least; 0: the least
inline std::vector<float> attend(Device& device, const Batch& batch, GpuAttentionKind kind, int window,
                                 int max_kv_len = 0) {
  Uploaded uploaded(device, batch, window);
  if (max_kv_len > 0) {
    uploaded.args.batch.max_kv_len = max_kv_len;
  }
  GpuAttention attention(&device, options_for(batch, uploaded.args.kv, kind));
  EXPECT_TRUE(attention.ok());
  std::vector<float> out(batch.rows.size() * static_cast<size_t>(uploaded.args.kv.n_heads * uploaded.args.kv.head_dim));
  DeviceBuffer results(&device, std::max<size_t>(1, out.size()) * sizeof(float));
  uploaded.args.out = results.as<float>();
  attention.plan(uploaded.args.batch, batch.segments, window);
  for (int layer = 0; layer < 2; ++layer) attention.attend(uploaded.args);  // a plan serves all layers
  device.download(out.data(), results.data(), out.size() * sizeof(float));
  EXPECT_TRUE(device.synchronize().ok());
  return out;
}

inline std::vector<float> attend(const Batch& batch, GpuAttentionKind kind, int window,
                                 const EmulatorOptions& emulator = {}) {
  EmulatedDeviceOptions options;
  options.emulator = emulator;
  return attend(*open_emulated_device(options), batch, kind, window);
}

inline constexpr GpuAttentionKind kKinds[] = {GpuAttentionKind::kPad, GpuAttentionKind::kSplit,
                                              GpuAttentionKind::kSplitGrouped, GpuAttentionKind::kFused};

inline ::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "element " << i << " of " << a.size() << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// All layouts, by threads and by fibers in descending order.
inline void expect_any_order_of_threads(const Batch& batch, const std::vector<float>& expected) {
  for (const GpuAttentionKind kind : kKinds) {
    EmulatorOptions options;
    options.mode = EmulatorMode::kThreads;
    EXPECT_TRUE(same_bits(attend(batch, kind, 0, options), expected));
#if !defined(__SANITIZE_THREAD__)
    options.mode = EmulatorMode::kFibers;
    options.order = EmulatorOrder::kDescending;
    EXPECT_TRUE(same_bits(attend(batch, kind, 0, options), expected));
#endif
  }
}

}  // namespace bass::cuda::testing
