// Batches of requests that the measurements give an engine.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "bass/engine.h"
#include "cli/results.h"
#include "engine/start_gate.h"

namespace bass {

/// `batch` sequences at once, each of a prompt of its own, end tokens banned.
struct BenchCase {
  int batch = 1;
  int n_prompt_tokens = 64;
  int n_generated = 64;
  bool is_speculative = false;
};

/// What the engine did between two readings of its sums.
struct BenchRun {
  EngineStats begin;
  EngineStats end;
  /// TokenTimes::seconds_per_token
  std::vector<double> seconds_per_token;

  [[nodiscard]] double prefill_s() const { return end.prefill_s - begin.prefill_s; }
  [[nodiscard]] double decode_s() const { return end.decode_s - begin.decode_s; }
  /// Of all steps, those with prompts' tokens too.
  [[nodiscard]] double steps_s() const { return prefill_s() + decode_s(); }
  [[nodiscard]] int64_t decode_tokens() const { return end.decode_tokens - begin.decode_tokens; }
  [[nodiscard]] int64_t decode_steps() const { return end.decode_steps - begin.decode_steps; }
  /// 0 where no step was without a prompt's tokens.
  [[nodiscard]] double tokens_per_s() const {
    return decode_s() > 0 ? static_cast<double>(decode_tokens()) / decode_s() : 0;
  }
  /// Steps in which a sequence might draft, of all sequences together.
  [[nodiscard]] int64_t n_sequence_steps() const;
  [[nodiscard]] Work decode_work() const { return end.decode_work - begin.decode_work; }
  [[nodiscard]] DraftTimes draft_times() const { return DraftTimes(end.draft_times).add(begin.draft_times, -1); }
  [[nodiscard]] Work prefill_work() const { return end.work - begin.work - decode_work(); }
};

/// Errors: kCancelled when the user interrupted the run, else that of the first choice that failed, with its prompt.
Status check_all_ended_well(const GenerationResult& result);

/// Runs cases on an engine, one at a time.
class BenchRunner {
 public:
  /// What a case does not say is taken from `prototype`: sampling, speculation. start: the engine's gate, so that the
  /// sequences of a case begin together; none: each begins as soon as it is submitted.
  BenchRunner(Engine* engine, Request prototype, StartGate* start = nullptr)
      : engine_(engine), prototype_(std::move(prototype)), start_(start) {}

  /// Error: the engine's, or kCancelled when the user interrupts.
  Result<BenchRun> run(const BenchCase& bench_case);

 private:
  Result<std::vector<Request>> make_requests(const BenchCase& bench_case) const;
  Result<std::vector<RequestId>> submit(std::vector<Request> requests, const std::shared_ptr<EventQueue>& events);
  Status wait(const std::vector<RequestId>& ids, EventQueue* events, std::vector<double>* seconds_per_token);

  Engine* engine_;
  Request prototype_;
  StartGate* start_;
};

}  // namespace bass
