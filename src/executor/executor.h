// The seam between the engine and a device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bass/engine.h"
#include "bass/status.h"
#include "executor/step_plan.h"
#include "executor/step_profile.h"
#include "model/model_file.h"

namespace bass {

/// Of one prompt: bounds the memory that a request takes, and by how much its rows make a draft step slower.
inline constexpr int kMaxPromptHeadTokens = 1024;

/// Names a submitted step.
using Ticket = uint64_t;

class Executor;

struct ExecutorOptions {
  int n_threads = 1;
  int max_batch = 1;
  int max_step_tokens = 256;
  AttentionKind attention = AttentionKind::kFused;
  ActivationKind activations = ActivationKind::kInt8;
  KvKind kv = KvKind::kInt16;
  int n_main_pages = 0;
  int n_draft_pages = 0;
  int context_len = 0;  // positions a sequence may reach, drafts included
  StepProfile* profile = nullptr;
  bool traces_drafts = false;                // DraftTrace
  std::optional<float> scripted_acceptance;  // EngineOptions
  const Executor* weights_from = nullptr;    // of a CPU, which has packed these very files; outlives the loading

  /// Rows of one forward pass: every sequence verifies the longest draft beside a prompt's chunk.
  [[nodiscard]] int max_rows() const { return max_batch * (1 + SpeculationStats::kMaxDraftLen) + max_step_tokens; }
};

/// What a device keeps of one prompt: rows of the main model's head for the tokens that the draft's vocabulary lacks.
/// Freed before its executor, and not while a step runs whose plan names it.
class PromptHead {
 public:
  /// ids: what the prompt adds to the draft's vocabulary, both ascending.
  PromptHead(std::span<const int32_t> vocabulary, std::span<const int32_t> ids)
      : proposable_(vocabulary.begin(), vocabulary.end()) {
    proposable_.insert(proposable_.end(), ids.begin(), ids.end());
  }
  virtual ~PromptHead() = default;

  /// The vocabulary and then the prompt's tokens, each ascending.
  [[nodiscard]] std::span<const int32_t> proposable() const { return proposable_; }

 private:
  std::vector<int32_t> proposable_;
};

/// Owns the weights and KV memory of a main model and perhaps a draft on one device, and runs planned steps:
/// draft -> forward -> verify. Results may come late: the engine plans with upper bounds of lengths. One thread owns
/// it.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Starts a step. Draft and main models are run as the plan says; the plan stays as it is until `wait`, after which
  /// nothing of it is kept.
  virtual Ticket submit(const StepPlan& plan) = 0;
  /// Waits for a step. The result is valid until the next submit.
  virtual const StepResult& wait(Ticket ticket) = 0;

  /// Lets the draft propose a prompt's own tokens, in segments that name the result: at most kMaxPromptHeadTokens
  /// distinct ones, the last of the prompt. Null if there is nothing to add (the draft can propose them all, or has a
  /// head of its own) or no memory. Not while a step runs.
  virtual std::unique_ptr<PromptHead> make_prompt_head(std::span<const TokenId> prompt) = 0;

  /// Has the system find the memory of the first n_pages pages of both caches, which may be in use. Any thread. Error
  /// (kResourceExhausted): that is more than half of what is available.
  virtual Status populate_kv(int /*n_pages*/) { return ok_status(); }  // of a device that has it since load

  /// Whether `submit` returns before the step is done, so that the host has time until `wait`.
  [[nodiscard]] virtual bool works_beside_host() const { return false; }
  [[nodiscard]] virtual std::string isa_name() const = 0;
  [[nodiscard]] virtual int page_len() const = 0;
  [[nodiscard]] virtual int64_t main_page_bytes() const = 0;
  [[nodiscard]] virtual int64_t draft_page_bytes() const = 0;  // 0 without a draft
  /// Drafts whose distributions one step can keep for verification: the sum of n_model_drafts over the segments for
  /// which needs_draft_distribution() holds.
  [[nodiscard]] virtual int max_kept_distributions() const = 0;
  /// Whether it runs segments that are looks (SegmentPlan::is_look).
  [[nodiscard]] virtual bool can_look() const { return false; }
  [[nodiscard]] virtual int64_t step_weight_bytes() const = 0;  // read by one step of the main model
  /// Whether `fused` attention chooses which of the texts that begin alike it reads together, so that texts that share
  /// little do not keep others from sharing much.
  [[nodiscard]] virtual bool divides_shared_texts() const { return true; }
};

constexpr bool is_float(KvKind kind) { return kind == KvKind::kF16 || kind == KvKind::kBf16; }

/// Bytes of one page of a model's KV cache, on a CPU and on a GPU, with the hidden states after n_taps layers that a
/// draft reads.
int64_t cpu_page_bytes(const ModelConfig& config, KvKind kv, int n_taps = 0);
/// Bytes of a model's weights as the CPU keeps them: some types take more than in their file (IQ4_NL nearly twice).
int64_t cpu_weight_bytes(const ModelFile& model);
inline constexpr int kCpuPageLen = 32;

/// Errors (kInvalidArgument) for kinds that only a GPU has.
Status check_cpu_activations(ActivationKind kind);
Status check_cpu_kv(KvKind kind);

/// Packs the models' weights for this processor, or takes those that ExecutorOptions::weights_from has packed. Model
/// files must outlive the executor.
Result<std::unique_ptr<Executor>> make_cpu_executor(const ModelFile& main, const ModelFile* draft,
                                                    const ExecutorOptions& options);

}  // namespace bass
