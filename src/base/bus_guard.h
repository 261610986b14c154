// Mapped files whose bytes go away: reading a page of a file that another program truncated meanwhile, or that the disk
// cannot deliver, is a SIGBUS. Files are mapped and not read into memory because weights are packed straight from the
// page cache; so the signal is handled: the reader sees zeros, and the file is reported as damaged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bass {

/// A mapping under guard. Nodes are never freed, only used again, so that the signal handler may walk them at any time.
struct GuardedRange {
  std::atomic<uintptr_t> begin{0};  ///< 0: not in use
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> has_faulted{false};
  GuardedRange* next = nullptr;
};

/// Guards a mapping until `unguard`, which must come before it is unmapped. The first call puts the process's SIGBUS
/// handler in place; faults elsewhere go to the handler that was there before. Thread-safe.
GuardedRange* guard_mapping(const std::byte* begin, size_t n_bytes);
void unguard(GuardedRange* range);

}  // namespace bass
