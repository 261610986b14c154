#include "server/http_server.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "base/caught_status.h"
#include "base/check.h"
#include "server/api_call.h"
#include "server/api_error.h"
#include "server/asio.h"
#include "server/event_pump.h"
#include "server/http_connection.h"
#include "server/metrics.h"
#include "server/running_call.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using Connection = std::shared_ptr<HttpConnection>;

constexpr size_t kMaxConnections = 4096;
constexpr int kReaders = 2;                             // threads that make bodies requests and texts tokens
constexpr std::chrono::milliseconds kGrace{1000};       // for calls that were cut to tell their callers
constexpr std::chrono::milliseconds kAcceptPause{100};  // when the system has no more connections to give

std::string random_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

HttpAnswer answer_of(const ApiError& error) { return {error.http_status, error.body()}; }

/// Counts one while it lives, or until it is given back.
class Place {
 public:
  explicit Place(int64_t* count) : count_(count) { ++*count_; }
  ~Place() { give_back(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  void give_back() {
    if (count_ != nullptr) --*std::exchange(count_, nullptr);
  }

 private:
  int64_t* count_;  // none: given back
};

/// Everything but `start`, `stop`, the readers and the pump runs on one thread, io_thread_.
class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(Engine* engine, ServerOptions options)
      : engine_(engine), options_(std::move(options)), calls_(engine), pump_([this](std::vector<Event> events) {
          net::post(io_, [this, events = std::move(events)] { calls_.take(events); });
        }) {}
  ~HttpServerImpl() override { stop(); }

  Status bind() {
    ErrorCode error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
    if (!error) error = listen(found.begin()->endpoint());
    if (!error) return ok_status();
    return unavailable(fmt::format("{}:{}: cannot be listened on: {}; --port 0 takes any port that is free",
                                   options_.host, options_.port, error.message()));
  }

  void run() {
    net::co_spawn(io_, accept(), net::detached);
    io_thread_ = std::thread([this] { serve_all(); });
  }

  [[nodiscard]] int port() const override { return port_; }

  void stop() override {
    if (!io_thread_.joinable()) return;
    net::post(io_, [this] { begin_end(); });
    io_thread_.join();  // when no connection is left
    readers_.join();
  }

 private:
  ErrorCode listen(const tcp::endpoint& where) {
    ErrorCode error;
    acceptor_.open(where.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return error;
  }

  // The end: nobody comes any more, and who waits for nothing goes.

  void begin_end() {
    is_ending_ = true;
    acceptor_.close();
    const std::set<Connection> connections = connections_;
    for (const Connection& connection : connections) {
      connection->keep_no_longer();
      if (connection->is_idle()) connection->close();
    }
    if (connections_.empty()) return;
    const auto drain = std::chrono::duration<double>(options_.drain_s);
    end_.expires_after(std::chrono::duration_cast<net::steady_timer::duration>(drain));
    end_.async_wait([this](const ErrorCode& error) {
      if (!error) cut_calls();
    });
  }

  void cut_calls() {
    must_end_ = true;
    calls_.cancel_all();
    end_.expires_after(kGrace);
    end_.async_wait([this](const ErrorCode& error) {
      if (error) return;
      const std::set<Connection> connections = connections_;
      for (const Connection& connection : connections) connection->close();
    });
  }

  /// Until no connection is left.
  void serve_all() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (...) {  // of a handler that found no memory; the others go on
        tell("serving", caught_status("serving"));
      }
    }
  }

  void tell(const std::string& of_what, const Status& status) const {
    if (options_.on_failure) options_.on_failure(fmt::format("{}: {}", of_what, status.message()));
  }

  net::awaitable<void> accept() {
    while (acceptor_.is_open()) {
      ErrorCode error;
      tcp::socket socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, error));
      if (!error && begin(std::move(socket))) continue;
      net::steady_timer pause(io_, kAcceptPause);  // the system is short of something
      co_await pause.async_wait(net::redirect_error(net::use_awaitable, error));
    }
  }

  /// False: there is no memory for another connection.
  bool begin(tcp::socket socket) {
    if (connections_.size() >= kMaxConnections) return true;  // it is closed
    try {
      ErrorCode ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      net::co_spawn(io_, serve(std::make_shared<HttpConnection>(std::move(socket))), net::detached);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  net::awaitable<void> serve(Connection connection) {
    if (is_ending_) co_return;
    connections_.insert(connection);
    try {
      bool goes_on = true;
      while (goes_on && connection->is_kept() && !is_ending_) goes_on = co_await serve_one(connection);
    } catch (const std::exception&) {  // the connection broke, or there is no memory for it
    }
    connection->close();
    connections_.erase(connection);
    if (is_ending_ && connections_.empty()) end_.cancel();
  }

  /// False: the connection is at its end.
  net::awaitable<bool> serve_one(Connection connection) {
    HttpRequest request;
    const HttpConnection::Read read = co_await connection->read(&request);
    if (read == HttpConnection::Read::kEnd) co_return false;
    if (read != HttpConnection::Read::kRequest) {
      const HttpAnswer refusal =
          answer_of(read == HttpConnection::Read::kTooLarge ? too_large_error(HttpConnection::kMaxBodyBytes)
                                                            : not_http_error("a request that this server understands"));
      co_await connection->answer(refusal);
      co_await connection->linger();
      co_return false;
    }
    const std::optional<ApiEndpoint> endpoint = endpoint_of(request);
    if (endpoint && is_allowed(request)) {
      co_await call(connection, *endpoint, &request.body);
    } else {
      const HttpAnswer answer = simple_answer(request);
      co_await connection->answer(answer);
    }
    co_return true;
  }

  static std::optional<ApiEndpoint> endpoint_of(const HttpRequest& request) {
    if (request.method == "POST" && request.path == "/v1/chat/completions") return ApiEndpoint::kChat;
    if (request.method == "POST" && request.path == "/v1/completions") return ApiEndpoint::kCompletion;
    return std::nullopt;
  }

  [[nodiscard]] bool is_allowed(const HttpRequest& request) const {
    if (options_.api_key.empty()) return true;
    constexpr std::string_view kScheme = "Bearer ";
    const std::string_view given = request.authorization;
    if (given.size() != kScheme.size() + options_.api_key.size()) return false;
    return beast::iequals({given.data(), kScheme.size()}, {kScheme.data(), kScheme.size()}) &&
           ::CRYPTO_memcmp(given.data() + kScheme.size(), options_.api_key.data(), options_.api_key.size()) == 0;
  }

  HttpAnswer simple_answer(const HttpRequest& request) const {
    const std::string& path = request.path;
    const bool is_get = request.method == "GET" || request.method == "HEAD";
    if (is_get && path == "/health") return {200, "{\"status\":\"ok\"}\n"};
    if (!is_allowed(request)) return answer_of(wrong_key_error());
    if (is_get && path == "/metrics")
      return {200, metrics_text(counts_, engine_->stats()), "text/plain; version=0.0.4"};
    if (is_get && path == "/v1/models")
      return {200, Json{{"object", "list"}, {"data", Json::array({model_json()})}}.dump() + "\n"};
    constexpr std::string_view kModels = "/v1/models/";
    if (!is_get || !path.starts_with(kModels)) return answer_of(unknown_path_error(request.method, path));
    const std::string name = path.substr(kModels.size());
    if (name != options_.model) return answer_of(unknown_model_error(name, options_.model));
    return {200, model_json().dump() + "\n"};
  }

  [[nodiscard]] Json model_json() const {
    return {{"id", options_.model}, {"object", "model"}, {"created", started_s_}, {"owned_by", "bass"}};
  }

  // A call.

  /// What a reader makes of a body.
  struct Submitted {
    ApiShape shape;
    std::vector<RequestId> ids;
    std::optional<ApiError> error;  // then what was submitted is to be cancelled
  };

  net::awaitable<void> call(Connection connection, ApiEndpoint endpoint, std::string* body) {
    if (is_ending_ || counts_.running >= options_.max_calls) {
      ++counts_.refused;
      const HttpAnswer refusal = answer_of(is_ending_ ? ending_error() : too_many_calls_error(options_.max_calls));
      co_await connection->answer(refusal);
      co_return;
    }
    Place place(&counts_.running);
    Submitted submitted;
    auto reading = submit(endpoint, body, &submitted);
    co_await net::co_spawn(readers_, std::move(reading), net::use_awaitable);
    if (submitted.error) {
      calls_.add(nullptr, submitted.ids);
      calls_.drop(submitted.ids);
      ++counts_.refused;
      place.give_back();
      const HttpAnswer refusal = answer_of(*submitted.error);
      co_await connection->answer(refusal);
      co_return;
    }
    const bool is_chat = endpoint == ApiEndpoint::kChat;
    ApiHead head{random_id(is_chat ? "chatcmpl" : "cmpl"), seconds_since_1970(), options_.model};
    const std::string id = head.id;
    const auto running =
        std::make_shared<RunningCall>(io_.get_executor(), submitted.shape, std::move(head), token_bytes());
    calls_.add(running, submitted.ids);
    if (must_end_) calls_.cancel_all();
    Status status;
    try {
      connection->watch([running] { running->fail(caller_gone()); });
      if (submitted.shape.is_streamed) {
        co_await send_pieces(connection, running, &place);
      } else {
        co_await send_whole(connection, running, &place);
      }
      status = running->status();
    } catch (const boost::system::system_error&) {
      status = caller_gone();
    } catch (...) {
      status = caught_status("answering a call");
    }
    connection->unwatch();
    calls_.drop(submitted.ids);
    n_samples_ -= n_samples_of(submitted.shape);
    ++(status.ok() ? counts_.answered : counts_.broken);
    if (status.ok()) co_return;
    tell(id, status);
    connection->close();  // in the middle of an answer: nobody takes a part for the whole
  }

  static int64_t n_samples_of(const ApiShape& shape) { return static_cast<int64_t>(shape.n_prompts) * shape.n_samples; }
  static Status caller_gone() { return {StatusCode::kCancelled, "the caller has gone"}; }

  /// On a reader's thread.
  net::awaitable<void> submit(ApiEndpoint endpoint, const std::string* body, Submitted* submitted) {
    try {
      submitted->error = try_submit(endpoint, *body, submitted);
    } catch (...) {
      submitted->error = api_error(caught_status("reading a call"));
    }
    co_return;
  }

  std::optional<ApiError> try_submit(ApiEndpoint endpoint, const std::string& body, Submitted* submitted) {
    Result<ApiCall> call = read_api_call(endpoint, body, options_.defaults);
    if (!call.ok()) return api_error(call.status());
    if (!call->model.empty() && call->model != options_.model) return unknown_model_error(call->model, options_.model);
    submitted->shape = call->shape;
    const int64_t n_samples = n_samples_of(call->shape);
    if (n_samples_.fetch_add(n_samples) + n_samples > kMaxSamples) {
      n_samples_ -= n_samples;
      return too_many_samples_error(kMaxSamples);
    }
    const uint64_t job = ++n_jobs_;
    for (Request& request : call->requests) {
      request.job = job;
      const Result<RequestId> id = engine_->submit(std::move(request), pump_.queue());
      if (!id.ok()) {
        n_samples_ -= n_samples;
        return api_error(id.status());
      }
      submitted->ids.push_back(id.value());
    }
    return std::nullopt;
  }

  [[nodiscard]] TokenBytes token_bytes() const {
    return [engine = engine_](TokenId id) {
      const Result<std::string> bytes = engine->detokenize({&id, 1});
      return bytes.ok() ? bytes.value() : std::string();
    };
  }

  /// place: given back before the caller can know that the call is over, and asks for the next one.
  net::awaitable<void> send_whole(Connection connection, std::shared_ptr<RunningCall> running, Place* place) {
    co_await running->wait();
    Result<std::string> body = running->whole();
    connection->unwatch();
    place->give_back();
    if (!body.ok()) running->fail(body.status());
    const HttpAnswer answer =
        body.ok() ? HttpAnswer{200, std::move(body).value()} : answer_of(api_error(body.status()));
    co_await connection->answer(answer);
  }

  net::awaitable<void> send_pieces(Connection connection, std::shared_ptr<RunningCall> running, Place* place) {
    co_await connection->begin_pieces("text/event-stream");
    bool is_done = false;
    while (!is_done) {
      co_await running->wait();
      is_done = running->is_done();
      if (is_done) place->give_back();
      std::string pieces = running->take_pieces();
      if (is_done && !running->status().ok()) pieces += "data: " + api_error(running->status()).body() + "\n";
      if (!pieces.empty()) co_await connection->send_piece(pieces);
    }
    if (running->status().ok()) co_await connection->end_pieces();
  }

  Engine* engine_;
  ServerOptions options_;
  net::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  net::steady_timer end_{io_};
  int port_ = -1;
  int64_t started_s_ = seconds_since_1970();
  CallTable calls_;
  CallCounts counts_;
  std::set<Connection> connections_;
  bool is_ending_ = false;
  bool must_end_ = false;
  std::atomic<int64_t> n_samples_ = 0;  // of the calls that run
  std::atomic<uint64_t> n_jobs_ = 0;
  net::thread_pool readers_{kReaders};
  EventPump pump_;
  std::thread io_thread_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(Engine* engine, ServerOptions options) {
  try {
    auto server = std::make_unique<HttpServerImpl>(engine, std::move(options));
    BASS_RETURN_IF_ERROR(server->bind());
    server->run();
    return std::unique_ptr<HttpServer>(std::move(server));
  } catch (...) {
    return caught_status("starting the server");
  }
}

}  // namespace bass
