// Drafting and verification on the device: a step's plan becomes rows of tasks (kernels/cuda/sampling), and what comes
// of them goes where StepSampling would have put it. Logits stay on the device.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "executor/cuda/staging.h"
#include "executor/step_sampling.h"
#include "kernels/cuda/sampling/sampling_kernels.h"

namespace bass::cuda {

/// The host waits once a step: drafted tokens are read on the device, where the passes behind them need them. Those of
/// sequences that follow a grammar it waits for, pass by pass, as what may come next depends on them.
/// `begin`, `draft_rows` for each block of the draft's logits, `begin_rows`, `verify_rows` for each block of the main
/// model's, `fetch`, `finish`. One thread; the device and `sampling` outlive it.
class GpuSampling {
 public:
  GpuSampling(Device* device, StepSampling* sampling, const SamplingShape& shape, const ExecutorOptions& options);

  /// False when there was no memory; n_bytes() were wanted.
  [[nodiscard]] bool ok() const;
  [[nodiscard]] size_t n_bytes() const;

  /// Uploads what a step's sequences ask for. Error (kResourceExhausted): no memory for it.
  Status begin(const StepPlan& plan);
  /// Queues the drawing of a token from each row of a block of logits. Until `finish`, `sampling` has drafted_later in
  /// its place, but where it follows a grammar. segments: [n_rows] that they belong to. logits: [n_rows, draft_row_len]
  /// of the device. Error: of a device that was waited for
  Status draft_rows(std::span<const int> segments, const float* logits);
  /// Where drafted tokens are on the device.
  [[nodiscard]] const TokenId* drafted() const { return drafted_.as<TokenId>(); }
  /// Uploads which rows are wanted; they are known to `sampling`. Error (kResourceExhausted): no memory for them.
  Status begin_rows();
  /// Queues the judgement of the wanted rows [begin, end). logits: [end - begin, main_vocab_size] of the device
  void verify_rows(size_t begin, size_t end, const float* logits);
  /// Queues the way of all results to the host.
  void fetch();
  /// Waits, and tells `sampling` what was drafted and what came of all wanted rows.
  Status finish();

 private:
  [[nodiscard]] SequenceTask task_of(int segment_idx);
  [[nodiscard]] size_t draft_rows_bytes() const;
  [[nodiscard]] size_t masks_bytes() const;
  [[nodiscard]] const uint32_t* allowed(int segment_idx, int n_drafted);
  void take_draft(int segment_idx, int idx);
  void fetch_drafted();
  void settle_drafts();
  [[nodiscard]] std::span<const TokenId> staged(std::span<const TokenId> tokens);
  [[nodiscard]] LogitsBlock logits_block(const float* logits, int64_t stride, size_t n_rows) const;
  [[nodiscard]] bool reserve_staging(const ExecutorOptions& options);
  [[nodiscard]] static size_t row_bytes(size_t n_rows, size_t n_rounds);
  [[nodiscard]] int n_top_of(const StepSampling::WantedRow& row) const;
  [[nodiscard]] bool reserve_tops(size_t n);
  void plan_rows();
  [[nodiscard]] RowTask row_task(const StepSampling::WantedRow& row);
  void tell_row(size_t wanted_idx, const RowOutcome& outcome);
  void tell_top(const StepSampling::WantedRow& wanted, std::span<const TopToken> top);

  Device* device_;
  StepSampling* sampling_;
  SamplingShape shape_;
  int max_segments_;
  bool all_rows_count_;
  bool has_staging_ = false;
  const StepPlan* plan_ = nullptr;
  Staging tasks_;            // sequences and what they point to
  Staging draft_rows_;       // which sequences draft in which pass
  Staging masks_;            // what grammars allow, as far as it was asked for
  Staging rows_;             // wanted rows and rounds
  DeviceBuffer vocabulary_;  // int32 [draft_vocabulary]
  DeviceBuffer scratch_;     // float [kLogitsBlockRows, 3, row_len]
  DeviceBuffer keys_;        // uint64 [kLogitsBlockRows, row_len]
  DeviceBuffer stored_;      // f16 [max_kept_distributions, n_draft_entries]
  DeviceBuffer drafted_;     // TokenId [max_segments, kMaxRoundDrafts]
  DeviceBuffer last_rows_;   // int32 [max_segments]
  DeviceBuffer judged_;      // JudgedRound [max_segments]
  DeviceBuffer outcomes_;    // RowOutcome [max_rows]
  DeviceBuffer tops_;        // TopToken [n_tops_ or more]
  DeviceBuffer host_drafted_, host_judged_, host_outcomes_, host_tops_;

  std::vector<SequenceTask> sequence_tasks_;
  std::vector<RowTask> row_tasks_;
  std::vector<RoundTask> round_tasks_;
  std::vector<size_t> round_rows_;  // the wanted row that each begins with
  std::vector<DraftTask> draft_tasks_;
  std::unordered_map<const uint32_t*, const uint32_t*> mask_places_;  // of the host's masks of this step, in masks_
  size_t n_tops_ = 0;                 // of this step, those of rows in the order of the rows
  std::vector<int> n_model_drafted_;  // [n_segments]
  const SequenceTask* device_tasks_ = nullptr;
  const RowTask* device_rows_ = nullptr;
  const RoundTask* device_rounds_ = nullptr;
};

}  // namespace bass::cuda
