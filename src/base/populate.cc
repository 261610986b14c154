#include "base/populate.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace bass {
namespace {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

constexpr uintptr_t kPartBytes = uintptr_t{2} << 20;  // whole huge pages

void* pointer_of(uintptr_t address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

// 0, or the errno that says that there is no memory: whatever else is in the way, it comes at its first touch.
int populate_part(uintptr_t begin, uintptr_t end) {
  constexpr int kMaxTries = 100;
  for (int i = 0; i < kMaxTries && ::madvise(pointer_of(begin), end - begin, MADV_POPULATE_WRITE) != 0; ++i) {
    if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) return errno;
    if (errno != EINTR && errno != EAGAIN) return 0;
  }
  return 0;
}

// The system's pages that hold a part of memory.
struct Pages {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
const auto kPageBytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));

Pages pages_of(std::span<const std::byte> memory) {
  const auto first = reinterpret_cast<uintptr_t>(memory.data());
  return {first / kPageBytes * kPageBytes, (first + memory.size() + kPageBytes - 1) / kPageBytes * kPageBytes};
}

}  // namespace

size_t absent_bytes(std::span<const std::byte> memory) {
  const auto [begin, end] = pages_of(memory);
  std::vector<unsigned char> states(kPartBytes / kPageBytes);
  size_t n_absent = 0;
  for (uintptr_t at = begin; at < end; at += kPartBytes) {
    const uintptr_t n = std::min(end - at, kPartBytes);
    if (::mincore(pointer_of(at), n, states.data()) != 0) return memory.size();
    const auto n_pages = static_cast<std::ptrdiff_t>(n / kPageBytes);
    n_absent += static_cast<size_t>(
        std::count_if(states.begin(), states.begin() + n_pages, [](unsigned char state) { return (state & 1) == 0; }));
  }
  return n_absent * kPageBytes;
}

Status populate(std::span<std::byte> memory, int n_threads) {
  const auto [begin, end] = pages_of(memory);
  std::atomic<uintptr_t> next{begin / kPartBytes};
  std::atomic<int> error{0};
  const auto work = [&, begin = begin, end = end] {
    for (uintptr_t part = next++; part * kPartBytes < end && error == 0; part = next++) {
      const int failed = populate_part(std::max(begin, part * kPartBytes), std::min(end, (part + 1) * kPartBytes));
      if (failed != 0) error = failed;
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      const uintptr_t n_parts = (end - begin) / kPartBytes;  // of less a thread is not worth its start
      for (uintptr_t i = 1; i < std::min<uintptr_t>(n_parts, static_cast<uintptr_t>(n_threads)); ++i) {
        helpers.emplace_back(work);
      }
    } catch (const std::system_error&) {  // fewer threads do as well
    }
    work();
  }
  if (error == 0) return ok_status();
  return resource_exhausted(
      fmt::format("no memory for {} MiB: {}", memory.size() >> 20, std::generic_category().message(error)));
}

}  // namespace bass
