// The CPU executor: runs a planned step on a thread team, draft -> forward -> verify, every thread through all of it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "executor/cpu/cpu_model.h"
#include "executor/cpu/forward.h"
#include "executor/cpu/prompt_head.h"
#include "executor/executor.h"
#include "executor/step_batches.h"
#include "executor/step_sampling.h"

namespace bass::cpu {

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(const ModelFile& main, const ModelFile* draft,
                                                  const ExecutorOptions& options);

  Ticket submit(const StepPlan& plan) override;
  const StepResult& wait(Ticket ticket) override;
  std::unique_ptr<PromptHead> make_prompt_head(std::span<const TokenId> prompt) override;

  Status populate_kv(int n_pages) override;

  [[nodiscard]] std::string isa_name() const override { return kernels_->name; }
  [[nodiscard]] int page_len() const override { return kKvPageLen; }
  [[nodiscard]] int64_t main_page_bytes() const override { return static_cast<int64_t>(main_->page_bytes()); }
  [[nodiscard]] int64_t draft_page_bytes() const override {
    return draft_ ? static_cast<int64_t>(draft_->page_bytes()) : 0;
  }
  [[nodiscard]] int max_kept_distributions() const override { return sampling_->max_kept_distributions(); }
  [[nodiscard]] bool can_look() const override { return true; }
  [[nodiscard]] int64_t step_weight_bytes() const override { return main_->weights().step_bytes(); }

 private:
  explicit CpuExecutor(const ExecutorOptions& options);
  Status load(const ModelFile& main, const ModelFile* draft);
  Status load_draft(const ModelFile& draft, const ForwardOptions& forward, SamplingShape* shape);
  Result<std::shared_ptr<const CpuWeights>> weights_of(const ModelFile& file,
                                                       std::shared_ptr<const CpuWeights> main = nullptr);

  // One thread.
  void prepare(const StepPlan& plan);
  void fill_draft_batch(int step_idx);
  void count_draft_pass(int step_idx);
  void fill_main_batch();
  [[nodiscard]] WorkByPart work_so_far() const;
  void collect_work();

  // SPMD.
  void run_step(const TeamContext& context) noexcept;  // allocates nothing: `prepare` has made room
  void copy_pages(const TeamContext& context);
  void draft(const TeamContext& context);
  void prefill_draft(const TeamContext& context);
  void forward_and_verify(const TeamContext& context);

  /// Whether the draft reads what the main model's pass leaves: prompts come to it after that pass.
  [[nodiscard]] bool draft_reads_taps() const { return draft_ && draft_->weights().draft_input().tap.n_out > 0; }
  /// A token that a segment drafted in this step.
  struct Drafted {
    const CpuExecutor* executor;
    TokenId operator()(int segment, int idx) const {
      return executor->sampling_->draft(segment).tokens[static_cast<size_t>(idx)];
    }
  };

  ExecutorOptions options_;
  const Kernels* kernels_ = nullptr;
  ThreadTeam team_;
  std::unique_ptr<CpuModel> main_;
  std::unique_ptr<CpuModel> draft_;
  std::unique_ptr<CpuForward> main_forward_;
  std::unique_ptr<CpuForward> draft_forward_;
  AlignedBuffer logits_;  // float [kLogitsBlockRows, the longer row's length]
  int draft_row_len_ = 0;

  const StepPlan* plan_ = nullptr;
  StepBatches batches_;
  std::optional<StepSampling> sampling_;
  Drafted drafted_{this};
  std::vector<const PackedMatrix*>
      draft_logit_more_;  // what the prompts of drafted rows add to the draft's head, or null
  std::chrono::steady_clock::time_point draft_pass_begin_;
  WorkByPart work_before_{};       // of all passes before this step
  double attention_s_before_ = 0;  // the same
  Ticket last_ticket_ = 0;
};

}  // namespace bass::cpu
