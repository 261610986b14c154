// Calls of the API from a body that has come to the last piece of its answer.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/api_call.h"
#include "server/api_error.h"
#include "server/asio.h"
#include "server/call_hold.h"
#include "server/event_pump.h"
#include "server/http_connection.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/running_call.h"
#include "server/token_call.h"

namespace bass {

/// Made and destroyed while the server's thread does not run, else used on it alone. A coroutine runs on that thread
/// but for the reading of bodies, for which there are two more.
class CallRunner {
 public:
  using Connection = std::shared_ptr<HttpConnection>;

  /// io: the server's thread's. All must outlive it.
  CallRunner(net::io_context* io, Engine* engine, const ServerOptions* options);

  /// Answers a call, or refuses it. body, bodies: done with when the call runs.
  net::awaitable<void> run(Connection connection, ApiEndpoint endpoint, std::string* body, Share* bodies);

  /// The same of a call that only asks for tokens, or for their text.
  net::awaitable<void> run(Connection connection, TokenEndpoint endpoint, std::string* body, Share* bodies);

  /// From now on calls are refused.
  void refuse_more() { is_ending_ = true; }
  [[nodiscard]] bool is_ending() const { return is_ending_; }
  /// Ends those that run.
  void cut();
  /// Waits for the readers, of which nobody must want anything any more.
  void join() { readers_.join(); }

  /// What callers may be told of calls so far.
  [[nodiscard]] std::string metrics() const;

 private:
  /// What a reader makes of a body.
  struct Submitted {
    ApiShape shape;
    std::optional<ApiError> error;  // then nobody waits for what was submitted
  };

  net::awaitable<void> answer_tokens(TokenEndpoint endpoint, const std::string* body, HttpAnswer* answer);
  net::awaitable<void> refuse(Connection connection, ApiError error);
  net::awaitable<void> submit(ApiEndpoint endpoint, const std::string* body, Hold* hold, Submitted* submitted);
  std::optional<ApiError> try_submit(ApiEndpoint endpoint, const std::string& body, Hold* hold, ApiShape* shape);
  /// How the call has ended.
  net::awaitable<Status> send(Connection connection, std::shared_ptr<RunningCall> running, Hold* hold, bool in_pieces);
  net::awaitable<void> send_whole(Connection connection, std::shared_ptr<RunningCall> running, Hold* hold);
  net::awaitable<void> send_pieces(Connection connection, std::shared_ptr<RunningCall> running, Hold* hold);

  static constexpr int kReaders = 2;  // threads that make bodies requests and texts tokens

  net::io_context* io_;
  Engine* engine_;
  const ServerOptions* options_;
  CallTimes times_;
  CallTable calls_;
  CallCounts counts_;
  int n_of_tokens_ = 0;  // calls that ask for tokens alone
  bool is_ending_ = false;
  bool must_end_ = false;
  std::atomic<int64_t> n_samples_ = 0;  // of the calls that run
  std::atomic<uint64_t> n_jobs_ = 0;
  net::thread_pool readers_{kReaders};
  EventPump pump_;
};

/// What an error says to whoever asked.
HttpAnswer answer_of(const ApiError& error);

}  // namespace bass
