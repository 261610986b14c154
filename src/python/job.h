// Prompts that were submitted together, and what comes of them: what the Python classes Engine and Job stand on.
// Nothing here knows Python.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bass/engine.h"
#include "cli/prompts.h"
#include "cli/results.h"

namespace bass::python {

/// An engine, and whose it is: a process that was forked has a copy of its memory and none of its threads, so there it
/// is neither used nor destroyed.
struct OwnedEngine {
  explicit OwnedEngine(std::unique_ptr<Engine> loaded) : engine(std::move(loaded)) {}
  ~OwnedEngine() {
    if (!is_here()) (void)engine.release();  // NOLINT(bugprone-unused-return-value): the parent's
  }
  OwnedEngine(const OwnedEngine&) = delete;
  OwnedEngine& operator=(const OwnedEngine&) = delete;

  [[nodiscard]] bool is_here() const { return getpid() == owner; }

  std::unique_ptr<Engine> engine;
  pid_t owner = getpid();
  std::atomic<uint64_t> n_jobs{0};
};

/// What is new of one prompt's samples.
struct Piece {
  int prompt_idx = 0;
  Event event;  ///< kTokens or kFinished; kDone with the error of samples whose end nobody could tell
};

/// All methods are thread-safe. While one thread waits for news, another one that wants some waits for the first.
class Job {
 public:
  /// Checks all prompts, then submits them. Errors: those of Engine::check and submit, with the prompt's origin where
  /// there are several; nothing runs then.
  static Result<std::unique_ptr<Job>> submit(std::shared_ptr<OwnedEngine> engine, std::vector<PromptSpec> prompts);
  /// Cancels what still runs.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The next prompt whose samples have all ended, ranked. None: not within timeout_s, or all have been told.
  std::optional<PromptResult> next_ended(double timeout_s);
  /// The next news of any sample. None: not within timeout_s, or all have been told.
  std::optional<Piece> next_piece(double timeout_s);
  /// Whether all has been told.
  [[nodiscard]] bool is_done() const;
  /// What runs ends soon, and keeps what it has.
  void cancel() noexcept;
  [[nodiscard]] bool is_here() const { return engine_->is_here(); }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Job(std::shared_ptr<OwnedEngine> engine) : engine_(std::move(engine)) {}
  Status submit_all(std::vector<PromptSpec> prompts);
  /// The next event until `deadline`. Needs reader_.
  bool wait(Event* event, Clock::time_point deadline);

  std::shared_ptr<OwnedEngine> engine_;
  std::shared_ptr<EventQueue> events_ = std::make_shared<EventQueue>();
  std::timed_mutex reader_;   // of whoever takes events, so that they come in order
  mutable std::mutex mutex_;  // of running_
  std::unordered_map<RequestId, PromptResult> running_;
};

}  // namespace bass::python
