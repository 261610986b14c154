// How a text that is too long is told from other invalid arguments.
#pragma once

#include <string_view>

#include "bass/status.h"

namespace bass {

/// In the message of every error that says that a text is longer than the context.
inline constexpr std::string_view kContextHolds = "but the context holds";

inline bool is_context_error(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument && status.message().find(kContextHolds) != std::string::npos;
}

}  // namespace bass
