#include "base/bus_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>

namespace bass {
namespace {

// A signal's disposition belongs to the process, and its handler has no other way to what it needs.
std::atomic<GuardedRange*> g_ranges{nullptr};
struct sigaction g_previous {};
uintptr_t g_page_bytes = 0;

/// Zeros from the page that could not be read to the end of the mapping: what was cut off has no other bytes behind it.
bool replace_by_zeros(GuardedRange* range, std::byte* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  std::byte* page = at - address % g_page_bytes;
  const size_t n_bytes = range->end.load() - reinterpret_cast<uintptr_t>(page);
  range->has_faulted.store(true);
  return ::mmap(page, n_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (GuardedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    const uintptr_t begin = range->begin.load();
    if (info->si_code <= 0 || begin == 0 || at < begin || at >= range->end.load()) continue;
    if (!replace_by_zeros(range, static_cast<std::byte*>(info->si_addr))) break;
    errno = saved_errno;
    return;
  }
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    ::sigaction(SIGBUS, &g_previous, nullptr);
    ::raise(signal);  // comes when this handler has returned, and now the default happens
  }
  errno = saved_errno;
}

void install_handler() {
  g_page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &g_previous);
}

}  // namespace

GuardedRange* guard_mapping(const std::byte* begin, size_t n_bytes) {
  static std::once_flag once;
  static std::mutex mutex;
  std::call_once(once, install_handler);
  const std::lock_guard lock(mutex);
  GuardedRange* range = g_ranges.load();
  while (range != nullptr && range->begin.load() != 0) range = range->next;
  if (range == nullptr) {
    range = new GuardedRange();
    range->next = g_ranges.load();
    g_ranges.store(range);
  }
  range->has_faulted.store(false);
  const auto first = reinterpret_cast<uintptr_t>(begin);
  range->end.store((first + n_bytes + g_page_bytes - 1) / g_page_bytes * g_page_bytes);
  range->begin.store(first);
  return range;
}

void unguard(GuardedRange* range) { range->begin.store(0); }

}  // namespace bass
