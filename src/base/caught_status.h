// What a library or the allocator throws becomes a Status at the borders that promise one.
#pragma once

#include <string_view>

#include "bass/status.h"

namespace bass {

/// The Status of the exception being handled, as "what: its text": kResourceExhausted for want of memory or threads,
/// else kInternal. To be called in a catch clause. Where not even the message finds memory, it is shortened.
Status caught_status(std::string_view what) noexcept;

}  // namespace bass
