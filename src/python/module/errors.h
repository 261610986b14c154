// A Status as the exception of bass.errors that Python sees.
#pragma once

#include <pybind11/pybind11.h>

#include <cctype>
#include <string>
#include <utility>

#include "bass/status.h"
#include "engine/options.h"

namespace bass::python {

namespace py = pybind11;

inline const char* exception_name(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return "InvalidArgumentError";
    case StatusCode::kInvalidFile:
      return "InvalidFileError";
    case StatusCode::kResourceExhausted:
      return "ResourceExhaustedError";
    case StatusCode::kCancelled:
      return "CancelledError";
    case StatusCode::kUnavailable:
      return "UnavailableError";
    case StatusCode::kInternal:
    case StatusCode::kOk:
      break;
  }
  return "InternalError";
}

// Messages name options as the command line spells them: "--kv-memory" is kv_memory here.
inline std::string with_python_names(std::string message) {
  for (const Option& option : options_table()) {
    const std::string flag = option_flag(option);
    for (size_t at = 0; (at = message.find(flag, at)) != std::string::npos; at += option.name.size()) {
      const size_t end = at + flag.size();
      const bool is_longer =
          end < message.size() && (std::isalnum(static_cast<unsigned char>(message[end])) != 0 || message[end] == '-');
      if (flag.starts_with("--") && !is_longer) message.replace(at, flag.size(), option.name);
    }
  }
  constexpr std::string_view kDraftOption = "-d DRAFT.gguf";
  if (const size_t at = message.find(kDraftOption); at != std::string::npos) {
    message.replace(at, kDraftOption.size(), "draft=");
  }
  return message;
}

// Of pybind11's exceptions, as that is how it leaves C++.
[[noreturn]] inline void raise(const Status& status) {
  const py::object type = py::module_::import("bass.errors").attr(exception_name(status.code()));
  PyErr_SetString(type.ptr(), with_python_names(status.message()).c_str());
  throw py::error_already_set();
}

inline void raise_if_error(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace bass::python
