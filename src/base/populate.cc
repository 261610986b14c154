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

// 0 or an errno.
int populate_part(uintptr_t begin, uintptr_t end) {
  auto* data = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  while (::madvise(data, end - begin, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINVAL) return 0;  // an older kernel
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

}  // namespace

Status populate(std::byte* data, size_t n_bytes, int n_threads) {
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = first / page_bytes * page_bytes;
  const uintptr_t end = (first + n_bytes + page_bytes - 1) / page_bytes * page_bytes;
  std::atomic<uintptr_t> next{begin / kPartBytes};
  std::atomic<int> error{0};
  const auto work = [&] {
    for (;;) {
      const uintptr_t part = next++;
      if (part * kPartBytes >= end || error != 0) return;
      const int failed = populate_part(std::max(begin, part * kPartBytes), std::min(end, (part + 1) * kPartBytes));
      if (failed != 0) error = failed;
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (int i = 1; i < n_threads; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // fewer threads do as well
    }
    work();
  }
  if (error == 0) return ok_status();
  return resource_exhausted(
      fmt::format("no memory for {} MiB: {}", n_bytes >> 20, std::generic_category().message(error)));
}

}  // namespace bass
