// The tokens of a prompt that a draft's vocabulary lacks, so that the draft can propose them too.
#pragma once

#include <vector>

#include "executor/cpu/cpu_model.h"
#include "executor/executor.h"

namespace bass::cpu {

/// The distinct tokens of a prompt that are not in `vocabulary` (ascending): at most `max_tokens`, of more the last in
/// the prompt. Ascending.
std::vector<int32_t> tokens_beside(std::span<const int32_t> vocabulary, std::span<const TokenId> prompt,
                                   size_t max_tokens);

class CpuPromptHead final : public PromptHead {
 public:
  CpuPromptHead(std::vector<int32_t> ids, HeadRows rows) : ids_(std::move(ids)), rows_(std::move(rows)) {}

  /// Ascending; row i of the matrix is that of ids()[i].
  [[nodiscard]] std::span<const int32_t> ids() const { return ids_; }
  [[nodiscard]] const PackedMatrix& matrix() const { return rows_.matrix(); }

 private:
  std::vector<int32_t> ids_;
  HeadRows rows_;
};

}  // namespace bass::cpu
