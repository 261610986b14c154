#include "kernels/cuda/attention/attention.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/cuda/attention/fused_attention.h"
#include "kernels/cuda/attention/padded_attention.h"

namespace bass::cuda {
namespace {

// Weights of cut tiles, all KV heads: there are few tiles when any are cut.
constexpr size_t kMaxWeightsBytes = size_t{64} << 20;

// So many blocks of a multiprocessor read as fast as it can. An H200 takes 259 us for 5 tokens each of 8 texts of 4096
// with 32 heads of 128; with one block 266, with three 278.
constexpr int kBlocksOfFullSpeed = 2;
static_assert(kBlocksOfFullSpeed <= kBlocksInWork);

}  // namespace

void describe_segments(std::span<const DeviceSegment> segments, DeviceBatch* batch) {
  batch->n_segments = static_cast<int32_t>(segments.size());
  batch->max_kv_len = 0;
  for (const DeviceSegment& segment : segments) {
    if (segment.is_decode != 0) batch->max_kv_len = std::max(batch->max_kv_len, segment.start + segment.n_rows);
  }
}

GpuAttention::GpuAttention(Device* device, const GpuAttentionOptions& options)
    : device_(device), options_(options), group_size_(options.kv.n_heads / options.kv.n_kv_heads) {
  BASS_CHECK(options.kv.head_dim % 16 == 0 && options.kv.head_dim <= kMaxGpuHeadDim);
  BASS_CHECK(options.kv.head_bytes % kUnitBytes == 0 && options.kv.page_bytes % kUnitBytes == 0);  // as copies need it
  const auto n_kv_heads = static_cast<size_t>(options.kv.n_kv_heads);
  const auto n_rows = static_cast<size_t>(options.max_rows) * static_cast<size_t>(group_size_);
  const int n_chunks = n_chunks_of(options.max_kv_len);
  segment_rows_.reserve(static_cast<size_t>(options.max_segments));
  counts_ = DeviceBuffer(device, sizeof(int32_t) * static_cast<size_t>(2 * options.max_segments + kFusedStages));
  if (options.kind == GpuAttentionKind::kFused) {
    const int n_tiles = ceil_div(static_cast<int>(n_rows), kTileRows) + options.max_segments;
    max_weights_ = static_cast<int>(std::min(kMaxWeightsBytes / sizeof(ChunkWeights) / n_kv_heads,
                                             static_cast<size_t>(n_tiles) * static_cast<size_t>(n_chunks)));
    max_tiles_ = max_fused_tiles(options.max_rows, options.max_segments, group_size_, max_weights_);
    states_ =
        DeviceBuffer(device, n_kv_heads * n_rows * static_cast<size_t>(state_len(options.kv.head_dim)) * sizeof(float));
    tiles_ = DeviceBuffer(device, kFusedStages * static_cast<size_t>(max_tiles_) * sizeof(AttentionTile));
    tokens_ = DeviceBuffer(device, static_cast<size_t>(options.max_rows) * sizeof(int32_t));
    const int n_counters = max_fused_counters(max_tiles_, options.max_segments, options.kv.n_kv_heads);
    counters_ = DeviceBuffer(device, static_cast<size_t>(n_counters) * sizeof(int32_t));
  } else if (options.kind == GpuAttentionKind::kPad) {
    // The rectangle of all sequences that decode. A prompt's chunks are not in it.
    const int n_tiles = ceil_div(options.max_decode_rows * group_size_, kTileRows);
    padded_shape_ = DeviceBuffer(device, sizeof(PaddedShape));
    const size_t n_weights =
        static_cast<size_t>(options.max_segments) * static_cast<size_t>(n_tiles) * static_cast<size_t>(n_chunks);
    is_countable_ = n_weights <= std::numeric_limits<int>::max();
    if (!is_countable_) return;
    max_weights_ = static_cast<int>(n_weights);
    scores_ = DeviceBuffer(device, n_kv_heads * static_cast<size_t>(max_weights_) * sizeof(ChunkScores));
  }
  weights_ = DeviceBuffer(device, n_kv_heads * static_cast<size_t>(max_weights_) * sizeof(ChunkWeights));
}

bool GpuAttention::ok() const {
  return is_countable_ && states_.ok() && weights_.ok() && scores_.ok() && tiles_.ok() && tokens_.ok() &&
         counters_.ok() && counts_.ok() && padded_shape_.ok();
}

size_t GpuAttention::n_bytes() const {
  return states_.n_bytes() + weights_.n_bytes() + scores_.n_bytes() + tiles_.n_bytes() + tokens_.n_bytes() +
         counters_.n_bytes() + counts_.n_bytes() + padded_shape_.n_bytes();
}

FusedPlan GpuAttention::fused_plan() const {
  FusedPlan plan;
  plan.tokens = tokens_.as<int32_t>();
  for (int stage = 0; stage < kFusedStages; ++stage)
    plan.tiles[stage] = tiles_.as<AttentionTile>() + stage * max_tiles_;
  plan.n_tiles = counts_.as<int32_t>();
  plan.counters = counters_.as<uint32_t>();
  plan.max_weights = max_weights_;
  return plan;
}

void GpuAttention::plan(const DeviceBatch& batch, std::span<const DeviceSegment> segments, int window) {
  BASS_CHECK(batch.n_segments <= options_.max_segments && batch.n_rows <= options_.max_rows);
  if (batch.n_segments == 0) return;
  n_tiles_ = ceil_div(batch.n_rows * group_size_, kTileRows) + batch.n_segments;
  AttentionArguments args;
  args.kv = options_.kv;
  args.batch = batch;
  args.window = window;
  switch (options_.kind) {
    case GpuAttentionKind::kFused:
      return plan_fused(args);
    case GpuAttentionKind::kSplit:
      segment_rows_.clear();
      for (const DeviceSegment& segment : segments) segment_rows_.push_back(segment.n_rows);
      return;
    case GpuAttentionKind::kPad:
      plan_padded(batch, segments);
      if (!has_prompts_) return;
      [[fallthrough]];
    case GpuAttentionKind::kSplitGrouped: {
      const bool without_decode = options_.kind == GpuAttentionKind::kPad;
      const CountTiles count{batch, group_size_, without_decode ? 1 : 0, counts_.as<int32_t>()};
      launch(*device_, count, count.shape());
    }
  }
}

void GpuAttention::plan_padded(const DeviceBatch& batch, std::span<const DeviceSegment> segments) {
  n_tiles_ = n_decode_ = max_decode_rows_ = 0;
  has_prompts_ = false;
  for (const DeviceSegment& segment : segments) {
    if (segment.is_decode == 0) {
      has_prompts_ = true;
      n_tiles_ += n_tiles_of(segment, group_size_);
      continue;
    }
    ++n_decode_;
    max_decode_rows_ = std::max(max_decode_rows_, segment.n_rows);
  }
  if (n_decode_ == 0) return;
  const PlanPadded padded{batch, group_size_, padded_shape_.as<PaddedShape>(), padded_sequences()};
  launch(*device_, padded, padded.shape());
}

void GpuAttention::plan_fused(const AttentionArguments& args) {
  const int n_multiprocessors = device_->info().n_multiprocessors;
  // First and late tiles are no more than those of all sequences; others there are only where tiles are cut.
  const int n_uncut = 2 * n_tiles_ * args.kv.n_kv_heads;
  n_blocks_ = kBlocksOfFullSpeed * n_multiprocessors;
  if (n_chunks_of(args.batch.max_kv_len) <= kRunChunks) n_blocks_ = std::min(n_blocks_, n_uncut);
  n_launches_ = 0;
  const PlanFused kernel{args, fused_plan(), kBlocksOfFullSpeed * n_multiprocessors, options_.min_saved_bytes};
  launch(*device_, kernel, kernel.shape());
}

void GpuAttention::attend(const AttentionArguments& args) {
  if (args.batch.n_segments == 0) return;
  switch (options_.kind) {
    case GpuAttentionKind::kFused:
      return attend_fused(args);
    case GpuAttentionKind::kPad:
      if (n_decode_ > 0) attend_padded(args);
      if (!has_prompts_) return;
      [[fallthrough]];
    case GpuAttentionKind::kSplitGrouped:
      return is_float(args.kv.numbers) ? launch_grouped<AttendFloatGrouped>(args) : launch_grouped<AttendGrouped>(args);
    case GpuAttentionKind::kSplit:
      return is_float(args.kv.numbers) ? launch_split<AttendFloatSegment>(args) : launch_split<AttendSegment>(args);
  }
}

template <class Kernel>
void GpuAttention::launch_grouped(const AttentionArguments& args) {
  const Kernel kernel{{args, counts_.as<int32_t>()}};
  launch(*device_, kernel, kernel.shape(n_tiles_));
}

template <class Kernel>
void GpuAttention::launch_split(const AttentionArguments& args) {
  for (int i = 0; i < args.batch.n_segments; ++i) {
    const Kernel kernel{{args, i}};
    launch(*device_, kernel, kernel.shape(segment_rows_[static_cast<size_t>(i)]));
  }
}

void GpuAttention::attend_fused(const AttentionArguments& args) {
  const FusedPlan plan = fused_plan();
  const AttentionScratch scratch{states_.as<float>(), weights_.as<ChunkWeights>(), args.batch.n_rows, max_weights_};
  const auto launch_for = [&](const auto& heads) {
    const AttendFused<std::decay_t<decltype(heads)>> kernel{args, scratch, plan, n_launches_, item_bytes_of(args.kv)};
    launch(*device_, listed(kernel), kernel.shape(n_blocks_));
  };
  if (is_float(args.kv.numbers)) {
    with_head_type<true>(args.kv, launch_for);
  } else {
    with_head_type<false>(args.kv, launch_for);
  }
  ++n_launches_;
}

void GpuAttention::attend_padded(const AttentionArguments& args) {
  const int max_chunks = n_chunks_of(args.batch.max_kv_len);
  BASS_CHECK(max_decode_rows_ <= options_.max_decode_rows && max_chunks <= n_chunks_of(options_.max_kv_len));
  PaddedArguments padded;
  padded.args = args;
  padded.shape = padded_shape_.as<PaddedShape>();
  padded.sequences = padded_sequences();
  padded.scores = scores_.as<ChunkScores>();
  padded.weights = weights_.as<ChunkWeights>();
  padded.max_chunks = max_weights_;
  if (is_float(args.kv.numbers)) {
    launch_padded<PaddedFloatScores, PaddedFloatSoftmax, PaddedFloatValues>(padded, max_chunks);
  } else {
    launch_padded<PaddedScores, PaddedSoftmax, PaddedValues>(padded, max_chunks);
  }
}

template <class Scores, class Softmax, class Values>
void GpuAttention::launch_padded(const PaddedArguments& padded, int max_chunks) {
  const Scores scores{{padded}};
  launch(*device_, scores, scores.shape(n_decode_, max_decode_rows_, max_chunks));
  const Softmax softmax{{padded}};
  launch(*device_, softmax, softmax.shape(n_decode_, max_decode_rows_, max_chunks));
  const Values values{{padded}};
  launch(*device_, values, values.shape(n_decode_, max_decode_rows_));
}

}  // namespace bass::cuda
