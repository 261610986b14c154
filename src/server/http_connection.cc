#include "server/http_connection.h"

#include <fmt/chrono.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <charconv>
#include <chrono>
#include <ctime>
#include <limits>

#include "server/random_id.h"

namespace bass {
namespace {

using std::chrono::seconds;

constexpr seconds kHeadTime{30};   // for a request to begin and its head to come
constexpr seconds kBodyTime{120};  // and for its body
constexpr seconds kWriteTime{30};  // for the next part of what is sent to be taken
constexpr seconds kLingerTime{2};
constexpr seconds kLookTime{1};  // between looks for the other side's end
constexpr const char* kRequestId = "X-Request-Id";

bool is_end(const ErrorCode& error) {
  return error == http::error::end_of_stream || error == beast::error::timeout ||
         error == net::error::connection_reset || error == net::error::operation_aborted || error == net::error::eof;
}

/// The path of a request's target (RFC 9112, 3.2), %XX as the bytes that they stand for.
std::string path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (const size_t scheme = target.find("://"); !target.starts_with('/') && scheme != target.npos) {
    target.remove_prefix(std::min(target.find('/', scheme + 3), target.size()));
  }
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    const char* digits = target.data() + i + 1;
    uint8_t byte = 0;
    const bool is_escape =
        target[i] == '%' && i + 2 < target.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    path += is_escape ? static_cast<char>(byte) : target[i];
    i += is_escape ? 2 : 0;
  }
  return path;
}

/// What a request calls itself, where that is a word of a length that logs can do with.
std::string id_of(beast::string_view said) {
  constexpr size_t kMaxLen = 128;
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7F; };
  const bool is_id = !said.empty() && said.size() <= kMaxLen && std::ranges::all_of(said, is_plain);
  return is_id ? std::string(said) : random_id("req_");
}

// "*" does not stand for Authorization (Fetch standard, 3.3.2).
void allow_calls(http::response_header<>* header) {
  header->set(http::field::access_control_allow_methods, "GET, POST");
  header->set(http::field::access_control_allow_headers, "*, Authorization");
  header->set(http::field::access_control_max_age, "86400");
}

}  // namespace

// What was not understood is still in the buffer.
HttpConnection::Read HttpConnection::why_unread(const ErrorCode& error) const {
  constexpr char kHandshake = 0x16;  // RFC 8446, 5.1: the first byte that a TLS client sends, 3 the version's first
  if (is_end(error)) return Read::kEnd;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return Read::kLargeHead;
  const auto* bytes = static_cast<const char*>(buffer_.data().data());
  return buffer_.size() > 1 && bytes[0] == kHandshake && bytes[1] == 3 ? Read::kEncrypted : Read::kInvalid;
}

net::awaitable<HttpConnection::Read> HttpConnection::read(const BodyLimit& limit, HttpRequest* request) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeadBytes);
  parser.body_limit(std::numeric_limits<uint64_t>::max());  // until the head is known (Boost 1.74 takes "none" for 0)
  is_idle_ = true;
  stream_.expires_after(kHeadTime);
  ErrorCode error;
  co_await http::async_read_header(stream_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  is_idle_ = false;
  const auto& message = parser.get();
  version_ = message.version();
  is_head_ = message.method() == http::verb::head;
  is_kept_ = false;
  allowed_origin_.clear();
  request_id_ = id_of(message[kRequestId]);
  if (error) co_return why_unread(error);
  const std::string_view target(message.target().data(), message.target().size());
  *request = {.method = std::string(message.method_string()),
              .path = path_of(target),
              .authorization = std::string(message[http::field::authorization]),
              .origin = std::string(message[http::field::origin])};
  std::optional<size_t> n_bytes;
  if (const auto said = parser.content_length()) n_bytes = *said;
  const size_t max_bytes = limit(*request, n_bytes);
  if (n_bytes.value_or(0) > max_bytes) co_return Read::kTooLarge;
  parser.body_limit(max_bytes);
  stream_.expires_after(kBodyTime);
  if (version_ >= 11 && beast::iequals(message[http::field::expect], "100-continue")) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await net::async_write(stream_, net::buffer(kContinue), net::use_awaitable);
  }
  co_await http::async_read(stream_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  if (error == http::error::body_limit) co_return Read::kTooLarge;
  if (error) co_return is_end(error) ? Read::kEnd : Read::kInvalid;
  is_kept_ = message.keep_alive();
  request->body = std::move(parser.get().body());
  co_return Read::kRequest;
}

template <class Buffers>
net::awaitable<void> HttpConnection::write(Buffers buffers) {
  beast::buffers_suffix<Buffers> rest(buffers);
  while (beast::buffer_bytes(rest) > 0) {
    stream_.expires_after(kWriteTime);
    const size_t n_taken = co_await stream_.async_write_some(rest, net::use_awaitable);
    rest.consume(n_taken);
  }
}

void HttpConnection::settle(http::response_header<>* header) {
  header->version(version_);
  header->set(http::field::server, "bass");
  header->set(http::field::date, fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr))));
  header->set(http::field::cache_control, "no-cache");
  header->set(kRequestId, request_id_);
  if (allowed_origin_.empty()) return;
  header->set(http::field::access_control_allow_origin, allowed_origin_);
  header->set(http::field::access_control_expose_headers, kRequestId);
  if (allowed_origin_ != "*") header->set(http::field::vary, "Origin");
}

net::awaitable<void> HttpConnection::answer(const HttpAnswer& answer) {
  http::response<http::span_body<const char>> response;
  settle(&response);
  response.result(static_cast<unsigned>(answer.status));
  response.set(http::field::content_type, answer.type);
  if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (!answer.allowed.empty()) response.set(http::field::allow, answer.allowed);
  if (answer.is_preflight) allow_calls(&response);
  if (answer.status == 429) response.set(http::field::retry_after, "1");
  response.content_length(answer.body.size());
  response.keep_alive(is_kept());
  response.body() = {answer.body.data(), answer.body.size()};
  http::response_serializer<http::span_body<const char>> serializer(response);
  if (is_head_) {
    stream_.expires_after(kWriteTime);
    co_await http::async_write_header(stream_, serializer, net::use_awaitable);
    co_return;
  }
  while (!serializer.is_done()) {
    stream_.expires_after(kWriteTime);
    co_await http::async_write_some(stream_, serializer, net::use_awaitable);
  }
}

net::awaitable<void> HttpConnection::begin_pieces(std::string_view type) {
  http::response<http::empty_body> response;
  settle(&response);
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  is_kept_ = is_kept_ && version_ >= 11;  // before, the connection's end is the answer's
  response.keep_alive(is_kept());
  response.chunked(version_ >= 11);
  response.set("X-Accel-Buffering", "no");  // pieces are sent on as they come, also by nginx
  http::response_serializer<http::empty_body> serializer(response);
  stream_.expires_after(kWriteTime);
  co_await http::async_write_header(stream_, serializer, net::use_awaitable);
}

net::awaitable<void> HttpConnection::send_piece(const std::string& piece) {
  if (version_ >= 11) {
    auto writing = write(http::make_chunk(net::const_buffer(piece.data(), piece.size())));
    co_await std::move(writing);
  } else {
    auto writing = write(net::const_buffer(piece.data(), piece.size()));
    co_await std::move(writing);
  }
}

net::awaitable<void> HttpConnection::end_pieces() {
  if (version_ < 11) co_return;
  stream_.expires_after(kWriteTime);
  co_await net::async_write(stream_, http::make_chunk_last(), net::use_awaitable);
}

void HttpConnection::watch(std::function<void()> on_gone) {
  on_gone_ = std::move(on_gone);
  if (!is_watching_) wait_for_end();
}

void HttpConnection::wait_for_end() {
  is_watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->is_watching_ = false;
    if (!self->on_gone_) return;
    char byte = 0;
    ErrorCode peeked;
    self->stream_.socket().non_blocking(true, peeked);
    if (!error) self->stream_.socket().receive(net::buffer(&byte, 1), tcp::socket::message_peek, peeked);
    if (!error && !peeked) return self->wait_beside_bytes();
    if (peeked == net::error::would_block) return self->wait_for_end();
    std::exchange(self->on_gone_, nullptr)();
  });
}

// Another request may have come already, behind which the end would be read: the system is asked instead.
void HttpConnection::wait_beside_bytes() {
  is_watching_ = true;
  next_look_.expires_after(kLookTime);
  next_look_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    self->is_watching_ = false;
    if (error || !self->on_gone_) return;
    pollfd socket{self->stream_.socket().native_handle(), POLLRDHUP, 0};
    if (::poll(&socket, 1, 0) <= 0) return self->wait_beside_bytes();
    std::exchange(self->on_gone_, nullptr)();
  });
}

net::awaitable<void> HttpConnection::linger() {
  ErrorCode error;
  stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  stream_.expires_after(kLingerTime);
  std::vector<char> dropped(64 << 10);
  while (!error) {
    co_await stream_.async_read_some(net::buffer(dropped), net::redirect_error(net::use_awaitable, error));
  }
}

void HttpConnection::close() {
  next_look_.cancel();
  stream_.close();
  if (on_gone_) std::exchange(on_gone_, nullptr)();
}

}  // namespace bass
