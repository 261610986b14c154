// A model on the CPU: weights packed for the chosen instruction set, rope tables, and the memory of its KV pages.
#pragma once

#include <memory>
#include <vector>

#include "bass/engine.h"
#include "bass/status.h"
#include "cache/page_table.h"
#include "executor/cpu/aligned_buffer.h"
#include "executor/step_profile.h"
#include "kernels/cpu/kernels.h"
#include "model/model_file.h"

namespace bass::cpu {

struct CpuLayer {
  const float* attention_norm = nullptr;     // [d_model]
  const float* feed_forward_norm = nullptr;  // [d_model]
  PackedMatrix q, k, v, output, gate, up, down;
};

/// The KV cache of a model.
struct KvOptions {
  KvKind kind = KvKind::kInt16;
  int n_pages = 0;
  int context_len = 0;  // positions that a sequence may reach
};

/// Immutable after load but for the contents of its pages.
class CpuModel {
 public:
  /// Packs with the whole team. The file's pages are released as they are packed, so that the weights are in memory
  /// once. Error kResourceExhausted names the bytes needed.
  static Result<std::unique_ptr<CpuModel>> load(const ModelFile& file, const KvOptions& kv, ThreadTeam* team);

  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  [[nodiscard]] const CpuLayer& layer(int idx) const { return layers_[static_cast<size_t>(idx)]; }
  [[nodiscard]] const PackedMatrix& head() const { return head_; }
  [[nodiscard]] const float* output_norm() const { return output_norm_; }
  [[nodiscard]] const KvShape& kv_shape() const { return kv_shape_; }
  [[nodiscard]] bool has_float_weights() const { return has_float_weights_; }
  [[nodiscard]] bool has_quantised_weights() const { return has_quantised_weights_; }

  /// The embedding row of a token. out: [d_model]
  void embed(TokenId token, float* out) const;

  [[nodiscard]] std::byte* page(PageId id) const { return kv_memory_.data() + static_cast<size_t>(id) * page_bytes_; }
  [[nodiscard]] size_t page_bytes() const { return page_bytes_; }
  [[nodiscard]] int n_pages() const { return static_cast<int>(kv_memory_.size_bytes() / page_bytes_); }
  void copy_page(const PageCopy& copy) const;
  /// Byte offset of a layer's KV head inside a page.
  [[nodiscard]] size_t head_offset(int layer, int kv_head) const {
    return static_cast<size_t>(layer) * kv_shape_.layer_bytes + static_cast<size_t>(kv_head) * kv_shape_.head_bytes();
  }

  /// Makes rope_cos and rope_sin valid for the positions below `n_positions`. One thread, before the others read them.
  void prepare_positions(int n_positions);

  /// [context_len, rope_dim] each, as Kernels::rope reads them.
  [[nodiscard]] const float* rope_cos(int position) const;
  [[nodiscard]] const float* rope_sin(int position) const;

  /// Weights that one step reads.
  [[nodiscard]] int64_t step_weight_bytes() const { return step_weight_bytes_; }
  /// Of the matrix products by parts of a step: the weights' bytes, and the operations of one row in int8.
  [[nodiscard]] const WorkByPart& row_work() const { return row_work_; }

 private:
  CpuModel() = default;
  Status pack_weights(const ModelFile& file, ThreadTeam* team);
  void pack_matrix(const ModelFile& file, const MatrixRef& ref, ThreadTeam* team, std::byte** cursor,
                   PackedMatrix* out);
  void count_work(const PackedMatrix& matrix, StepPart part);
  Status reserve_rope_tables();

  const ModelConfig* config_ = nullptr;
  std::vector<CpuLayer> layers_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  const float* output_norm_ = nullptr;
  bool has_float_weights_ = false;
  bool has_quantised_weights_ = false;
  KvShape kv_shape_;
  size_t page_bytes_ = 0;
  int context_len_ = 0;                   // positions that the rope tables have room for
  int n_rope_positions_ = 0;              // positions that are filled in: memory is touched as contexts grow
  std::vector<double> rope_frequencies_;  // [rope_dim / 2]
  AlignedBuffer weights_;
  AlignedBuffer kv_memory_;
  AlignedBuffer rope_;
  int64_t step_weight_bytes_ = 0;
  WorkByPart row_work_{};
};

}  // namespace bass::cpu
