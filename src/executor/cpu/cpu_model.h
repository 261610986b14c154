// A model on the CPU: weights packed for the chosen instruction set, rope tables, and the memory of its KV pages.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "bass/engine.h"
#include "bass/status.h"
#include "cache/page_table.h"
#include "executor/cpu/head_rows.h"
#include "executor/step_profile.h"
#include "kernels/cpu/kernels.h"
#include "model/model_file.h"

namespace bass::cpu {

/// [d_model] each; null where the model has none.
struct CpuNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

struct CpuExpert {
  PackedMatrix gate, up, down;
};

struct CpuLayer {
  CpuNorm attention_norm, feed_forward_norm, attention_post_norm, feed_forward_post_norm;
  const float* q_norm = nullptr;  // [q_dim], or null
  const float* k_norm = nullptr;  // [kv_dim], or null
  PackedMatrix q, k, v, output, gate, up, down, router;
  std::vector<CpuExpert> experts;  // [n_experts]
};

/// The KV cache of a model.
struct KvOptions {
  KvKind kind = KvKind::kInt16;
  int n_pages = 0;
  int context_len = 0;  // positions that a sequence may reach
  int n_taps = 0;       // hidden states of each position that pages keep, for a draft that reads them
};

/// The first matrices of a draft that was made for one main model (DraftInputRefs).
struct CpuDraftInput {
  const float* tap_norm = nullptr;      // [n_taps, d_main], or null
  const float* feature_norm = nullptr;  // [d_model], or null
  const float* embed_norm = nullptr;    // [d_main], or null
  PackedMatrix tap, input;
};

/// Immutable after load but for the contents of its pages.
class CpuModel {
 public:
  /// Packs with the whole team. The file's pages are released as they are packed, so that the weights are in memory
  /// once. Error kResourceExhausted names the bytes needed.
  /// main: of a draft that was made for it, whose embedding and head it reads. Outlives it.
  static Result<std::unique_ptr<CpuModel>> load(const ModelFile& file, const KvOptions& kv, ThreadTeam* team,
                                                const CpuModel* main = nullptr);

  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  [[nodiscard]] const CpuLayer& layer(int idx) const { return layers_[static_cast<size_t>(idx)]; }
  [[nodiscard]] const PackedMatrix& head() const { return head_; }
  /// Whether the head is a chosen part of the main model's.
  [[nodiscard]] bool has_part_of_head() const { return borrows_head_ && !config_->main->vocabulary.empty(); }
  /// More rows of the main model's head, as this draft reads them.
  [[nodiscard]] Result<HeadRows> more_head_rows(std::span<const int32_t> ids, ThreadTeam* team) const {
    return HeadRows::pack(main_->head(), ids, config_->main->head_type, team);
  }
  [[nodiscard]] const CpuNorm& output_norm() const { return output_norm_; }
  [[nodiscard]] const CpuDraftInput& draft_input() const { return draft_input_; }
  /// The model that this one was made to draft for, or null.
  [[nodiscard]] const CpuModel* main() const { return main_; }
  [[nodiscard]] const KvShape& kv_shape() const { return kv_shape_; }
  [[nodiscard]] bool has_float_weights() const { return has_float_weights_; }
  [[nodiscard]] bool has_quantised_weights() const { return has_quantised_weights_; }

  /// The embedding row of a token, and of a position where those are learned. out: [d_model]
  void embed(TokenId token, float* out) const;
  void embed_position(int position, float* out) const;

  [[nodiscard]] std::byte* page(PageId id) const { return kv_memory_.data() + static_cast<size_t>(id) * page_bytes_; }
  [[nodiscard]] size_t page_bytes() const { return page_bytes_; }
  /// Of the keys and values in a page.
  [[nodiscard]] size_t page_kv_bytes() const { return kv_shape_.layer_bytes * static_cast<size_t>(config_->n_layers); }
  /// The hidden states of a position in a page, in bfloat16. [n_taps, d_model]
  [[nodiscard]] uint16_t* taps(PageId id, int slot) const {
    return reinterpret_cast<uint16_t*>(page(id) + page_kv_bytes()) + static_cast<size_t>(slot) * n_tap_values_;
  }
  /// The memory of the first `n` pages, or of all if there are fewer.
  [[nodiscard]] std::span<std::byte> first_pages(int n) const {
    return {kv_memory_.data(), page_bytes_ * static_cast<size_t>(std::min(n, n_pages()))};
  }
  [[nodiscard]] int n_pages() const { return static_cast<int>(kv_memory_.size_bytes() / page_bytes_); }
  void copy_page(const PageCopy& copy) const;
  /// Byte offset of a layer's KV head inside a page.
  [[nodiscard]] size_t head_offset(int layer, int kv_head) const {
    return static_cast<size_t>(layer) * kv_shape_.layer_bytes + static_cast<size_t>(kv_head) * kv_shape_.head_bytes();
  }

  /// Makes rope_cos and rope_sin valid for the positions below `n_positions`. One thread, before the others read them.
  void prepare_positions(int n_positions);

  /// [rope_dim] each, as Kernels::rope reads them, of the table ModelConfig::ropes[rope].
  [[nodiscard]] const float* rope_cos(int position, int rope = 0) const;
  [[nodiscard]] const float* rope_sin(int position, int rope = 0) const;

  /// Weights that one step reads.
  [[nodiscard]] int64_t step_weight_bytes() const { return step_weight_bytes_; }
  /// Of the matrix products by parts of a step: the weights' bytes, and the operations of one row in int8.
  [[nodiscard]] const WorkByPart& row_work() const { return row_work_; }

 private:
  CpuModel() = default;
  Status pack_weights(const ModelFile& file, ThreadTeam* team);
  Status borrow_head(ThreadTeam* team);
  void pack_matrix(const ModelFile& file, const MatrixRef& ref, ThreadTeam* team, std::byte** cursor,
                   PackedMatrix* out);
  void pack_draft_input(const ModelFile& file, ThreadTeam* team, std::byte** cursor);
  void pack_layer(const ModelFile& file, const LayerRefs& refs, ThreadTeam* team, std::byte** cursor);
  void note_type(const PackedMatrix& matrix);
  /// share: of the batch's rows that pass through the matrix
  void count_work(const PackedMatrix& matrix, StepPart part, double share = 1.0);
  Status reserve_rope_tables();
  void prepare_position(int position, int rope);

  const ModelConfig* config_ = nullptr;
  std::vector<CpuLayer> layers_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  PackedMatrix positions_;  // [context_len, d_model], or nothing
  CpuNorm output_norm_;
  CpuDraftInput draft_input_;
  HeadRows head_rows_;  // of a draft whose head is a part of the main model's
  bool borrows_head_ = false;
  const CpuModel* main_ = nullptr;
  bool has_float_weights_ = false;
  bool has_quantised_weights_ = false;
  KvShape kv_shape_;
  size_t page_bytes_ = 0;
  size_t n_tap_values_ = 0;               // of a position
  int context_len_ = 0;                   // positions that the rope tables have room for
  int n_rope_positions_ = 0;              // positions that are filled in: memory is touched as contexts grow
  std::vector<double> rope_frequencies_;  // [n_ropes, rope_dim / 2]
  AlignedBuffer weights_;
  AlignedBuffer kv_memory_;
  AlignedBuffer rope_;  // [n_ropes, 2, context_len, rope_dim]: cosines, sines
  int64_t step_weight_bytes_ = 0;
  WorkByPart row_work_{};
};

}  // namespace bass::cpu
