// BASS_CHECK for our own bugs (never for input), and the two macros that pass a Status on.
#pragma once

#include "bass/status.h"

namespace bass {

/// Prints the failed condition and ends the process. Only defects of BASS itself come here.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace bass

#define BASS_CHECK(condition) ((condition) ? (void)0 : ::bass::check_failed(#condition, __FILE__, __LINE__))

#define BASS_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                       \
    if (::bass::Status bass_status_ = (expression); !bass_status_.ok()) return bass_status_; \
  } while (false)

#define BASS_CONCAT_INNER(a, b) a##b
#define BASS_CONCAT(a, b) BASS_CONCAT_INNER(a, b)
#define BASS_ASSIGN_OR_RETURN_IMPL(result, lhs, expression) \
  auto result = (expression);                               \
  if (!result.ok()) return result.status();                 \
  lhs = std::move(result).value()
/// `BASS_ASSIGN_OR_RETURN(auto file, open(path));`: the value of a Result, or return its Status.
#define BASS_ASSIGN_OR_RETURN(lhs, expression) \
  BASS_ASSIGN_OR_RETURN_IMPL(BASS_CONCAT(bass_result_, __LINE__), lhs, expression)
