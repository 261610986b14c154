// The GPU executor: runs a planned step on a device, draft -> forward -> verify.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "executor/cuda/gpu_forward.h"
#include "executor/cuda/gpu_sampling.h"
#include "executor/executor.h"
#include "executor/step_batches.h"
#include "executor/step_sampling.h"

namespace bass::cuda {

/// With BASS_EMULATE_GPU in the environment, which is for tests, the emulator stands in for the GPUs of every build. A
/// number above 1 is its memory in MiB.
bool emulates_gpu();
/// Whether `open_device` can ever find a GPU in this build.
inline bool can_open_device() { return has_gpu_backend() || emulates_gpu(); }
/// The GPU with this index (kernels/cuda/device.h, open_gpu).
Result<std::unique_ptr<Device>> open_device(int idx);

/// Of the device's memory, that the weights of both models will take; nothing is copied. draft: or null. Errors say
/// what of a model the GPU backend lacks.
Result<size_t> gpu_weight_bytes(Device* device, const ModelFile& main, const ModelFile* draft,
                                ActivationKind activations);

/// Brings the models' weights to the device. Model files must outlive the executor. Errors say what of a model the GPU
/// backend lacks, or how much memory is needed and free.
Result<std::unique_ptr<Executor>> make_gpu_executor(std::unique_ptr<Device> device, const ModelFile& main,
                                                    const ModelFile* draft, const ExecutorOptions& options);

/// The forward passes, drawing and judging are the device's work. Logits come to the host only where drafts are traced,
/// which the CPU's code does.
class GpuExecutor final : public Executor {
 public:
  GpuExecutor(std::unique_ptr<Device> device, const ExecutorOptions& options)
      : device_(std::move(device)), options_(options), team_(options.n_threads), staging_(device_.get()) {}
  /// What was queued reads and writes memory of the members below.
  ~GpuExecutor() override {
    if (!is_waited_for_) (void)device_->synchronize();
  }
  GpuExecutor(const GpuExecutor&) = delete;
  GpuExecutor& operator=(const GpuExecutor&) = delete;
  Status load(const ModelFile& main, const ModelFile* draft);

  Ticket submit(const StepPlan& plan) override;
  const StepResult& wait(Ticket ticket) override;
  std::unique_ptr<PromptHead> make_prompt_head(std::span<const TokenId> prompt) override;

  [[nodiscard]] bool divides_shared_texts() const override { return false; }
  [[nodiscard]] bool works_beside_host() const override { return device_sampling_.has_value(); }
  [[nodiscard]] std::string isa_name() const override { return device_->info().name; }
  [[nodiscard]] int page_len() const override { return kPageLen; }
  [[nodiscard]] int64_t main_page_bytes() const override { return main_->kv().page_bytes; }
  [[nodiscard]] int64_t draft_page_bytes() const override { return draft_ ? draft_->kv().page_bytes : 0; }
  [[nodiscard]] int max_kept_distributions() const override { return sampling_->max_kept_distributions(); }
  [[nodiscard]] int64_t step_weight_bytes() const override { return main_->step_weight_bytes(); }

 private:
  [[nodiscard]] Status check_batch() const;
  [[nodiscard]] LibraryNumbers library() const;
  Status open_library();
  Status load_draft(const ModelFile& draft, const GpuForwardOptions& forward, SamplingShape* shape);
  Status make_workspace(const SamplingShape& shape);
  Status prepare(const StepPlan& plan);
  [[nodiscard]] size_t staged_bytes(const StepPlan& plan) const;
  [[nodiscard]] size_t max_staged_bytes() const;
  Status queue_step();
  Status finish_step();
  [[nodiscard]] GraphCounts graph_counts() const;
  Status draft();
  void time_draft_passes();
  Status draft_block(std::span<const int> rows, std::span<const int> segments);
  Status verify();
  /// Waits for the block of logits, and for all that was queued before.
  Status fetch_logits(size_t n_rows, int row_len);
  void end_part(StepPart part) const {
    if (options_.profile != nullptr) options_.profile->end_part(part);
  }

  [[nodiscard]] TokenId drafted(int segment, int idx) const {
    return sampling_->draft(segment).tokens[static_cast<size_t>(idx)];
  }

  std::unique_ptr<Device> device_;  // outlives all that lies in its memory
  ExecutorOptions options_;
  ThreadTeam team_;
  Staging staging_;
  std::unique_ptr<GpuModel> main_;
  std::unique_ptr<GpuModel> draft_;
  std::unique_ptr<GpuForward> main_forward_;
  std::unique_ptr<GpuForward> draft_forward_;
  DeviceBuffer logits_;       // float [kLogitsBlockRows, the longer row's length]
  DeviceBuffer host_logits_;  // the same, of the host; where drafts are traced
  int n_draft_passes_ = 0;    // of the step
  int main_row_len_ = 0;
  int draft_row_len_ = 0;
  bool draft_reads_taps_ = false;

  const StepPlan* plan_ = nullptr;
  StepBatches batches_;
  std::optional<StepSampling> sampling_;
  std::optional<GpuSampling> device_sampling_;  // unless drafts are traced
  std::vector<const DeviceMatrix*> more_;       // what the prompts of drafted rows add to the draft's head, or null
  Status step_;                                 // what keeps this one from being run
  Status lost_;                                 // why no further step can be run
  Ticket last_ticket_ = 0;
  bool is_waited_for_ = true;
};

}  // namespace bass::cuda
