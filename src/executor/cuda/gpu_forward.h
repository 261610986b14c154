// The forward pass of one model over a ragged batch on a device. Everything is queued, nothing waits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/cuda/gpu_batch.h"
#include "executor/cuda/gpu_model.h"
#include "executor/cuda/pass_graphs.h"
#include "executor/executor.h"
#include "executor/step_sampling.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/matmul/launch_product.h"
#include "kernels/cuda/rows/activate_rows.h"
#include "model/decoder.h"

namespace bass::cuda {

struct GpuForwardOptions {
  int max_rows = 0;      // of one batch
  int max_segments = 0;  // the same
  int n_planes = 1;      // of activations for quantised weights: 1 is int8, 2 is int16
  AttentionKind attention = AttentionKind::kFused;
  int context_len = 0;
  std::vector<int32_t> tap_layers;  // whose output goes to the pages, ascending
  bool uses_graphs = true;          // where the layout of attention lets passes be recorded
};

/// Rows of activations in the forms that the weights read.
struct GpuStage {
  DeviceBuffer memory;
  DeviceActivations rows;
};

/// Which experts see which rows of a batch (kernels/cuda/experts/route_rows.h), and what they give.
struct GpuExpertRows {
  DeviceBuffer probabilities;  // float [max_rows, n_experts]
  DeviceBuffer chosen;         // int32 [max_rows, n_used]
  DeviceBuffer weights;        // float [max_rows, n_used]
  DeviceBuffer slots;          // int32 [max_rows, n_used]
  DeviceBuffer rows;           // int32 [max_rows n_used]
  DeviceBuffer begins;         // int32 [n_experts + 1]
  DeviceBuffer results;        // float [max_rows n_used, d_model]
  GpuStage input;              // [max_rows n_used, d_model]
};

GpuAttentionKind gpu_attention_kind(AttentionKind kind);

/// A batch is filled (begin_batch, add_*, end_batch), run, and its logits are asked for, in this order.
class GpuForward {
 public:
  GpuForward(Device* device, GpuModel* model, Staging* staging, const GpuForwardOptions& options);

  /// False when there was no memory for the workspace; n_bytes() were wanted.
  [[nodiscard]] bool ok() const;
  [[nodiscard]] size_t n_bytes() const;

  /// Where rows whose token is drafted_later find it, in the device's memory.
  void read_drafted_from(const TokenId* drafted) { drafted_ = drafted; }

  void begin_batch() { batch_->begin(); }
  void add_segment(int start, bool is_decode, std::span<const PageId> pages, int max_text_len,
                   std::span<const PageId> main_pages) {
    batch_->add_segment(start, is_decode, pages, max_text_len, main_pages);
  }
  /// token: may be drafted_later of a pass that is queued already
  void add_token(TokenId token, int hidden_row) { batch_->add_token(token, hidden_row); }
  /// All rows have results: a pass that drops some would be recorded as another graph.
  void want_results(int /*n_rows*/) {}
  void end_batch();
  [[nodiscard]] int n_rows() const { return batch_->n_rows(); }

  void run();

  /// Logits of up to kLogitsBlockRows rows of the batch that ran last, and behind row i's its products with more[i]
  /// (empty, or null: none). out: [rows.size(), row_len] of the device
  void logits(std::span<const int> rows, std::span<const DeviceMatrix* const> more, int row_len, float* out);
  /// Keeps x of these rows of the batch that ran last for the next one, of a draft that reads hidden states.
  void keep_hidden(std::span<const int> rows);

  /// Of all batches since construction.
  [[nodiscard]] const Work& work() const { return work_; }
  [[nodiscard]] const GraphCounts& graphs() const { return graphs_.counts(); }

  /// What a batch of so many rows and segments, with so many pages, appends to the staging at most.
  [[nodiscard]] static size_t staged_bytes(size_t n_rows, size_t n_segments, size_t n_pages);

 private:
  friend class GpuOps;
  GpuStage make_stage(int n_rows, int n_cols, float* shared_f32 = nullptr);
  void make_library_sums();
  void make_draft_input();
  void make_experts();
  [[nodiscard]] std::vector<const DeviceBuffer*> buffers() const;  // all that this owns but attention's
  [[nodiscard]] DeviceBuffer floats(int64_t n) { return {device_, static_cast<size_t>(n) * sizeof(float)}; }
  void open_batch();
  void make_attentions();
  GpuAttention& attention_of(int window);
  void count_work();

  Device* device_;
  GpuModel* model_;
  Staging* staging_;
  GpuForwardOptions options_;

  const TokenId* drafted_ = nullptr;
  std::optional<GpuBatch> batch_;  // always there
  PassGraphs graphs_;
  struct Attention {
    int window;
    std::unique_ptr<GpuAttention> attention;
  };
  std::vector<Attention> attentions_;  // one for each window that layers have

  DeviceBuffer residual_;      // float [max_rows, d_model]
  DeviceBuffer qkv_;           // float [max_rows, q_dim + 2 kv_dim]
  DeviceBuffer attended_;      // float [max_rows, q_dim]
  DeviceBuffer gate_up_;       // float [max_rows, 2 or 1, d_ff]; with experts [2 or 1, n_slots, d_ff]
  DeviceBuffer added_;         // float [max_rows, d_model], where it is normalised before it is added
  GpuStage normed_;            // [max_rows, d_model]
  GpuStage attended_stage_;    // [max_rows, q_dim]
  GpuStage gated_;             // [max_rows or max_slots, d_ff]
  GpuStage head_input_;        // [kLogitsBlockRows, d_model]
  GpuStage taps_;              // [max_rows, n_taps d_main]
  GpuStage joined_;            // [max_rows, input.n_in]
  DeviceBuffer features_;      // float [max_rows, d_model]
  DeviceBuffer hidden_;        // float [max_segments, d_model]
  DeviceBuffer library_sums_;  // TokenQuants::sums of all stages
  GpuExpertRows experts_;
  Work work_;
};

/// The fused operations of decoder_forward: each queues its kernels.
class GpuOps {
 public:
  explicit GpuOps(GpuForward& forward)
      : f_(forward), device_(*forward.device_), model_(*forward.model_), config_(model_.config()) {}

  void embed();
  void norm(int layer, NormKind kind);
  void project_qkv(int layer);
  void rope_and_write_kv(int layer);
  bool keep_results() { return true; }
  void attend(int layer);
  void project_output(int layer);
  void route(int layer);
  void gate_up(int layer);
  void project_down(int layer);
  void tap(int layer);

 private:
  [[nodiscard]] const DeviceBatch& batch() const { return f_.batch_->on_device(); }
  /// Those that rounding has added among them.
  [[nodiscard]] int n_rows() const { return batch().n_rows; }
  void embed_draft();
  void norm_heads(const float* weight, int first_column, int n);
  void multiply(const DeviceMatrix& weight, const DeviceActivations& input, float* out, int64_t stride,
                bool accumulates = false);
  void activate(const ActivatedRows& rows, const DeviceActivations& out);
  void activate_gated(int n_rows, int64_t stride, int64_t up_offset);
  void gate_up_experts(int layer);
  void project_down_experts(int layer);
  [[nodiscard]] int n_slots() const { return n_rows() * config_.n_experts_used; }
  void multiply_experts(const GpuExpertMatrix& weights, const DeviceActivations& input, float* out);
  void project_residual(const DeviceMatrix& weight, const DeviceNorm& post_norm, const DeviceActivations& input);

  GpuForward& f_;
  Device& device_;
  const GpuModel& model_;
  const ModelConfig& config_;
};

}  // namespace bass::cuda
