// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace bass {

/// Bytes that can be allocated without swapping: what the system calls available (free and reclaimable memory), or what
/// this process's control group leaves, if that is less.
int64_t available_memory_bytes();

}  // namespace bass
