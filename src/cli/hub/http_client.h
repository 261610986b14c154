// HTTP by libcurl: one request after the other, redirects followed by our own rules, nothing that can hang.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

struct HttpRequest {
  std::string url;
  std::string token;          ///< sent as Authorization: Bearer, to the URL's own origin only; empty: none
  int64_t first_byte = 0;     ///< above 0: asks for the rest of the file from there
  bool is_head_only = false;  ///< only the headers; a redirect to another origin is the answer, not followed
};

/// The last answer's status line and headers.
struct HttpAnswer {
  int code = 0;
  std::map<std::string, std::string, std::less<>> headers;  ///< names in lower case
  int64_t retry_after_s = 0;                                ///< how long the server asks to wait; 0: it does not say

  /// "" when it is not there.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] bool is_success() const { return code >= 200 && code < 300; }
};

/// How a request ended. An answer with an error's code is an ok status: what it means is the caller's to say.
struct HttpOutcome {
  Status status;
  bool may_pass = false;  ///< another try may go better: the network's or the server's trouble
  HttpAnswer answer;
};

/// Takes the body of a successful answer, piece by piece. An error ends the request and becomes its status.
using HttpSink = std::function<Status(const HttpAnswer&, std::span<const char>)>;

/// Only http and https; never from https to http. Not thread-safe. Errors: kUnavailable names the URL and the mend;
/// kCancelled when a signal came.
class HttpClient {
 public:
  /// stall_s: a connection that is not made, or gives not a byte, for so many seconds is given up.
  explicit HttpClient(int64_t stall_s);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpOutcome send(const HttpRequest& request, const HttpSink& sink);

 private:
  class Transfer;

  int64_t stall_s_;
  void* handle_;  // CURL; keeps the connection for the next request. nullptr: there is no memory
};

/// Whether both are of the same scheme, host and port.
bool is_same_origin(const std::string& a, const std::string& b);

/// Bytes that have no meaning in a URL, percent-encoded; '/' too unless it is kept.
std::string url_quoted(std::string_view text, bool keeps_slashes);

}  // namespace bass
