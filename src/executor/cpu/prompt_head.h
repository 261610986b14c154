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
  /// Row i of `rows` is that of ids[i].
  CpuPromptHead(std::span<const int32_t> vocabulary, std::span<const int32_t> ids, HeadRows rows)
      : PromptHead(vocabulary, ids), rows_(std::move(rows)) {}

  [[nodiscard]] const PackedMatrix& matrix() const { return rows_.matrix(); }

 private:
  HeadRows rows_;
};

}  // namespace bass::cpu
