// Decode steps of many long contexts, of which one is computed and the others are copies: what a step costs depends on
// how much it reads, not on what.
#pragma once

#include <memory>
#include <vector>

#include "executor/executor.h"
#include "model/model_file.h"

namespace bass {

/// A step of `batch` sequences that have `context_len` tokens each. is_shared: all of them are the same prompt's, in
/// pages that they share.
struct ContextCase {
  int batch = 1;
  int context_len = 1;
  bool is_shared = false;
};

struct ContextTiming {
  double median_s = 0;  // of a step
  Work work;            // of a step
};

class ContextBench {
 public:
  /// Steps that are timed in a round.
  static constexpr int kSteps = 5;

  /// The least number of KV pages that a case needs.
  static int64_t n_pages(const ContextCase& context_case);

  /// Computes a context of max_context_len tokens. options: with pages for every case that will be run, and context_len
  /// above max_context_len. file must outlive the bench.
  static Result<std::unique_ptr<ContextBench>> create(const ModelFile& file, const ExecutorOptions& options,
                                                      int max_context_len);

  /// Greedy regular decoding, kSteps times the same step.
  ContextTiming run(const ContextCase& context_case);

  [[nodiscard]] std::string isa_name() const { return executor_->isa_name(); }
  [[nodiscard]] int64_t step_weight_bytes() const { return executor_->step_weight_bytes(); }

 private:
  ContextBench() = default;
  void prefill();
  void copy_context(const ContextCase& context_case);
  double step_seconds();

  std::unique_ptr<Executor> executor_;
  std::vector<TokenId> prompt_;             // [max_context_len]
  std::vector<PageId> prompt_pages_;        // of the one that was computed
  std::vector<std::vector<PageId>> pages_;  // [batch]
  StepPlan plan_;
  Work work_;  // of the last step
  int max_step_tokens_ = 0;
};

}  // namespace bass
