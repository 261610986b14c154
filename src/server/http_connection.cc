#include "server/http_connection.h"

#include <boost/asio/buffer.hpp>
#include <chrono>

namespace bass {
namespace {

using std::chrono::seconds;

constexpr seconds kHeadTime{30};   // for a request to begin and its head to come
constexpr seconds kBodyTime{120};  // and for its body
constexpr seconds kWriteTime{30};  // for what is sent to be taken
constexpr seconds kLingerTime{2};

bool is_end(const ErrorCode& error) {
  return error == http::error::end_of_stream || error == beast::error::timeout ||
         error == net::error::connection_reset || error == net::error::operation_aborted || error == net::error::eof;
}

}  // namespace

net::awaitable<HttpConnection::Read> HttpConnection::read(HttpRequest* request) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeadBytes);
  parser.body_limit(kMaxBodyBytes);
  is_idle_ = true;
  stream_.expires_after(kHeadTime);
  ErrorCode error;
  co_await http::async_read_header(stream_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  is_idle_ = false;
  version_ = parser.get().version();
  is_head_ = parser.get().method() == http::verb::head;
  if (!error) {
    stream_.expires_after(kBodyTime);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await net::async_write(stream_, net::buffer(kContinue), net::use_awaitable);
    }
    co_await http::async_read(stream_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  }
  is_kept_ = !error && parser.get().keep_alive();
  if (error == http::error::body_limit) co_return Read::kTooLarge;
  if (error) co_return is_end(error) ? Read::kEnd : Read::kInvalid;
  const auto& message = parser.get();
  const std::string_view target(message.target().data(), message.target().size());
  *request = {std::string(message.method_string()), std::string(target.substr(0, target.find('?'))),
              std::string(message[http::field::authorization]), std::move(parser.get().body())};
  co_return Read::kRequest;
}

void HttpConnection::settle(http::response_header<>* header) {
  header->version(version_);
  header->set(http::field::server, "bass");
  header->set(http::field::cache_control, "no-cache");
}

net::awaitable<void> HttpConnection::answer(const HttpAnswer& answer) {
  http::response<http::string_body> response;
  settle(&response);
  response.result(static_cast<unsigned>(answer.status));
  response.set(http::field::content_type, answer.type);
  if (answer.status == 401) response.set(http::field::www_authenticate, "Bearer");
  if (answer.status == 429) response.set(http::field::retry_after, "1");
  response.content_length(answer.body.size());
  is_kept_ = is_kept_ && may_keep_;
  response.keep_alive(is_kept_);
  response.body() = answer.body;
  http::response_serializer<http::string_body> serializer(response);
  stream_.expires_after(kWriteTime);
  if (is_head_) {
    co_await http::async_write_header(stream_, serializer, net::use_awaitable);
  } else {
    co_await http::async_write(stream_, serializer, net::use_awaitable);
  }
}

net::awaitable<void> HttpConnection::begin_pieces(std::string_view type) {
  http::response<http::empty_body> response;
  settle(&response);
  response.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  is_kept_ = is_kept_ && may_keep_ && version_ >= 11;  // before, the connection's end is the answer's
  response.keep_alive(is_kept_);
  response.chunked(version_ >= 11);
  http::response_serializer<http::empty_body> serializer(response);
  stream_.expires_after(kWriteTime);
  co_await http::async_write_header(stream_, serializer, net::use_awaitable);
}

net::awaitable<void> HttpConnection::send_piece(const std::string& piece) {
  stream_.expires_after(kWriteTime);
  if (version_ >= 11) {
    co_await net::async_write(stream_, http::make_chunk(net::buffer(piece)), net::use_awaitable);
  } else {
    co_await net::async_write(stream_, net::buffer(piece), net::use_awaitable);
  }
}

net::awaitable<void> HttpConnection::end_pieces() {
  stream_.expires_after(kWriteTime);
  if (version_ >= 11) co_await net::async_write(stream_, http::make_chunk_last(), net::use_awaitable);
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
    // Another request may have come already: then nothing more can be learnt before that is read.
    if (!error && !peeked) return;
    if (peeked == net::error::would_block) return self->wait_for_end();
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
  stream_.close();
  if (on_gone_) std::exchange(on_gone_, nullptr)();
}

}  // namespace bass
