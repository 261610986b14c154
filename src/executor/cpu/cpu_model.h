// A model on the CPU: its weights, rope tables, and the memory of its KV pages.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "bass/engine.h"
#include "bass/status.h"
#include "cache/page_table.h"
#include "executor/cpu/cpu_weights.h"
#include "kernels/cpu/kernels.h"
#include "model/model_file.h"

namespace bass::cpu {

/// The KV cache of a model.
struct KvOptions {
  KvKind kind = KvKind::kInt16;
  int n_pages = 0;
  int context_len = 0;  // positions that a sequence may reach
  int n_taps = 0;       // hidden states of each position that pages keep, for a draft that reads them
};

/// Immutable after load but for the contents of its pages.
class CpuModel {
 public:
  /// Packs the file's weights (CpuWeights::pack). main: of a draft that was made for it. Outlives it.
  static Result<std::unique_ptr<CpuModel>> load(const ModelFile& file, const KvOptions& kv, ThreadTeam* team,
                                                const CpuModel* main = nullptr);
  /// With weights that are packed; those of a draft that was made for `main` read main's. Error: kResourceExhausted.
  static Result<std::unique_ptr<CpuModel>> create(std::shared_ptr<const CpuWeights> weights, const KvOptions& kv,
                                                  const CpuModel* main = nullptr);

  [[nodiscard]] const ModelConfig& config() const { return weights_->config(); }
  [[nodiscard]] const CpuWeights& weights() const { return *weights_; }
  [[nodiscard]] const std::shared_ptr<const CpuWeights>& shared_weights() const { return weights_; }
  /// The model that this one was made to draft for, or null.
  [[nodiscard]] const CpuModel* main() const { return main_; }
  [[nodiscard]] const KvShape& kv_shape() const { return kv_shape_; }

  [[nodiscard]] std::byte* page(PageId id) const { return kv_memory_.data() + static_cast<size_t>(id) * page_bytes_; }
  [[nodiscard]] size_t page_bytes() const { return page_bytes_; }
  /// Of the keys and values in a page.
  [[nodiscard]] size_t page_kv_bytes() const { return kv_shape_.layer_bytes * static_cast<size_t>(config().n_layers); }
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

 private:
  CpuModel(std::shared_ptr<const CpuWeights> weights, const CpuModel* main)
      : weights_(std::move(weights)), main_(main) {}
  Status reserve_rope_tables();
  void prepare_position(int position, int rope);

  std::shared_ptr<const CpuWeights> weights_;
  const CpuModel* main_ = nullptr;
  KvShape kv_shape_;
  size_t page_bytes_ = 0;
  size_t n_tap_values_ = 0;               // of a position
  int context_len_ = 0;                   // positions that the rope tables have room for
  int n_rope_positions_ = 0;              // positions that are filled in: memory is touched as contexts grow
  std::vector<double> rope_frequencies_;  // [n_ropes, rope_dim / 2]
  AlignedBuffer kv_memory_;
  AlignedBuffer rope_;  // [n_ropes, 2, context_len, rope_dim]: cosines, sines
};

}  // namespace bass::cpu
