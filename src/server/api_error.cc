#include "server/api_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/context_error.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// Messages about a key begin with it.
Json param_of(std::string_view message) {
  const size_t end = message.find('"', 1);
  if (!message.starts_with('"') || end == message.npos) return nullptr;
  return message.substr(1, end - 1);
}

}  // namespace

std::string ApiError::body() const {
  constexpr size_t kMaxBytes = 2000;  // messages repeat what was wrong, which may be of any length
  const Json error{{"message", message.size() > kMaxBytes ? message.substr(0, kMaxBytes) + "..." : message},
                   {"type", type},
                   {"param", param.empty() ? param_of(message) : Json(param)},
                   {"code", code.empty() ? Json() : Json(code)}};
  return json_line({{"error", error}});
}

ApiError api_error(const Status& status, const std::string& text_key) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      // The words by which clients tell it from other errors.
      if (is_context_error(status))
        return {.http_status = 400,
                .type = "invalid_request_error",
                .code = "context_length_exceeded",
                .message = "this model's maximum context length is exceeded: " + status.message(),
                .param = text_key};
      return {400, "invalid_request_error", "", status.message()};
    case StatusCode::kResourceExhausted:
      return {503, "server_error", "out_of_memory", status.message()};
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return {503, "server_error", "unavailable", status.message()};
    default:
      return {500, "server_error", "", status.message()};
  }
}

ApiError wrong_key_error() {
  return {401, "invalid_request_error", "invalid_api_key",
          "this server wants its key: send the header \"Authorization: Bearer KEY\""};
}

ApiError unknown_model_error(const std::string& asked, const std::string& served) {
  return {404, "invalid_request_error", "model_not_found",
          fmt::format("\"model\" \"{}\": is not served here, but \"{}\"", asked, served)};
}

ApiError too_large_error(size_t max_bytes) {
  return {413, "invalid_request_error", "", fmt::format("the body has more than {} MiB", max_bytes >> 20)};
}

ApiError too_many_bodies_error() {
  return {503, "server_error", "unavailable",
          "the bodies of other calls take all the room that there is; try again later"};
}

ApiError too_many_samples_error(int64_t max_samples) {
  return {429, "rate_limit_error", "too_many_samples",
          fmt::format("with this call more than {} samples would run or wait; try again later", max_samples)};
}

ApiError not_http_error() {
  return {400, "invalid_request_error", "", "this is not an HTTP/1.1 request, or it is damaged"};
}

ApiError not_encrypted_error() {
  return {400, "invalid_request_error", "", "this port speaks plain HTTP, not HTTPS: begin the address with http://"};
}

ApiError large_head_error(size_t max_bytes) {
  return {431, "invalid_request_error", "",
          fmt::format("the request's headers have more than {} KiB", max_bytes >> 10)};
}

ApiError wrong_method_error(const std::string& method, const std::string& path, const std::string& allowed) {
  return {405, "invalid_request_error", "method_not_allowed", fmt::format("{} {}: wants {}", method, path, allowed),
          allowed};
}

ApiError unknown_path_error(const std::string& method, const std::string& path) {
  return {404, "invalid_request_error", "not_found",
          fmt::format("{} {}: there is no such endpoint; POST /v1/chat/completions, /v1/completions, "
                      "/v1/responses, /tokenize and "
                      "/detokenize, GET /v1/models, /health and /metrics",
                      method, path)};
}

ApiError too_many_calls_error(int max_calls) {
  return {429, "rate_limit_error", "too_many_calls",
          fmt::format("{} calls run or wait already; try again later", max_calls)};
}

ApiError ending_error() { return {503, "server_error", "unavailable", "the server is ending"}; }

}  // namespace bass
