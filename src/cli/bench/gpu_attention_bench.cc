#include "cli/bench/gpu_attention_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cli/bench/gpu_timing.h"
#include "cli/bench/timing.h"
#include "executor/cuda/gpu_forward.h"
#include "executor/cuda/gpu_model.h"
#include "kernels/cuda/attention/attention.h"

namespace bass {
namespace {

// Layers are read in turn, so many that no cache holds them all: as in a model, whose weights come between.
constexpr int64_t kMaxBytes = int64_t{4} << 30;
constexpr int kLeastLayers = 2, kMostLayers = 256;
constexpr int kByte = 0x3C;  // repeated, a normal number in every type that the cache and queries may have

/// Sequences that decode or verify, each with pages of its own.
struct Batch {
  std::vector<cuda::DeviceRow> rows;
  std::vector<cuda::DeviceSegment> segments;
  std::vector<int32_t> pages;
  int max_len = 0;

  Batch(std::span<const int> lens, int n_queries) {
    for (const int len : lens) {
      cuda::DeviceSegment segment;
      segment.first_row = static_cast<int32_t>(rows.size());
      segment.n_rows = n_queries;
      segment.start = len - n_queries;
      segment.is_decode = 1;
      segment.first_page = static_cast<int32_t>(pages.size());
      segment.n_pages = cuda::n_chunks_of(len);
      for (int page = 0; page < segment.n_pages; ++page) pages.push_back(static_cast<int32_t>(pages.size()));
      const auto idx = static_cast<int32_t>(segments.size());
      for (int i = 0; i < n_queries; ++i) rows.push_back({0, segment.start + i, idx, -1});
      segments.push_back(segment);
      max_len = std::max(max_len, len);
    }
  }
};

class GpuAttentionBench final : public AttentionBench {
 public:
  GpuAttentionBench(cuda::Device* device, const AttentionShape& shape)
      : device_(device), kv_(cuda::describe_heads(shape.n_heads, shape.n_kv_heads, shape.head_dim, shape.kv)) {}
  Status load(const AttentionRoom& room);

  Result<std::vector<AttentionTiming>> measure(std::span<const AttentionKind> kinds, std::span<const int> lens,
                                               int n_queries) override;

 private:
  Result<std::unique_ptr<cuda::GpuAttention>> make_layout(AttentionKind kind, const Batch& batch, int n_queries);
  Result<double> seconds_of_passes(cuda::GpuAttention* layout, int n_passes);
  [[nodiscard]] Work work_of(std::span<const int> lens) const;

  cuda::Device* device_;
  cuda::DeviceKv kv_;
  int n_layers_ = kLeastLayers;
  cuda::DeviceBuffer kv_memory_, rows_, segments_, pages_, q_, out_;
  cuda::AttentionArguments args_;  // of the batch that is measured, in layer 0
};

Status GpuAttentionBench::load(const AttentionRoom& room) {
  if (kv_.head_dim > cuda::kMaxGpuHeadDim) {
    return invalid_argument(
        fmt::format("--head-dim {}: the GPU's attention takes at most {}", kv_.head_dim, cuda::kMaxGpuHeadDim));
  }
  const int64_t n_pages = room.n_cached_tokens / cuda::kPageLen + room.n_sequences;
  const int64_t layer_bytes = n_pages * kv_.layer_bytes;
  const int64_t n_wanted_bytes = std::min(kMaxBytes, static_cast<int64_t>(device_->free_bytes() / 2));
  if (device_->info().has_own_speed) {  // an emulator has no cache to get past
    n_layers_ = static_cast<int>(std::clamp<int64_t>(n_wanted_bytes / layer_bytes, kLeastLayers, kMostLayers));
  }
  kv_.page_bytes = n_layers_ * kv_.layer_bytes;
  const auto n_rows = static_cast<size_t>(room.n_sequences) * static_cast<size_t>(room.n_queries);
  const size_t row_bytes = static_cast<size_t>(kv_.n_heads * kv_.head_dim) * sizeof(float);
  const auto allocate = [this](cuda::DeviceBuffer* buffer, size_t n_bytes) {
    *buffer = cuda::DeviceBuffer(device_, n_bytes);
    if (!buffer->ok()) return no_gpu_memory(n_bytes, *device_);
    device_->fill(buffer->data(), kByte, n_bytes);
    return ok_status();
  };
  BASS_RETURN_IF_ERROR(allocate(&kv_memory_, static_cast<size_t>(n_pages * kv_.page_bytes)));
  BASS_RETURN_IF_ERROR(allocate(&rows_, n_rows * sizeof(cuda::DeviceRow)));
  BASS_RETURN_IF_ERROR(allocate(&segments_, static_cast<size_t>(room.n_sequences) * sizeof(cuda::DeviceSegment)));
  BASS_RETURN_IF_ERROR(allocate(&pages_, static_cast<size_t>(n_pages) * sizeof(int32_t)));
  BASS_RETURN_IF_ERROR(allocate(&q_, n_rows * row_bytes));
  BASS_RETURN_IF_ERROR(allocate(&out_, n_rows * row_bytes));
  kv_.pages = kv_memory_.data();
  return device_->synchronize();
}

Result<std::unique_ptr<cuda::GpuAttention>> GpuAttentionBench::make_layout(AttentionKind kind, const Batch& batch,
                                                                           int n_queries) {
  cuda::GpuAttentionOptions options;
  options.kv = kv_;
  options.kind = cuda::gpu_attention_kind(kind);
  options.max_rows = static_cast<int>(batch.rows.size());
  options.max_segments = static_cast<int>(batch.segments.size());
  options.max_decode_rows = n_queries;
  options.max_kv_len = batch.max_len;
  auto layout = std::make_unique<cuda::GpuAttention>(device_, options);
  if (!layout->ok()) return no_gpu_memory(layout->n_bytes(), *device_);
  layout->plan(args_.batch, batch.segments, /*window=*/0);
  return layout;
}

// A pass is through all layers.
Result<double> GpuAttentionBench::seconds_of_passes(cuda::GpuAttention* layout, int n_passes) {
  return seconds_on_gpu(*device_, [&] {
    cuda::AttentionArguments args = args_;
    for (int i = 0; i < n_passes * n_layers_; ++i) {
      args.layer_offset = (i % n_layers_) * kv_.layer_bytes;
      layout->attend(args);
    }
  });
}

// Each sequence's keys and values once.
Work GpuAttentionBench::work_of(std::span<const int> lens) const {
  Work work;
  const auto token_bytes = static_cast<double>(kv_.layer_bytes) / cuda::kPageLen;
  for (const int len : lens) work.bytes += len * token_bytes;
  return work;
}

Result<std::vector<AttentionTiming>> GpuAttentionBench::measure(std::span<const AttentionKind> kinds,
                                                                std::span<const int> lens, int n_queries) {
  const Batch batch(lens, n_queries);
  device_->upload(rows_.data(), batch.rows.data(), batch.rows.size() * sizeof(cuda::DeviceRow));
  device_->upload(segments_.data(), batch.segments.data(), batch.segments.size() * sizeof(cuda::DeviceSegment));
  device_->upload(pages_.data(), batch.pages.data(), batch.pages.size() * sizeof(int32_t));
  BASS_RETURN_IF_ERROR(device_->synchronize());
  args_.kv = kv_;
  args_.batch = {rows_.as<cuda::DeviceRow>(), segments_.as<cuda::DeviceSegment>(), pages_.as<int32_t>(),
                 static_cast<int32_t>(batch.rows.size())};
  cuda::describe_segments(batch.segments, &args_.batch);
  args_.q = q_.as<float>();
  args_.q_stride = kv_.n_heads * kv_.head_dim;
  args_.out = out_.as<float>();
  std::vector<std::unique_ptr<cuda::GpuAttention>> layouts(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    BASS_ASSIGN_OR_RETURN(layouts[i], make_layout(kinds[i], batch, n_queries));
  }
  BASS_ASSIGN_OR_RETURN(const std::vector<double> seconds, time_in_turns(kinds.size(), [&](size_t i, int n_passes) {
                          return seconds_of_passes(layouts[i].get(), n_passes);
                        }));
  std::vector<AttentionTiming> timings;
  for (const double pass_s : seconds) timings.push_back({pass_s / n_layers_, work_of(lens)});
  return timings;
}

class GpuAttentionMachine final : public AttentionMachine {
 public:
  GpuAttentionMachine(std::unique_ptr<cuda::Device> device, double copy_gb_s) : device_(std::move(device)) {
    limits_.bandwidth_gb_s = copy_gb_s;
  }

  Result<std::unique_ptr<AttentionBench>> make_bench(const AttentionShape& shape, const AttentionRoom& room) override {
    auto bench = std::make_unique<GpuAttentionBench>(device_.get(), shape);
    BASS_RETURN_IF_ERROR(bench->load(room));
    return std::unique_ptr<AttentionBench>(std::move(bench));
  }
  Result<MachineLimits> limits_of(const Work& /*work*/) override { return limits_; }
  [[nodiscard]] nlohmann::ordered_json facts() const override { return {{"device", device_->info().name}}; }

 private:
  std::unique_ptr<cuda::Device> device_;
  MachineLimits limits_;
};

}  // namespace

Result<std::unique_ptr<AttentionMachine>> make_gpu_attention_machine(std::unique_ptr<cuda::Device> device) {
  BASS_ASSIGN_OR_RETURN(const double copy_gb_s, measure_copy_gb_s(*device));
  return std::unique_ptr<AttentionMachine>(std::make_unique<GpuAttentionMachine>(std::move(device), copy_gb_s));
}

}  // namespace bass
