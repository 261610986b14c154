// Calls that the engine works on, and which of its events are whose. All on the server's thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "bass/engine.h"
#include "server/api_answer.h"
#include "server/asio.h"
#include "server/metrics.h"

namespace bass {

/// A call from its submission to its last event.
class RunningCall {
 public:
  using Clock = std::chrono::steady_clock;

  RunningCall(const net::any_io_executor& executor, Clock::time_point arrived, const ApiShape& shape, ApiHead head,
              const TokenTextOf& texts);

  /// Since the call arrived.
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - arrived_).count(); }

  /// An event of the call's prompt_idx-th request.
  void take(size_t prompt_idx, const Event& event);
  /// Whoever asked has gone, or what was sent cannot be.
  void fail(Status status);

  /// Waits until there is something to send, or the end.
  net::awaitable<void> wait();
  /// The same. False: there is neither after so long.
  net::awaitable<bool> wait_for(Clock::duration longest);
  [[nodiscard]] bool is_done() const { return n_left_ == 0 || !status_.ok(); }
  [[nodiscard]] const Status& status() const { return status_; }
  /// What is to be sent of a stream by now; at its end with the mark of it.
  std::string take_pieces();
  /// What is sent of a stream in front of the error.
  std::string failure() { return std::get<StreamedAnswer>(answer_).failure(status_); }
  /// The answer that is no stream, when all is done.
  Result<std::string> whole();

 private:
  [[nodiscard]] bool has_news() const { return !pieces_.empty() || is_done(); }

  Clock::time_point arrived_;
  std::variant<WholeAnswer, StreamedAnswer> answer_;
  size_t n_left_;  // requests that are not done
  std::string pieces_;
  bool has_end_ = false;  // the stream's end was taken
  Status status_;
  net::steady_timer news_;  // whoever waits is woken by a cancellation
};

/// Finds an event's call.
class CallTable {
 public:
  /// times: of whom the table serves; must outlive it
  CallTable(Engine* engine, CallTimes* times) : engine_(engine), times_(times) {}

  /// Events of the i-th of these are of the call's i-th request. call: none of a call that was refused when a part of
  /// it had been submitted.
  void add(const std::shared_ptr<RunningCall>& call, const std::vector<RequestId>& ids);
  /// Cancels what still runs of these, whose events nobody wants any more.
  void drop(const std::vector<RequestId>& ids) noexcept;
  void take(const std::vector<Event>& events);
  void cancel_all();
  [[nodiscard]] PromptCounts prompts() const;

 private:
  struct Place {
    std::shared_ptr<RunningCall> call;  // none: nobody wants to know
    size_t prompt_idx = 0;
    std::vector<int64_t> n_tokens;  // so far, of each sample; none: no token has come
  };

  void measure(const Event& event, Place* place);

  Engine* engine_;
  CallTimes* times_;
  std::unordered_map<RequestId, Place> places_;
  std::unordered_map<RequestId, std::vector<Event>> early_;  // of requests whose submission was not told yet
};

}  // namespace bass
