// Status and Result<T>: how everything that a user, a file or the network can cause is reported.
// Neither throws; both are cheap to move. A Status is thread-compatible (as an int is).
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace bass {

enum class StatusCode {
  kOk,
  kInvalidArgument,    ///< an option or a request is wrong; mending it needs the caller
  kInvalidFile,        ///< a file is missing, broken or of another kind than needed
  kResourceExhausted,  ///< memory, disk or KV budget; the message says how much was needed
  kCancelled,
  kUnavailable,  ///< the engine is shutting down, the network did not answer, ...
  kInternal,     ///< a defect of ours that was caught at the border
};

/// The outcome of an operation: ok, or a code and a sentence that names the thing and the mend.
class [[nodiscard]] Status {
 public:
  Status() = default;  ///< ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status ok_status() { return {}; }
inline Status invalid_argument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
inline Status invalid_file(std::string message) { return {StatusCode::kInvalidFile, std::move(message)}; }
inline Status resource_exhausted(std::string message) { return {StatusCode::kResourceExhausted, std::move(message)}; }
inline Status unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
inline Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

/// A value or the Status that says why there is none. `value()` must only be called when `ok()`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] T& value() & { return *value_; }
  [[nodiscard]] const T& value() const& { return *value_; }
  /// By value: a reference into a temporary would dangle.
  [[nodiscard]] T value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace bass
