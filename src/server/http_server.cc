#include "server/http_server.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/caught_status.h"
#include "base/check.h"
#include "server/api_error.h"
#include "server/asio.h"
#include "server/call_hold.h"
#include "server/call_runner.h"
#include "server/http_connection.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using Connection = std::shared_ptr<HttpConnection>;

constexpr size_t kMaxConnections = 4096;
constexpr std::chrono::milliseconds kGrace{1000};       // for calls that were cut to tell their callers
constexpr size_t kMaxOtherBytes = 64 << 10;             // of bodies that nobody will read
constexpr size_t kMaxAllBodies = size_t{1} << 30;       // bytes of bodies that come or are read, together
constexpr std::chrono::milliseconds kAcceptPause{100};  // when the system has no more connections to give

/// A path as clients mean it that were told the address without "/v1", or with a "/" too many.
std::string meant_path(const std::string& asked) {
  std::string path;
  for (const char c : asked) {
    if (c != '/' || !path.ends_with('/')) path += c;
  }
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path == "/v1/tokenize" || path == "/v1/detokenize") return path.substr(3);
  const bool lacks_version = path.starts_with("/models") || find_endpoint("/v1" + path) != nullptr;
  return lacks_version ? "/v1" + path : path;
}

/// Everything but `start`, `stop` and a runner's readers and pump runs on one thread, io_thread_.
class HttpServerImpl final : public HttpServer {
 public:
  HttpServerImpl(Engine* engine, ServerOptions options)
      : options_(std::move(options)), context_len_(*engine->options().context_len), calls_(&io_, engine, &options_) {}
  ~HttpServerImpl() override { stop(); }

  Status bind() {
    ErrorCode error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
    if (!error) error = listen_on_one(found);
    if (!error) return ok_status();
    const bool is_port = error == net::error::address_in_use || error == net::error::access_denied;
    return unavailable(fmt::format(
        "{}:{}: cannot be listened on: {}; {}", options_.host, options_.port, error.message(),
        is_port ? "--port 0 takes any port that is free" : "--host takes an address or a name of this machine"));
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
    calls_.join();
  }

 private:
  /// A name may have several addresses, and what it means to callers is IPv4's first; the next where this machine lacks
  /// one. Not where a port is taken: two servers would answer to one name.
  ErrorCode listen_on_one(const tcp::resolver::results_type& found) {
    std::vector<tcp::endpoint> addresses(found.begin(), found.end());
    std::ranges::stable_partition(addresses, [](const tcp::endpoint& where) { return where.address().is_v4(); });
    ErrorCode first_error;
    for (const tcp::endpoint& where : addresses) {
      const ErrorCode error = listen(where);
      const bool is_lacking =
          error == net::error::address_family_not_supported || error == boost::system::errc::address_not_available;
      if (!is_lacking) return error;
      if (!first_error) first_error = error;
    }
    return first_error;
  }

  ErrorCode listen(const tcp::endpoint& where) {
    ErrorCode error, ignored;
    acceptor_.close(ignored);
    acceptor_.open(where.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return error;
  }

  // The end: nobody comes any more, and who waits for nothing goes.

  void begin_end() {
    calls_.refuse_more();
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
    calls_.cut();
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
      bool has_begun = false;
      try {
        tcp::socket socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, error));
        if (!error) begin(std::move(socket));
        has_begun = !error;
      } catch (const std::bad_alloc&) {  // there is no memory for another connection
      }
      if (has_begun) continue;
      net::steady_timer pause(io_, kAcceptPause);  // the system is short of something
      co_await pause.async_wait(net::redirect_error(net::use_awaitable, error));
    }
  }

  void begin(tcp::socket socket) {
    if (connections_.size() >= kMaxConnections) return;  // it is closed
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    net::co_spawn(io_, serve(std::make_shared<HttpConnection>(std::move(socket))), net::detached);
  }

  net::awaitable<void> serve(Connection connection) {
    if (calls_.is_ending()) co_return;
    const Listed listed(this, connection);
    try {
      bool goes_on = true;
      while (goes_on && connection->is_kept() && !calls_.is_ending()) goes_on = co_await serve_one(connection);
      if (goes_on) co_await connection->linger();  // its last request was answered
    } catch (const std::exception&) {              // the connection broke, or there is no memory for it
    }
  }

  /// A connection that is served; closed and forgotten at the end.
  class Listed {
   public:
    Listed(HttpServerImpl* server, Connection connection) : server_(server), connection_(std::move(connection)) {
      server_->connections_.insert(connection_);
    }
    ~Listed() {
      connection_->close();
      server_->connections_.erase(connection_);
      if (server_->calls_.is_ending() && server_->connections_.empty()) server_->end_.cancel();
    }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;

   private:
    HttpServerImpl* server_;
    Connection connection_;
  };

  /// False: the connection is at its end.
  net::awaitable<bool> serve_one(Connection connection) {
    HttpRequest request;
    Share bodies(&body_bytes_);
    const HttpConnection::BodyLimit limit = [&](const HttpRequest& head, std::optional<size_t> n_bytes) {
      return body_limit(head, n_bytes, &bodies);
    };
    const HttpConnection::Read read = co_await connection->read(limit, &request);
    if (read == HttpConnection::Read::kEnd) co_return false;
    connection->allow_origin(allowed_origin(request));
    const std::optional<ApiEndpoint> endpoint = endpoint_of(request);
    const std::optional<TokenEndpoint> of_tokens = token_endpoint_of(request);
    const bool is_call = (endpoint || of_tokens) && is_allowed(request);
    if (read == HttpConnection::Read::kRequest && is_call) {
      if (endpoint) {
        co_await calls_.run(connection, *endpoint, &request.body, &bodies);
      } else {
        co_await calls_.run(connection, *of_tokens, &request.body, &bodies);
      }
      co_return true;
    }
    if (read != HttpConnection::Read::kRequest) connection->keep_no_longer();
    const HttpAnswer answer = uncalled_answer(read, request, is_call, bodies.n() > 0);
    co_await connection->answer(answer);
    co_return true;
  }

  [[nodiscard]] HttpAnswer uncalled_answer(HttpConnection::Read read, const HttpRequest& request, bool is_call,
                                           bool has_room) const {
    switch (read) {
      case HttpConnection::Read::kInvalid:
        return answer_of(not_http_error());
      case HttpConnection::Read::kEncrypted:
        return answer_of(not_encrypted_error());
      case HttpConnection::Read::kLargeHead:
        return answer_of(large_head_error(HttpConnection::kMaxHeadBytes));
      default:
        if (!is_call) return simple_answer(request);
        return answer_of(has_room ? too_large_error(HttpConnection::kMaxBodyBytes) : too_many_bodies_error());
    }
  }

  /// Bodies of calls have as much as there is room for, others little: neither is memory for those without a key.
  size_t body_limit(const HttpRequest& head, std::optional<size_t> n_bytes, Share* bodies) const {
    const bool is_call = endpoint_of(head) || token_endpoint_of(head);
    if (!is_call || !is_allowed(head)) return kMaxOtherBytes;
    const size_t n = std::min(n_bytes.value_or(HttpConnection::kMaxBodyBytes), HttpConnection::kMaxBodyBytes);
    return bodies->take(n, kMaxAllBodies) ? HttpConnection::kMaxBodyBytes : 0;
  }

  static std::optional<ApiEndpoint> endpoint_of(const HttpRequest& request) {
    if (request.method != "POST") return std::nullopt;
    const EndpointWords* words = find_endpoint(meant_path(request.path));
    return words == nullptr ? std::nullopt : std::optional(words->endpoint);
  }

  static std::optional<TokenEndpoint> token_endpoint_of(const HttpRequest& request) {
    if (request.method != "POST") return std::nullopt;
    const std::string path = meant_path(request.path);
    if (path == "/tokenize") return TokenEndpoint::kTokenize;
    if (path == "/detokenize") return TokenEndpoint::kDetokenize;
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

  /// What is said of a request's origin; "": nothing.
  [[nodiscard]] std::string allowed_origin(const HttpRequest& request) const {
    const auto has = [&](std::string_view origin) {
      return std::ranges::find(options_.origins, origin) != options_.origins.end();
    };
    if (request.origin.empty()) return "";
    return has("*") ? "*" : has(request.origin) ? request.origin : "";
  }

  HttpAnswer simple_answer(const HttpRequest& request) const {
    const std::string path = meant_path(request.path);
    // A browser asks before it sends what a page wants sent, and never with a key.
    if (request.method == "OPTIONS" && !allowed_origin(request).empty())
      return {.type = "text/plain", .is_preflight = true};
    const bool is_get = request.method == "GET" || request.method == "HEAD";
    if (is_get && path == "/health") return {200, "{\"status\":\"ok\"}\n"};
    if (!is_allowed(request)) return answer_of(wrong_key_error());
    if (is_get && path == "/metrics") return {200, calls_.metrics(), "text/plain; version=0.0.4; charset=utf-8"};
    if (is_get && path == "/v1/models")
      return {200, Json{{"object", "list"}, {"data", Json::array({model_json()})}}.dump() + "\n"};
    constexpr std::string_view kModels = "/v1/models/";
    const bool is_posted = find_endpoint(path) != nullptr || path == "/tokenize" || path == "/detokenize";
    if (is_posted) return answer_of(wrong_method_error(request.method, path, "POST"));
    const bool is_got = path == "/health" || path == "/metrics" || path == "/v1/models" || path.starts_with(kModels);
    if (!is_get && is_got) return answer_of(wrong_method_error(request.method, path, "GET, HEAD"));
    if (!is_get || !path.starts_with(kModels)) return answer_of(unknown_path_error(request.method, request.path));
    const bool is_served = path == meant_path(std::string(kModels) + options_.model);
    if (!is_served) return answer_of(unknown_model_error(path.substr(kModels.size()), options_.model));
    return {200, model_json().dump() + "\n"};
  }

  [[nodiscard]] Json model_json() const {
    return {{"id", options_.model},
            {"object", "model"},
            {"created", started_s_},
            {"owned_by", "bass"},
            {"max_model_len", context_len_}};
  }

  ServerOptions options_;
  net::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  net::steady_timer end_{io_};
  int port_ = -1;
  const int context_len_;
  const std::time_t started_s_ = std::time(nullptr);
  std::set<Connection> connections_;
  size_t body_bytes_ = 0;  // that are taken of kMaxAllBodies
  CallRunner calls_;
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
