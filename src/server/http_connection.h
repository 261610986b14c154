// HTTP/1.1 on one connection: a request after the other, answers whole or piece by piece. Knows nothing of the API.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/asio.h"

namespace bass {

struct HttpRequest {
  std::string method;
  std::string path;           ///< without what follows a "?"
  std::string authorization;  ///< the header
  std::string origin;         ///< the header: of which page's code the request is, where a browser sends it
  std::string body;
};

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allowed = {};   ///< the methods that a path has, of 405
  bool is_preflight = false;  ///< says what pages of other origins may send (allow_origin)
};

/// All methods are called on the server's thread. What a coroutine is given must live until it ends (g++ 12 destroys
/// temporaries of some awaited expressions twice, so callers keep arguments in variables; and it miscompiled a co_await
/// in the condition of a loop, so results are, too). Coroutines throw
/// boost::system::system_error when the connection breaks, the other side is too slow, or `close` was called.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  static constexpr uint32_t kMaxHeadBytes = 64 << 10;
  static constexpr size_t kMaxBodyBytes = size_t{32} << 20;

  explicit HttpConnection(tcp::socket socket) : stream_(std::move(socket)), next_look_(stream_.get_executor()) {}

  enum class Read : uint8_t {
    kRequest,
    kTooLarge,   ///< a longer body than is taken; the request is there but for its body
    kLargeHead,  ///< longer headers than are taken
    kEncrypted,  ///< the beginning of a TLS connection
    kInvalid,    ///< what came is not HTTP; then and after all but kRequest the connection can only be answered and
                 ///< closed
    kEnd,        ///< nobody asks any more
  };
  /// How long a request's body may be, by what is there without it and by what its head says, if it does.
  using BodyLimit = std::function<size_t(const HttpRequest& head, std::optional<size_t> n_bytes)>;
  net::awaitable<Read> read(const BodyLimit& limit, HttpRequest* request);

  /// Pages of this origin ("*": of any) may read the answer to the request that was read last; "": no other's may, as
  /// is so when a request has been read (Fetch standard, "CORS protocol").
  void allow_origin(std::string origin) { allowed_origin_ = std::move(origin); }

  /// The request that was read last, which its answer names in X-Request-Id: as it names itself, or anew.
  [[nodiscard]] const std::string& request_id() const { return request_id_; }

  /// Whoever takes nothing of what is sent for 30 seconds has gone; so of pieces.
  net::awaitable<void> answer(const HttpAnswer& answer);
  /// The head of an answer in pieces, pieces, and its end.
  net::awaitable<void> begin_pieces(std::string_view type);
  net::awaitable<void> send_piece(const std::string& piece);
  net::awaitable<void> end_pieces();

  /// Calls on_gone once, when the other side closes its end, which it does when it goes away, until `unwatch`. Takes up
  /// to a second when more has come from there meanwhile.
  void watch(std::function<void()> on_gone);
  void unwatch() { on_gone_ = nullptr; }

  /// Whether another request may follow.
  [[nodiscard]] bool is_kept() const { return is_kept_ && may_keep_; }
  /// None may. Answers say that they are the last one.
  void keep_no_longer() { may_keep_ = false; }
  /// No request has begun to come since the last answer.
  [[nodiscard]] bool is_idle() const { return is_idle_; }

  /// Says that nothing more is sent, and takes what still comes for a moment: who closes before all was read resets the
  /// connection, and with it an answer that was not read yet.
  net::awaitable<void> linger();
  /// Ends what waits for the connection; calls on_gone.
  void close();

 private:
  [[nodiscard]] Read why_unread(const ErrorCode& error) const;
  void settle(http::response_header<>* header);
  void wait_for_end();
  void wait_beside_bytes();
  /// Is over whenever another part of the bytes was not taken in time.
  template <class Buffers>
  net::awaitable<void> write(Buffers buffers);

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxHeadBytes + (64 << 10)};
  unsigned version_ = 11;  // of the request
  bool is_head_ = false;   // answered without bodies
  bool may_keep_ = true;
  bool is_kept_ = true;
  bool is_idle_ = true;
  bool is_watching_ = false;
  std::string allowed_origin_;
  std::string request_id_;
  std::function<void()> on_gone_;
  net::steady_timer next_look_;  // for the other side's end
};

}  // namespace bass
