// Prompts that were submitted together, and what comes of them: what the Python classes Engine and Job stand on.
// Nothing here knows Python.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bass/engine.h"
#include "cli/prompts.h"
#include "cli/results.h"

namespace bass::python {

class Job;

/// An engine, its jobs, and whose it is: a process that was forked has a copy of its memory and none of its threads, so
/// there it is neither used nor destroyed.
class OwnedEngine {
 public:
  explicit OwnedEngine(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  ~OwnedEngine();
  OwnedEngine(const OwnedEngine&) = delete;
  OwnedEngine& operator=(const OwnedEngine&) = delete;

  [[nodiscard]] bool is_here() const { return getpid() == owner_; }
  [[nodiscard]] Engine& engine() const { return *engine_; }

  /// Cancels what runs; nothing is added any more.
  void close();
  /// What is said of it then.
  static Status closed() { return unavailable("the engine was closed; make another one"); }
  /// False: it was closed.
  [[nodiscard]] bool add(Job* job);
  void remove(Job* job);
  /// Request::job of what is asked for together.
  uint64_t next_job();
  [[nodiscard]] bool is_closed();

 private:
  std::unique_ptr<Engine> engine_;
  pid_t owner_ = getpid();
  std::mutex mutex_;  // of what follows; taken before a job's own
  uint64_t n_jobs_ = 0;
  bool is_closed_ = false;
  std::unordered_set<Job*> jobs_;
};

/// A prompt whose samples have all ended.
struct EndedPrompt {
  PromptResult result;                 ///< ranked
  std::vector<TokenId> prompt_tokens;  ///< none where the prompt was not read
};

/// What is new of one prompt's samples.
struct Piece {
  int prompt_idx = 0;
  Event event;  ///< kTokens or kFinished; kDone with the error of samples whose end nobody could tell
};

/// All methods are thread-safe. While one thread waits for news, another one that wants some waits for the first. Holds
/// the engine until all is told.
class Job {
 public:
  /// Checks all prompts, then submits them. is_stopped: asked for each. Errors: those of Engine::check and submit, with
  /// the prompt's origin where there are several, and kCancelled; nothing runs then. kUnavailable: the engine is
  /// closed.
  static Result<std::unique_ptr<Job>> submit(const std::shared_ptr<OwnedEngine>& engine,
                                             std::vector<PromptSpec> prompts, const std::function<bool()>& is_stopped);
  /// Cancels what still runs.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The next prompt whose samples have all ended. None: not within timeout_s, or all have been told.
  std::optional<EndedPrompt> next_ended(double timeout_s);
  /// The next news of any sample. None: not within timeout_s, or all have been told.
  std::optional<Piece> next_piece(double timeout_s);
  /// Whether all has been told.
  [[nodiscard]] bool is_done() const;
  /// What runs ends soon, and keeps what it has.
  void cancel() noexcept;
  [[nodiscard]] bool is_here() const { return getpid() == owner_; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Job(std::shared_ptr<OwnedEngine> engine) : engine_(std::move(engine)) {}
  Status submit_all(std::vector<PromptSpec> prompts, const std::function<bool()>& is_stopped);
  /// The next event until `deadline`. Needs reader_.
  bool wait(Event* event, Clock::time_point deadline);
  /// Lets go of the engine where nothing runs any more.
  void leave_engine_if_done();

  pid_t owner_ = getpid();
  std::shared_ptr<EventQueue> events_ = std::make_shared<EventQueue>();
  std::timed_mutex reader_;              // of whoever takes events, so that they come in order
  mutable std::mutex mutex_;             // of what follows
  std::shared_ptr<OwnedEngine> engine_;  // null: all is told
  std::unordered_map<RequestId, EndedPrompt> running_;
};

}  // namespace bass::python
