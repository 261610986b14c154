// Ragged attention of a batch on a device, in one of the layouts that the user chooses. All give the same bits.
#pragma once

#include <span>
#include <vector>

#include "bass/engine.h"
#include "kernels/cuda/attention/attention_tile.h"
#include "kernels/cuda/attention/fused_plan.h"
#include "kernels/cuda/device.h"

namespace bass::cuda {

struct PaddedArguments;

/// The layouts, as the engine's AttentionKind.
enum class GpuAttentionKind { kPad, kSplit, kSplitGrouped, kFused };

struct GpuAttentionOptions {
  DeviceKv kv;
  GpuAttentionKind kind = GpuAttentionKind::kFused;
  int max_rows = 0;                             // of a pass
  int max_segments = 0;                         // of a pass
  int max_decode_rows = 1;                      // of a sequence that decodes or verifies; BASS-PAD only
  int max_kv_len = 0;                           // positions that a sequence may reach
  int64_t min_saved_bytes = int64_t{16} << 20;  // PlanFused's; as many as a cache gives while a block waits for another
};

/// Sets n_segments and max_kv_len of a batch whose arrays are, or will be, in the device's memory.
void describe_segments(std::span<const DeviceSegment> segments, DeviceBatch* batch);

/// Owns what attention needs between its kernels. `plan` first in a pass, for each window that its layers have; then
/// `attend` for each layer. Nothing waits for the device and nothing is allocated after construction.
class GpuAttention {
 public:
  /// The device outlives it. Without memory, ok() is false: n_bytes() were wanted.
  GpuAttention(Device* device, const GpuAttentionOptions& options);

  [[nodiscard]] bool ok() const;
  [[nodiscard]] size_t n_bytes() const;

  /// segments: the host's copy, whose n_rows and start may be upper bounds of the device's. Of `fused` and
  /// `split-grouped` they are not looked at: what this and `attend` queue is the same for batches of the same sizes.
  void plan(const DeviceBatch& batch, std::span<const DeviceSegment> segments, int window);

  /// args.window as planned last. args.kv.pages begins with page 0.
  void attend(const AttentionArguments& args);

 private:
  template <class Kernel>
  void launch_grouped(const AttentionArguments& args);
  template <class Kernel>
  void launch_split(const AttentionArguments& args);
  template <class Scores, class Softmax, class Values>
  void launch_padded(const PaddedArguments& padded, int max_chunks);
  void attend_fused(const AttentionArguments& args);
  void attend_padded(const AttentionArguments& args);
  void plan_fused(const AttentionArguments& args);
  void plan_padded(const DeviceBatch& batch, std::span<const DeviceSegment> segments);
  [[nodiscard]] FusedPlan fused_plan() const;
  [[nodiscard]] int32_t* padded_sequences() const { return counts_.as<int32_t>() + options_.max_segments + 1; }

  Device* device_;
  GpuAttentionOptions options_;
  int group_size_;
  int max_tiles_ = 0;         // of any stage
  int max_weights_ = 0;       // chunks that may leave weights, of a KV head
  bool is_countable_ = true;  // they are few enough for the kernels' numbers
  DeviceBuffer states_;
  DeviceBuffer weights_;
  DeviceBuffer scores_;
  DeviceBuffer tiles_;  // of the stages of `fused`
  DeviceBuffer tokens_;
  DeviceBuffer counters_;
  DeviceBuffer counts_;  // of tiles, or [max_segments + 1] prefix sums, and behind them [max_segments] padded sequences
  DeviceBuffer padded_shape_;

  // Upper bounds of the pass that was planned.
  int n_tiles_ = 0;  // of `pad` those of prompts
  int max_decode_rows_ = 0;
  int n_decode_ = 0;
  bool has_prompts_ = false;
  int n_blocks_ = 0;               // of `fused`
  uint32_t n_launches_ = 0;        // since the plan was made; of `fused`
  std::vector<int> segment_rows_;  // [n_segments]; of `split`
};

}  // namespace bass::cuda
