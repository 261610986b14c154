// A model in a device's memory: weights, tables of rotations, KV pages.
#pragma once

#include <memory>
#include <vector>

#include "base/thread_team.h"
#include "bass/engine.h"
#include "cache/page_table.h"
#include "executor/cuda/weight_arena.h"
#include "kernels/cuda/rows/draft_input.h"
#include "kernels/cuda/rows/rope_and_write_kv.h"
#include "kernels/cuda/step_rows.h"

namespace bass::cuda {

/// One of an expert's matrices, of all experts: they have one type and shape.
struct GpuExpertMatrix {
  DeviceMatrix first;                 // expert 0's
  const DeviceMatrix* all = nullptr;  // [n_experts], in the device's memory
};

struct GpuLayer {
  DeviceNorm attention_norm, feed_forward_norm, attention_post_norm, feed_forward_post_norm;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  /// q, k and v, and the gate and up of a feed-forward block: one matrix where their formats allow it, so that a step
  /// has fewer and larger products.
  std::vector<DeviceMatrix> qkv, gate_up;
  DeviceMatrix output, down;
  DeviceMatrix router;                                  // where there are experts
  GpuExpertMatrix expert_gate, expert_up, expert_down;  // the same, instead of gate_up and down
};

/// The KV cache of a model.
struct GpuKvOptions {
  KvKind kind = KvKind::kInt16;
  int n_pages = 0;
  int context_len = 0;  // positions that a sequence may reach
  int n_taps = 0;       // hidden states of each position that pages keep, for a draft that reads them
};

/// How a model's heads are cached; where, and in how large pages, is the caller's to say.
DeviceKv describe_heads(int n_heads, int n_kv_heads, int head_dim, KvKind kind);

/// Immutable after load but for the contents of its pages, and its tables, which grow with the longest text.
class GpuModel {
 public:
  /// Errors: kInvalidArgument names what of the model the GPU backend lacks; kResourceExhausted the bytes needed and
  /// free. main: of a draft that was made for it, whose embedding and head it reads. File and main outlive the model.
  /// library: whose products they are, if not our kernels': the device's, which is open.
  static Result<std::unique_ptr<GpuModel>> load(Device* device, const ModelFile& file, const GpuKvOptions& kv,
                                                ThreadTeam* team, LibraryNumbers library,
                                                const GpuModel* main = nullptr);

  /// Of the device's memory, that the weights of both models take as `load` places them; nothing is copied, and the
  /// device only asked. draft: or null. Errors: kInvalidArgument, as load's.
  static Result<size_t> weight_bytes(Device* device, const ModelFile& main, const ModelFile* draft,
                                     LibraryNumbers library);

  [[nodiscard]] const ModelConfig& config() const { return file_->config; }
  [[nodiscard]] const GpuLayer& layer(int idx) const { return layers_[static_cast<size_t>(idx)]; }
  [[nodiscard]] const DeviceMatrix& embedding() const { return main_ != nullptr ? main_->embedding_ : embedding_; }
  [[nodiscard]] const DeviceMatrix& positions() const { return positions_; }
  [[nodiscard]] const DeviceMatrix& head() const { return head_; }
  [[nodiscard]] const DeviceNorm& output_norm() const { return output_norm_; }
  [[nodiscard]] const GpuModel* main() const { return main_; }
  [[nodiscard]] bool has_float_weights() const { return has_float_weights_; }
  [[nodiscard]] bool has_quantised_weights() const { return has_quantised_weights_; }
  [[nodiscard]] LibraryNumbers library() const { return library_; }

  /// Whether it is a draft that proposes a part of the main model's vocabulary, by rows of the main model's head.
  [[nodiscard]] bool has_part_of_head() const;
  /// More of these rows. Takes memory of its own.
  struct HeadRows {
    DeviceBuffer memory;
    DeviceMatrix matrix;
  };
  Result<HeadRows> more_head_rows(std::span<const int32_t> ids, ThreadTeam* team) const;

  struct Input {
    const float* tap_norm = nullptr;
    const float* feature_norm = nullptr;
    const float* embed_norm = nullptr;
    DeviceMatrix tap, input;
  };
  [[nodiscard]] const Input& draft_input() const { return draft_input_; }

  [[nodiscard]] const DeviceKv& kv() const { return kv_; }
  [[nodiscard]] int64_t layer_offset(int layer) const { return layer * kv_.layer_bytes; }
  [[nodiscard]] const DeviceTaps& taps() const { return taps_; }
  void copy_page(const PageCopy& copy) const;
  /// A page of no sequence.
  [[nodiscard]] PageId spare_page() const { return spare_page_; }

  /// Makes rope() valid for the positions below n_positions; queues copies.
  void prepare_positions(int n_positions);
  [[nodiscard]] DeviceRope rope(int layer) const;

  [[nodiscard]] int64_t step_weight_bytes() const { return step_weight_bytes_; }
  /// Multiplications and additions that one row's products take.
  [[nodiscard]] double row_operations() const { return row_operations_; }

 private:
  GpuModel(Device* device, const ModelFile& file, LibraryNumbers library, const GpuModel* main)
      : device_(device), file_(&file), library_(library), main_(main) {}
  [[nodiscard]] bool uses_library() const { return library_ != LibraryNumbers::kNone; }
  [[nodiscard]] Status check_supported() const;
  void place_weights(WeightArena* arena);
  void place_layer(const LayerRefs& refs, WeightArena* arena);
  DeviceMatrix place_product(const MatrixRef& ref, WeightArena* arena, const HeadPart* part = nullptr);
  /// Products of the same rows, whose results lie side by side.
  std::vector<DeviceMatrix> place_joint(std::vector<const MatrixRef*> refs, WeightArena* arena);
  GpuExpertMatrix place_experts(const std::vector<ExpertRefs>& experts, MatrixRef ExpertRefs::*kind,
                                WeightArena* arena);
  void place_head(WeightArena* arena);
  /// share: of the rows, and so of the reads, that meet it
  void count_product(const DeviceMatrix& matrix, size_t n_bytes, double share = 1);
  void describe_kv(const GpuKvOptions& kv);
  Status choose_kernels();

  Device* device_;
  const ModelFile* file_;
  LibraryNumbers library_;
  const GpuModel* main_;
  std::vector<GpuLayer> layers_;
  DeviceMatrix embedding_, positions_, head_;
  DeviceNorm output_norm_;
  Input draft_input_;
  bool has_float_weights_ = false;
  bool has_quantised_weights_ = false;
  int64_t step_weight_bytes_ = 0;
  double row_operations_ = 0;
  DeviceKv kv_;
  DeviceTaps taps_;
  PageId spare_page_ = 0;
  DeviceBuffer weights_;
  DeviceBuffer kv_memory_;
  DeviceBuffer rope_memory_;
  int context_len_ = 0;
  int n_rope_positions_ = 0;
  std::vector<double> rope_frequencies_;  // [n_ropes, rope_dim / 2]
  std::vector<float> rope_tables_;        // as on the device; [n_ropes, 2, context_len, rope_dim / 2]
};

}  // namespace bass::cuda
