#include "server/call_runner.h"

#include <fmt/format.h>

#include "base/caught_status.h"
#include "server/random_id.h"
#include "server/submit_call.h"

namespace bass {
namespace {

int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status caller_gone() { return {StatusCode::kCancelled, "the caller has gone"}; }

}  // namespace

HttpAnswer answer_of(const ApiError& error) {
  return {error.http_status, error.body(), "application/json", error.allowed};
}

CallRunner::CallRunner(net::io_context* io, Engine* engine, const ServerOptions* options)
    : io_(io), engine_(engine), options_(options), calls_(engine, &times_), pump_([this](EventPump::Events events) {
        net::post(*io_, [this, events = std::move(events)] { calls_.take(*events); });
      }) {}

void CallRunner::cut() {
  must_end_ = true;
  calls_.cancel_all();
}

std::string CallRunner::metrics() const { return metrics_text(counts_, calls_.prompts(), times_, engine_->stats()); }

net::awaitable<void> CallRunner::refuse(Connection connection, ApiError error) {
  ++counts_.refused;
  const HttpAnswer refusal = answer_of(error);
  co_await connection->answer(refusal);
}

net::awaitable<void> CallRunner::run(Connection connection, ApiEndpoint endpoint, std::string* body, Share* bodies) {
  if (is_ending_ || counts_.running >= options_->max_calls) {
    ApiError error = is_ending_ ? ending_error() : too_many_calls_error(options_->max_calls);
    co_await refuse(connection, std::move(error));
    co_return;
  }
  const auto arrived = RunningCall::Clock::now();
  Hold hold(&calls_, &counts_.running, &n_samples_);
  Submitted submitted;
  auto reading = submit(endpoint, body, &hold, &submitted);
  co_await net::co_spawn(readers_, std::move(reading), net::use_awaitable);
  *body = std::string();
  bodies->give_back();
  if (submitted.error) {
    hold.release();
    co_await refuse(connection, std::move(*submitted.error));
    co_return;
  }
  ApiHead head{random_id(words_of(endpoint).id_prefix), seconds_since_1970(), options_->model};
  const std::string id = head.id;
  const auto running = std::make_shared<RunningCall>(io_->get_executor(), arrived, submitted.shape, std::move(head),
                                                     token_texts(engine_));
  hold.begin(running);
  if (must_end_) calls_.cancel_all();
  const Status status = co_await send(connection, running, &hold, submitted.shape.is_streamed);
  connection->unwatch();
  hold.release();
  ++(status.ok() ? counts_.answered : counts_.broken);
  if (status.ok()) {
    times_.call.add(running->seconds());
    co_return;
  }
  if (options_->on_failure)
    options_->on_failure(fmt::format("{} ({}): {}", id, connection->request_id(), status.message()));
  connection->keep_no_longer();  // a stream ends in its middle: nobody takes a part for the whole
}

net::awaitable<void> CallRunner::run(Connection connection, TokenEndpoint endpoint, std::string* body, Share* bodies) {
  if (n_of_tokens_ >= options_->max_calls) {
    co_await refuse(connection, too_many_calls_error(options_->max_calls));
    co_return;
  }
  const Counted counted(&n_of_tokens_);
  HttpAnswer answer;
  auto reading = answer_tokens(endpoint, body, &answer);
  co_await net::co_spawn(readers_, std::move(reading), net::use_awaitable);
  *body = std::string();
  bodies->give_back();
  co_await connection->answer(answer);
}

/// On a reader's thread.
net::awaitable<void> CallRunner::answer_tokens(TokenEndpoint endpoint, const std::string* body, HttpAnswer* answer) {
  std::optional<ApiError> error;
  try {
    error = answer_token_call(endpoint, *body, *engine_, options_->defaults, options_->model, &answer->body);
  } catch (...) {
    error = api_error(caught_status("reading a call"));
  }
  if (error) *answer = answer_of(*error);
  co_return;
}

/// On a reader's thread.
net::awaitable<void> CallRunner::submit(ApiEndpoint endpoint, const std::string* body, Hold* hold,
                                        Submitted* submitted) {
  try {
    submitted->error = try_submit(endpoint, *body, hold, &submitted->shape);
  } catch (...) {
    submitted->error = api_error(caught_status("reading a call"));
  }
  co_return;
}

std::optional<ApiError> CallRunner::try_submit(ApiEndpoint endpoint, const std::string& body, Hold* hold,
                                               ApiShape* shape) {
  ApiCall call;
  if (auto error = take_served_call(read_api_call(endpoint, body, options_->defaults), options_->model, &call))
    return error;
  *shape = call.shape;
  if (!hold->take_samples(static_cast<int64_t>(shape->n_prompts) * shape->n_samples)) {
    return too_many_samples_error(kMaxSamples);
  }
  return submit_requests(engine_, &call, pump_.queue(), ++n_jobs_, &hold->requests());
}

net::awaitable<Status> CallRunner::send(Connection connection, std::shared_ptr<RunningCall> running, Hold* hold,
                                        bool in_pieces) {
  try {
    connection->watch([running] { running->fail(caller_gone()); });
    if (in_pieces) {
      co_await send_pieces(connection, running, hold);
    } else {
      co_await send_whole(connection, running, hold);
    }
    co_return running->status();
  } catch (const boost::system::system_error&) {
    co_return caller_gone();
  } catch (...) {
    co_return caught_status("answering a call");
  }
}

net::awaitable<void> CallRunner::send_whole(Connection connection, std::shared_ptr<RunningCall> running, Hold* hold) {
  co_await running->wait();
  Result<std::string> body = running->whole();
  connection->unwatch();
  hold->release();
  if (!body.ok()) {
    running->fail(body.status());
    connection->keep_no_longer();
  }
  const HttpAnswer answer = body.ok() ? HttpAnswer{200, std::move(body).value()} : answer_of(api_error(body.status()));
  co_await connection->answer(answer);
}

net::awaitable<void> CallRunner::send_pieces(Connection connection, std::shared_ptr<RunningCall> running, Hold* hold) {
  co_await connection->begin_pieces("text/event-stream; charset=utf-8");
  const std::string nothing_new = ":\n\n";  // a comment, which readers of server-sent events pass over
  const auto max_silence = std::chrono::duration<double>(options_->max_silence_s);
  const auto longest = std::chrono::duration_cast<RunningCall::Clock::duration>(max_silence);
  bool is_done = false;
  while (!is_done) {
    const bool has_news = co_await running->wait_for(longest);
    if (!has_news) {
      co_await connection->send_piece(nothing_new);
      continue;
    }
    is_done = running->is_done();
    if (is_done) hold->release();
    std::string pieces = running->take_pieces();
    if (is_done && !running->status().ok())
      pieces += running->failure() + "data: " + api_error(running->status()).body() + "\n";
    if (!pieces.empty()) co_await connection->send_piece(pieces);
  }
  if (running->status().ok()) co_await connection->end_pieces();
}

}  // namespace bass
