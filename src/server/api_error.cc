#include "server/api_error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace bass {

std::string ApiError::body() const {
  using Json = nlohmann::ordered_json;
  constexpr size_t kMaxBytes = 2000;  // messages repeat what was wrong, which may be of any length
  const Json error{{"message", message.size() > kMaxBytes ? message.substr(0, kMaxBytes) + "..." : message},
                   {"type", type},
                   {"param", nullptr},
                   {"code", code.empty() ? Json() : Json(code)}};
  return Json{{"error", error}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ApiError api_error(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
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
          fmt::format("model \"{}\" is not served here, but \"{}\"", asked, served)};
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

ApiError not_http_error(const std::string& what) {
  return {400, "invalid_request_error", "", fmt::format("not valid HTTP: {}", what)};
}

ApiError unknown_path_error(const std::string& method, const std::string& path) {
  return {
      404, "invalid_request_error", "not_found",
      fmt::format("{} {}: there is no such endpoint; POST /v1/chat/completions and /v1/completions, GET /v1/models, "
                  "/health and /metrics",
                  method, path)};
}

ApiError too_many_calls_error(int max_calls) {
  return {429, "rate_limit_error", "too_many_calls",
          fmt::format("{} calls run or wait already; try again later", max_calls)};
}

ApiError ending_error() { return {503, "server_error", "unavailable", "the server is ending"}; }

}  // namespace bass
