// Errors as the API tells them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bass/status.h"

namespace bass {

struct ApiError {
  int http_status = 500;
  std::string type;  ///< "invalid_request_error", ...
  std::string code;  ///< "model_not_found", ...; empty: null
  std::string message;
  std::string allowed = {};  ///< methods of a path, of 405
  std::string param = {};    ///< the key that it is about; empty: the one that the message begins with in quotes

  /// {"error": {...}}
  [[nodiscard]] std::string body() const;
};

/// text_key: where the call has its text, "messages" or "prompt", for errors of an engine that knows no keys.
ApiError api_error(const Status& status, const std::string& text_key = "");
ApiError wrong_key_error();
ApiError unknown_model_error(const std::string& asked, const std::string& served);
ApiError unknown_path_error(const std::string& method, const std::string& path);
ApiError wrong_method_error(const std::string& method, const std::string& path, const std::string& allowed);
ApiError too_many_calls_error(int max_calls);
ApiError too_many_bodies_error();
ApiError too_many_samples_error(int64_t max_samples);
ApiError too_large_error(size_t max_bytes);
ApiError not_http_error();
ApiError not_encrypted_error();
ApiError large_head_error(size_t max_bytes);
ApiError ending_error();

}  // namespace bass
