// Asking for memory before it is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bass {

/// Asks for a cache line that is going to be written to, so that no other processor holds it when it is: who only reads
/// it would have to be told later, while stores wait in their order. Inlined everywhere: files of different instruction
/// sets share no code.
static inline __attribute__((always_inline)) void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  // Processors that lack it do nothing. The compiler would ask for reading, unless it is told of each such processor.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

static inline __attribute__((always_inline)) void prefetch_to_write(const void* begin, size_t n_bytes) {
  constexpr size_t kLineBytes = 64;
  if (n_bytes == 0) return;
  const auto* bytes = static_cast<const char*>(begin);
  prefetch_to_write(begin);
  const size_t n_of_first = kLineBytes - reinterpret_cast<uintptr_t>(begin) % kLineBytes;
  for (size_t i = n_of_first; i < n_bytes; i += kLineBytes) prefetch_to_write(bytes + i);
}

}  // namespace bass
