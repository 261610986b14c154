// The CPU executor: runs a planned step on a thread team, draft -> forward -> verify, every thread through all of it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "executor/cpu/cpu_model.h"
#include "executor/cpu/forward.h"
#include "executor/cpu/prompt_head.h"
#include "executor/executor.h"
#include "kernels/sampling/block.h"
#include "kernels/sampling/distribution.h"
#include "kernels/sampling/draft_row.h"
#include "kernels/sampling/verify.h"

namespace bass::cpu {

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(const ModelFile& main, const ModelFile* draft,
                                                  const ExecutorOptions& options);

  Ticket submit(const StepPlan& plan) override;
  const StepResult& wait(Ticket ticket) override;
  std::unique_ptr<PromptHead> make_prompt_head(std::span<const TokenId> prompt) override;

  [[nodiscard]] std::string isa_name() const override { return kernels_->name; }
  [[nodiscard]] int page_len() const override { return kKvPageLen; }
  [[nodiscard]] int64_t main_page_bytes() const override { return static_cast<int64_t>(main_->page_bytes()); }
  [[nodiscard]] int64_t draft_page_bytes() const override {
    return draft_ ? static_cast<int64_t>(draft_->page_bytes()) : 0;
  }
  [[nodiscard]] int max_kept_distributions() const override { return n_stored_rows_; }
  [[nodiscard]] int64_t step_weight_bytes() const override { return main_->step_weight_bytes(); }

 private:
  static constexpr int kMaxDraftLen = SpeculationStats::kMaxDraftLen;

  /// What a segment drafted in this step.
  struct Draft {
    std::array<TokenId, kMaxDraftLen> tokens{};
    int n = 0;
    int hidden_row = CpuForward::kFromTaps;  // where the draft model keeps x of its last token
    size_t stored_begin = 0;                 // index into stored_rows_ of the first q row, if rows are stored
    bool has_stored_rows = false;
  };
  /// A row of the main model whose logits are wanted.
  struct WantedRow {
    int segment = 0;
    int row = 0;  // in the main batch
    int idx = 0;  // decode: tokens drafted in front of it; else index into targets
    bool is_decode = false;
    bool wants_top5 = false;
  };
  /// A row of a round, loaded. `p` is the last row that the sampler built.
  struct DecodeRow {
    RowDistribution p;
    RowDistribution q;  // where the drafted token's was stored
    bool has_q = false;
    bool is_extra = false;
  };
  /// A row of a round under the rule `block`, when it was looked at by itself. p.z is gone.
  struct LookedAt {
    BlockRow row;
    RowDistribution p;
  };
  /// A round under the rule `block`.
  struct BlockVerification {
    BlockRound round;
    RowVerdict stop;  // of the token behind the last accepted one
  };

  explicit CpuExecutor(const ExecutorOptions& options);
  Status load(const ModelFile& main, const ModelFile* draft);
  Status load_draft(const ModelFile& draft, const ForwardOptions& forward);

  // One thread.
  void prepare(const StepPlan& plan);
  void reserve_for(const StepPlan& plan);
  void fill_draft_batch(int step_idx);
  void count_draft_pass(int step_idx);
  void fill_draft_prefill();
  void add_unseen_tokens(const SegmentPlan& segment);
  void fill_main_batch();
  void find_block_rounds();
  void collect_results();
  [[nodiscard]] WorkByPart work_so_far() const;
  void collect_work();
  void collect_decode(int segment_idx, size_t first_wanted);
  void collect_labels(int segment_idx, size_t first_wanted);

  // SPMD.
  void run_step(const TeamContext& context) noexcept;  // allocates nothing: `prepare` has made room
  void copy_pages(const TeamContext& context);
  void draft(const TeamContext& context);
  void prefill_draft(const TeamContext& context);
  void forward_and_verify(const TeamContext& context);
  void draft_row(RowSampler& sampler, int segment_idx, const float* logits);
  void process_row(RowSampler& sampler, size_t wanted_idx);
  void verify_wanted_row(RowSampler& sampler, size_t wanted_idx);
  void look_at_block_row(RowSampler& sampler, size_t wanted_idx);
  void verify_block_rows(RowSampler& sampler, size_t begin, size_t end);
  void judge_row(RowSampler& sampler, size_t wanted_idx, BlockRound* round);
  RowVerdict draw_behind_accepted(RowSampler& sampler, size_t wanted_idx, const BlockRound& round);
  void trace_rows(RowSampler& sampler, size_t begin, size_t end);
  DecodeRow load_decode_row(RowSampler& sampler, size_t wanted_idx);
  DecodeRow load_looked_at_row(RowSampler& sampler, size_t wanted_idx);
  void load_q(RowSampler& sampler, const WantedRow& wanted, DecodeRow* row);
  void end_round_at(const WantedRow& wanted);
  [[nodiscard]] bool is_behind_end(const WantedRow& wanted) {
    const std::atomic_ref<int> last(last_rows_[static_cast<size_t>(wanted.segment)]);
    return wanted.idx > last.load(std::memory_order_relaxed);
  }
  void score_row(RowSampler& sampler, size_t wanted_idx, const float* logits);
  /// Calls process(sampler, i) for every i below n, threads taking the next one when they are done; ends at a barrier.
  template <class Process>
  void for_each_row(const TeamContext& context, int n, StepPart part, Process process);

  /// Whether the draft reads what the main model's pass leaves: prompts come to it after that pass.
  [[nodiscard]] bool draft_reads_taps() const { return draft_ && draft_->draft_input().tap.n_out > 0; }
  /// The main model's tokens that the draft chose to propose, or nothing: all.
  [[nodiscard]] std::span<const int32_t> draft_vocabulary() const {
    const std::optional<MainModelUse>& main = draft_->config().main;
    return main ? std::span<const int32_t>(main->vocabulary) : std::span<const int32_t>();
  }
  /// What a segment of this step can propose.
  [[nodiscard]] ProposableTokens proposable_tokens(int segment_idx) const;
  void add_draft_logits_row(int segment_idx);
  /// The stored q of the idx-th drafted token of a segment. [n_draft_entries]
  [[nodiscard]] uint16_t* stored_row(const Draft& draft, int idx) const {
    return stored_memory_.as<uint16_t>() +
           (draft.stored_begin + static_cast<size_t>(idx)) * static_cast<size_t>(n_draft_entries_);
  }
  /// Of a wanted row in the block of logits that is computed now. [vocab_size]
  [[nodiscard]] const float* row_logits(size_t wanted_idx) const {
    return logits_.as<float>() + wanted_idx % kLogitsBlockRows * static_cast<size_t>(main_->config().vocab_size);
  }
  [[nodiscard]] DraftedToken drafted_token(const WantedRow& wanted, const DecodeRow& row) const {
    const Draft& draft = drafts_[static_cast<size_t>(wanted.segment)];
    return {draft.tokens[static_cast<size_t>(wanted.idx)], row.has_q ? &row.q : nullptr};
  }
  [[nodiscard]] bool is_block_row(const WantedRow& wanted) const {
    return wanted.is_decode && is_judged_as_block(plan_->segments[static_cast<size_t>(wanted.segment)].sampling);
  }
  [[nodiscard]] RowSampler& sampler(const TeamContext& context) {
    return *samplers_[static_cast<size_t>(context.thread_idx())];
  }
  [[nodiscard]] TokenHistory history(int segment_idx, int n_drafted) const;
  [[nodiscard]] RoundPosition round_position(int segment_idx, int draft_idx) const;

  ExecutorOptions options_;
  const Kernels* kernels_ = nullptr;
  ThreadTeam team_;
  int n_main_tokens_ = 0;    // ids that exist: an embedding may have padding rows behind them
  int n_draft_tokens_ = 0;   // of these, what the draft model may propose: ids below
  int n_draft_entries_ = 0;  // of its logits that a row has at most: one for each such id, or for each that it chose
  std::unique_ptr<CpuModel> main_;
  std::unique_ptr<CpuModel> draft_;
  std::unique_ptr<CpuForward> main_forward_;
  std::unique_ptr<CpuForward> draft_forward_;
  std::vector<std::unique_ptr<RowSampler>> samplers_;  // [n_threads]
  AlignedBuffer logits_;                               // float [kLogitsBlockRows, vocab_size]

  const StepPlan* plan_ = nullptr;
  std::vector<Draft> drafts_;    // [n_segments]
  AlignedBuffer stored_memory_;  // f16 [n_stored_rows_, n_draft_entries]: q of drafts that are to be verified
  int n_stored_rows_ = 0;
  std::vector<int> draft_logit_rows_;                  // rows of the draft batch whose logits are wanted
  std::vector<int> draft_logit_segments_;              // and their segments
  std::vector<const PackedMatrix*> draft_logit_more_;  // and what their prompts add to the draft's head, or null
  int draft_row_len_ = 0;                              // room for the logits of a row
  std::vector<WantedRow> wanted_;
  std::vector<int> wanted_rows_;      // WantedRow::row of each
  std::vector<float> chances_;        // [wanted] acceptance_chance, where the rule has one
  std::vector<LookedAt> looked_at_;   // [wanted], of rounds under `block`
  std::vector<size_t> block_begins_;  // of the runs of rows of a round that is judged in order, in a block of logits
  std::vector<RowVerdict> verdicts_;  // [wanted]
  std::vector<BlockVerification> block_rounds_;  // [n_segments]
  std::vector<int> last_rows_;                   // [n_segments]: behind it no row of the round counts. By atomic_ref
  std::atomic<int> next_row_{0};
  StepResult result_;
  std::chrono::steady_clock::time_point draft_pass_begin_;
  bool has_draft_prefill_ = false;  // some prompt's chunk comes to the draft after the main model's pass
  WorkByPart work_before_{};        // of all passes before this step
  Ticket last_ticket_ = 0;
};

}  // namespace bass::cpu
