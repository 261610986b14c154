// A model's weights on the CPU, packed for its kernels. Immutable, so that several executors may read the same ones.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_team.h"
#include "bass/status.h"
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

/// The first matrices of a draft that was made for one main model (DraftInputRefs).
struct CpuDraftInput {
  const float* tap_norm = nullptr;      // [n_taps, d_main], or null
  const float* feature_norm = nullptr;  // [d_model], or null
  const float* embed_norm = nullptr;    // [d_main], or null
  PackedMatrix tap, input;
};

class CpuWeights {
 public:
  /// Packs with the whole team. The file's pages are released as they are packed, so that the weights are in memory
  /// once; what the file made in memory is gone then, and it cannot be packed again. The file outlives the weights.
  /// main: of a draft that was made for it, whose embedding and head it reads. Error kResourceExhausted names the bytes
  /// needed.
  static Result<std::shared_ptr<const CpuWeights>> pack(const ModelFile& file, ThreadTeam* team,
                                                        std::shared_ptr<const CpuWeights> main = nullptr);

  [[nodiscard]] const ModelFile& file() const { return *file_; }
  [[nodiscard]] const ModelConfig& config() const { return file_->config; }
  /// Of the model that this one was made to draft for, or null.
  [[nodiscard]] const CpuWeights* main() const { return main_.get(); }
  [[nodiscard]] const CpuLayer& layer(int idx) const { return layers_[static_cast<size_t>(idx)]; }
  [[nodiscard]] const PackedMatrix& head() const { return head_; }
  /// Whether the head is a chosen part of the main model's.
  [[nodiscard]] bool has_part_of_head() const { return borrows_head_ && !config().main->vocabulary.empty(); }
  /// More rows of the main model's head, as this draft reads them.
  [[nodiscard]] Result<HeadRows> more_head_rows(std::span<const int32_t> ids, ThreadTeam* team) const {
    return HeadRows::pack(main_->head(), ids, config().main->head_type, team);
  }
  [[nodiscard]] const CpuNorm& output_norm() const { return output_norm_; }
  [[nodiscard]] const CpuDraftInput& draft_input() const { return draft_input_; }
  [[nodiscard]] bool has_floats() const { return has_floats_; }
  [[nodiscard]] bool has_quantised() const { return has_quantised_; }

  /// The embedding row of a token, and of a position where those are learned. out: [d_model]
  void embed(TokenId token, float* out) const;
  void embed_position(int position, float* out) const;

  /// What one step reads.
  [[nodiscard]] int64_t step_bytes() const { return step_bytes_; }
  /// Of the matrix products by parts of a step: the weights' bytes, and the operations of one row in int8.
  [[nodiscard]] const WorkByPart& row_work() const { return row_work_; }

 private:
  CpuWeights(const ModelFile& file, std::shared_ptr<const CpuWeights> main) : file_(&file), main_(std::move(main)) {}
  Status pack_all(ThreadTeam* team);
  Status borrow_head(ThreadTeam* team);
  void pack_matrix(const MatrixRef& ref, ThreadTeam* team, std::byte** cursor, PackedMatrix* out);
  void pack_draft_input(ThreadTeam* team, std::byte** cursor);
  void pack_layer(const LayerRefs& refs, ThreadTeam* team, std::byte** cursor);
  void note_type(const PackedMatrix& matrix);
  /// share: of the batch's rows that pass through the matrix
  void count_work(const PackedMatrix& matrix, StepPart part, double share = 1.0);

  const ModelFile* file_;
  std::shared_ptr<const CpuWeights> main_;
  std::vector<CpuLayer> layers_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  PackedMatrix positions_;  // [context_len, d_model], or nothing
  CpuNorm output_norm_;
  CpuDraftInput draft_input_;
  HeadRows head_rows_;  // of a draft whose head is a part of the main model's
  bool borrows_head_ = false;
  bool has_floats_ = false;
  bool has_quantised_ = false;
  AlignedBuffer memory_;
  int64_t step_bytes_ = 0;
  WorkByPart row_work_{};
};

}  // namespace bass::cpu
