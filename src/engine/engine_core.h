// The engine behind include/bass/engine.h: one thread that owns the scheduler and the executor and runs the step.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bass/engine.h"
#include "engine/account.h"
#include "engine/commit.h"
#include "engine/constraint_cache.h"
#include "engine/device_choice.h"
#include "engine/policy_registry.h"
#include "engine/regular_batch.h"
#include "engine/scheduler.h"
#include "executor/executor.h"
#include "kernels/cuda/device.h"
#include "model/model_file.h"
#include "text/thoughts.h"
#include "text/tokenizer.h"

namespace bass {

/// Puts something around an engine's executor: so tests have steps that take as long as they say.
using ExecutorWrapper = std::function<std::unique_ptr<Executor>(std::unique_ptr<Executor>)>;

class EngineCore final : public Engine {
 public:
  /// Loads everything and starts the engine's thread.
  static Result<std::unique_ptr<EngineCore>> create(const EngineOptions& options, const ExecutorWrapper& wrap = {});
  ~EngineCore() override;

  [[nodiscard]] Status check(const Request& request) const override;
  Result<RequestId> submit(Request request, std::shared_ptr<EventQueue> events) override;
  Status populate_kv(std::span<const Request> requests) override;
  void cancel(RequestId id) noexcept override;
  [[nodiscard]] EngineStats stats() const override;
  void reset_stats() override;
  [[nodiscard]] const EngineOptions& options() const override { return options_; }
  [[nodiscard]] ModelInfo model_info() const override;
  [[nodiscard]] std::optional<ModelInfo> draft_info() const override;
  [[nodiscard]] std::string isa_name() const override { return executor_->isa_name(); }
  [[nodiscard]] std::string device_note() const override { return device_note_; }
  [[nodiscard]] Result<std::vector<TokenId>> tokenize(std::string_view text, bool add_special,
                                                      bool parse_special) const override;
  [[nodiscard]] Result<std::vector<TokenId>> prompt_tokens(const Request& request) const override;
  [[nodiscard]] Result<std::string> detokenize(std::span<const TokenId> tokens) const override;
  [[nodiscard]] Result<TokenText> token_text(TokenId token, bool at_start) const override;

 private:
  EngineCore() = default;
  static Result<std::unique_ptr<EngineCore>> create_on(OpenedDevice device, const EngineOptions& options,
                                                       const ExecutorWrapper& wrap);
  void take_shared_models();
  [[nodiscard]] bool is_shared(const ModelFile& file) const;
  Status load_models();
  [[nodiscard]] Result<std::shared_ptr<const ModelFile>> open_file(const std::string& path) const;
  void measure_vocabulary();
  [[nodiscard]] Status check_script() const;
  Status make_executor(const ExecutorWrapper& wrap);
  /// Of the device that runs the models.
  struct ModelMemory {
    int64_t available_bytes = 0;  // for weights and KV caches
    int64_t weight_bytes = 0;     // that the weights of both models will take
  };
  [[nodiscard]] Result<ModelMemory> model_memory() const;
  [[nodiscard]] Status check_memory(const ModelMemory& memory) const;
  /// Of both models' KV caches.
  struct CachePages {
    int n = 0;
    int n_idle = 0;  // of these, that texts which have ended may keep
  };
  Result<CachePages> choose_n_pages(const ModelMemory& memory);
  [[nodiscard]] ExecutorOptions executor_options(int n_pages) const;
  void make_scheduler(const CachePages& pages, int max_rows);

  // Any thread.
  Result<std::string> prompt_text(const Request& request) const;
  /// is_bounded: an error where it is longer than the context.
  Result<std::vector<TokenId>> read_prompt(const Request& request, bool is_bounded) const;
  /// Sets the policy, the prompt's tokens and how long its texts may become; checks these and all else.
  Status size_request(const Request& request, RequestState* state) const;
  Status set_constraint(const Request& request, RequestState* state) const;
  Result<ThoughtsAhead> thoughts_of(const Request& request, std::span<const TokenId> prompt) const;
  Status check_context(int64_t prompt_len, int64_t max_tokens, std::string_view at_least) const;
  Status check_conversation(const Request& request) const;
  Status check_pages(const RequestState& state) const;
  [[nodiscard]] int64_t page_bytes() const;  // of both models
  [[nodiscard]] int64_t pages_for(int64_t n_tokens) const;
  [[nodiscard]] int64_t mib_for(int64_t n_pages) const;
  Result<std::unique_ptr<RequestState>> make_request(Request request, std::shared_ptr<EventQueue> events) const;
  void set_sampling(RequestState* state) const;
  void set_banned(RequestState* state) const;
  void set_drafting(RequestState* state) const;

  void read_costs();
  void keep_costs() const;
  void keep_costs_at_times();

  // The engine's thread only.
  void loop();
  bool take_messages();
  bool pass_gate();
  void prepare_request(RequestState* state);
  void end_overdue();
  void step();
  [[nodiscard]] int max_step_tokens(Clock::time_point now) const;
  // A step whose tokens are handed out.
  struct Committed {
    bool is_decode = false;  // it carried no prompt token
    int n_rows = 0;
    int n_emitted = 0;
    int n_tokens = 0;      // that were decoded, end tokens included
    int n_regular = 0;     // sequences that would run under regular decoding
    double step_s = 0;     // from planning on
    int n_chunk_rows = 0;  // tokens of prompts that no sequence decodes from
  };
  int count_regular_batch();
  void end_failed();
  static void add_outcome(const SegmentOwner& owner, const SegmentResult& segment);
  Committed commit(const StepResult& result, Clock::time_point begin);
  void commit_segment(const CommitContext& context, size_t segment_idx, const SegmentResult& segment,
                      Committed* committed);
  void count_step(const StepResult& result, const Committed& committed);
  void update_policies(const StepResult& result, double device_s, const Committed& committed);
  [[nodiscard]] std::optional<double> account_rounds(const PolicyState& policy);
  void publish() noexcept;
  /// What the last step left to publish while a device does the next one.
  void publish_late() noexcept;
  void push_events() noexcept;
  void end_all(FinishReason reason, const Status& error) noexcept;
  void abandon_all() noexcept;
  [[nodiscard]] CommitContext commit_context();

  EngineOptions options_;
  std::unique_ptr<cuda::Device> gpu_;  // until the executor has it; null: the CPU
  std::string device_note_;
  std::shared_ptr<const ModelFile> main_;
  std::shared_ptr<const ModelFile> draft_;    // or null
  const EngineCore* weights_from_ = nullptr;  // while it loads: what it shares with that engine is not packed again
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ConstraintCache> constraints_;
  int64_t max_token_bytes_ = 1;  // of the longest token's text
  int64_t kv_budget_bytes_ = 0;
  bool is_context_bounded_by_memory_ = false;  // it was not given, and the model's does not fit
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Scheduler> scheduler_;
  PolicyRegistry policies_;
  StepCosts costs_;
  std::optional<RegularBatch> regular_batch_;
  std::string costs_key_;         // of the kept ones
  int64_t n_decode_steps_ = 0;    // that this run learnt from
  Clock::time_point costs_kept_;  // when they were written last, or loaded
  StepPlan plan_;
  std::vector<SegmentOwner> owners_;
  Outbox outbox_;
  bool publishes_late_ = false;
  EngineStats running_stats_;  // of the engine's thread; published with the events of its last step
  double prefill_row_s_ = 0;   // what a row took of the last step with prompt tokens; 0: there was none

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::list<std::unique_ptr<RequestState>> arrived_;
  std::set<RequestId> live_;       // submitted, neither cancelled nor done
  std::set<RequestId> cancelled_;  // since the engine's thread looked
  EngineStats stats_;
  bool wants_stats_reset_ = false;
  bool is_stopping_ = false;
  RequestId next_id_ = 1;

  std::thread thread_;
};

}  // namespace bass
