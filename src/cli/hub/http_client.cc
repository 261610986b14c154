#include "cli/hub/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/caught_status.h"
#include "cli/interrupt.h"
#include "text/plain_text.h"

namespace bass {
namespace {

constexpr long kReadBytes = 256L << 10;
constexpr size_t kMaxHeaderBytes = 256 << 10;
constexpr int kMaxRedirects = 5;

struct UrlCloser {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

/// "" for a part that is not there.
std::string url_part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
  std::string result = text;
  curl_free(text);
  return result;
}

/// Scheme, host and port; "" for what is no URL.
std::string origin_of(const std::string& text) {
  const std::unique_ptr<CURLU, UrlCloser> url(curl_url());
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return "";
  }
  return lower_case(url_part(url.get(), CURLUPART_SCHEME) + "://" + url_part(url.get(), CURLUPART_HOST) + ":" +
                    url_part(url.get(), CURLUPART_PORT));
}

/// A redirect's target, which may be relative; "" for what is no URL.
std::string resolved(const std::string& base, const std::string& target) {
  const std::unique_ptr<CURLU, UrlCloser> url(curl_url());
  if (url == nullptr || curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, target.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return "";
  }
  char* text = nullptr;
  if (curl_url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) return "";
  std::string result = text;
  curl_free(text);
  return result;
}

bool is_certificate_trouble(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR;
}

bool is_passing_trouble(CURLcode code) {
  constexpr std::array kCodes{CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY,
                              CURLE_COULDNT_CONNECT,      CURLE_OPERATION_TIMEDOUT,
                              CURLE_PARTIAL_FILE,         CURLE_GOT_NOTHING,
                              CURLE_SEND_ERROR,           CURLE_RECV_ERROR,
                              CURLE_SSL_CONNECT_ERROR,    CURLE_HTTP2,
                              CURLE_HTTP2_STREAM};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

/// Servers' query strings hold signatures; nobody needs to read them.
std::string_view without_query(std::string_view url) { return url.substr(0, url.find('?')); }

}  // namespace

std::string_view HttpAnswer::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

using Clock = std::chrono::steady_clock;

/// One exchange, without redirects. What libcurl calls back must not throw.
class HttpClient::Transfer {
 public:
  Transfer(CURL* handle, const HttpRequest& request, const HttpSink& sink, int64_t stall_s)
      : handle_(handle), request_(request), sink_(sink), stall_s_(stall_s) {}
  ~Transfer() { curl_slist_free_all(headers_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  HttpOutcome run();
  /// Where the answer sends us; "" if nowhere.
  [[nodiscard]] std::string redirect() const;

 private:
  CURLcode prepare();
  void add_header(const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); }
  void keep_header(std::string_view line);
  [[nodiscard]] Status trouble(CURLcode code) const;

  static size_t take_header(char* data, size_t /*size*/, size_t n_bytes, void* self);
  static size_t take_body(char* data, size_t /*size*/, size_t n_bytes, void* self);
  static int look_around(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  CURL* handle_;
  const HttpRequest& request_;
  const HttpSink& sink_;
  int64_t stall_s_;
  Clock::time_point last_sign_ = Clock::now();  // of life
  curl_slist* headers_ = nullptr;
  std::array<char, CURL_ERROR_SIZE> error_{};
  HttpAnswer answer_;
  size_t header_bytes_ = 0;
  bool is_stalled_ = false;
  bool has_enough_ = false;  // the body of an error or a redirect is not read
  Status sink_status_;
};

CURLcode HttpClient::Transfer::prepare() {
  CURLcode result = CURLE_OK;
  const auto set = [&](CURLoption option, auto value) {
    if (result == CURLE_OK) result = curl_easy_setopt(handle_, option, value);
  };
  curl_easy_reset(handle_);
  add_header("Accept-Encoding: identity");  // sizes and hashes are of the file itself
  if (!request_.token.empty()) add_header("Authorization: Bearer " + request_.token);
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_USERAGENT, "bass");
  set(CURLOPT_HTTPHEADER, headers_);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(stall_s_));
  curl_easy_setopt(handle_, CURLOPT_BUFFERSIZE, kReadBytes);  // it may have one already
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, take_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_XFERINFOFUNCTION, look_around);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(this));
  set(CURLOPT_NOPROGRESS, 0L);
  if (request_.is_head_only) set(CURLOPT_NOBODY, 1L);
  if (request_.first_byte > 0) set(CURLOPT_RANGE, fmt::format("{}-", request_.first_byte).c_str());
  if (const char* file = std::getenv("SSL_CERT_FILE"); file != nullptr && *file != '\0') set(CURLOPT_CAINFO, file);
  return result;
}

HttpOutcome HttpClient::Transfer::run() {
  CURLcode code = prepare();
  if (code == CURLE_OK) code = curl_easy_perform(handle_);
  long http_code = 0;
  curl_off_t wait_s = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &http_code);
  curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &wait_s);
  answer_.code = static_cast<int>(http_code);
  answer_.retry_after_s = wait_s;
  HttpOutcome outcome{.answer = answer_};
  if (code == CURLE_OK || has_enough_) return outcome;
  if (is_interrupted()) {
    outcome.status = Status(StatusCode::kCancelled, "interrupted");
  } else if (!sink_status_.ok()) {
    outcome.status = sink_status_;
  } else {
    outcome.status = trouble(code);
    outcome.may_pass = is_stalled_ || is_passing_trouble(code);
  }
  return outcome;
}

std::string HttpClient::Transfer::redirect() const {
  constexpr std::array kCodes{301, 302, 303, 307, 308};
  if (std::ranges::find(kCodes, answer_.code) == kCodes.end()) return "";
  return resolved(request_.url, std::string(answer_.header("location")));
}

Status HttpClient::Transfer::trouble(CURLcode code) const {
  const std::string_view url = without_query(request_.url);
  if (is_stalled_) return unavailable(fmt::format("{}: nothing came for {} s", url, stall_s_));
  const char* what = error_[0] != '\0' ? error_.data() : curl_easy_strerror(code);
  if (is_certificate_trouble(code)) {
    return unavailable(
        fmt::format("{}: the server's certificate is not trusted: {}; install the certificates (Debian: "
                    "ca-certificates), or name a file of them with SSL_CERT_FILE",
                    url, what));
  }
  return unavailable(
      fmt::format("{}: {}; is the network there? (a proxy is named with https_proxy, another hub with "
                  "HF_ENDPOINT)",
                  url, what));
}

void HttpClient::Transfer::keep_header(std::string_view line) {
  if (line.starts_with("HTTP/")) answer_.headers.clear();  // an interim answer came before
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  answer_.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
}

size_t HttpClient::Transfer::take_header(char* data, size_t /*size*/, size_t n_bytes, void* self) try {
  auto* transfer = static_cast<Transfer*>(self);
  transfer->last_sign_ = Clock::now();
  transfer->header_bytes_ += n_bytes;
  if (transfer->header_bytes_ > kMaxHeaderBytes) return 0;
  transfer->keep_header({data, n_bytes});
  return n_bytes;
} catch (...) {
  static_cast<Transfer*>(self)->sink_status_ = caught_status("an answer's header");
  return 0;
}

size_t HttpClient::Transfer::take_body(char* data, size_t /*size*/, size_t n_bytes, void* self) try {
  auto* transfer = static_cast<Transfer*>(self);
  transfer->last_sign_ = Clock::now();
  long code = 0;
  curl_easy_getinfo(transfer->handle_, CURLINFO_RESPONSE_CODE, &code);
  transfer->answer_.code = static_cast<int>(code);
  transfer->has_enough_ = !transfer->answer_.is_success();
  if (transfer->has_enough_) return 0;
  transfer->sink_status_ = transfer->sink_(transfer->answer_, {data, n_bytes});
  return transfer->sink_status_.ok() ? n_bytes : 0;
} catch (...) {
  static_cast<Transfer*>(self)->sink_status_ = caught_status("an answer's body");
  return 0;
}

/// libcurl's own watch over slow transfers averages over seconds.
int HttpClient::Transfer::look_around(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto* transfer = static_cast<Transfer*>(self);
  transfer->is_stalled_ = Clock::now() - transfer->last_sign_ >= std::chrono::seconds(transfer->stall_s_);
  return is_interrupted() || transfer->is_stalled_ ? 1 : 0;
}

HttpClient::HttpClient(int64_t stall_s) : stall_s_(stall_s) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  handle_ = curl_easy_init();
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(handle_);
  curl_global_cleanup();
}

HttpOutcome HttpClient::send(const HttpRequest& request, const HttpSink& sink) {
  if (handle_ == nullptr) return {.status = resource_exhausted("libcurl does not start; is there memory left?")};
  HttpRequest step = request;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    Transfer transfer(handle_, step, sink, stall_s_);
    HttpOutcome outcome = transfer.run();
    std::string target = transfer.redirect();
    if (!outcome.status.ok() || target.empty()) return outcome;
    const std::string origin = origin_of(target);
    const bool is_other = !is_same_origin(step.url, target);
    if (is_other && request.is_head_only) return outcome;
    const bool is_safe =
        origin.starts_with("https://") || (origin.starts_with("http://") && !step.url.starts_with("https:"));
    if (!is_safe) {
      outcome.status = unavailable(
          fmt::format("{}: redirects to {}, which is not followed", without_query(step.url), without_query(target)));
      return outcome;
    }
    if (is_other) step.token.clear();  // never again, wherever it leads
    step.url = std::move(target);
  }
  return {.status = unavailable(
              fmt::format("{}: is redirected more than {} times", without_query(request.url), kMaxRedirects))};
}

bool is_same_origin(const std::string& a, const std::string& b) {
  const std::string origin = origin_of(a);
  return !origin.empty() && origin == origin_of(b);
}

std::string url_quoted(std::string_view text, bool keeps_slashes) {
  constexpr std::string_view kPlain = "-._~";
  std::string quoted;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte < 0x80 && std::isalnum(byte) != 0) || kPlain.find(c) != kPlain.npos;
    if (is_plain || (keeps_slashes && c == '/')) {
      quoted += c;
    } else {
      quoted += fmt::format("%{:02X}", byte);
    }
  }
  return quoted;
}

}  // namespace bass
