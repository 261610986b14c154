#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "cli/output.h"

namespace bass {
namespace {

// A signal handler can reach nothing but globals; these and base/bus_guard.cc's are the process's only mutable ones.
std::atomic<bool> is_asked{false};
std::atomic<bool> cursor_is_hidden{false};
std::atomic<bool> must_stop{false};  // it was not Ctrl-C
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

// One wish to stop may come as several signals: `timeout` signals the process and its group, a wrapper passes on what
// the terminal has sent to both, a key is hit twice.
constexpr int64_t kSameWishNs = 500'000'000;
std::atomic<int64_t> asked_at_ns{-kSameWishNs};  // when the latest wish came

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // a handler may call it
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void handle_interrupt(int number) {
  const int64_t now = now_ns();
  if (number != SIGINT) must_stop.store(true);
  if (now - asked_at_ns.load() < kSameWishNs) {
    if (number != SIGINT) is_asked.store(true);  // a Ctrl-C may have been obeyed and forgotten
    return;
  }
  asked_at_ns.store(now);  // before it is told: another thread may have the next signal
  if (!is_asked.exchange(true)) return;
  constexpr char kShowCursor[] = "\x1b[?25h\n";
  if (cursor_is_hidden.load()) {
    [[maybe_unused]] const ssize_t n_written = write(STDERR_FILENO, kShowCursor, sizeof kShowCursor - 1);
  }
  _exit(kExitInterrupted);
}

void handle(int signal_number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART: a read from the terminal ends, so that the command can stop
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);
}

bool is_ignored(int signal_number) {
  struct sigaction action {};
  return sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void install_signal_handlers() {
  handle(SIGTERM, handle_interrupt);
  for (const int number : {SIGINT, SIGQUIT, SIGHUP}) {
    if (!is_ignored(number)) handle(number, handle_interrupt);
  }
  for (const int number : {SIGPIPE, SIGXFSZ}) handle(number, SIG_IGN);
}

bool forget_interrupt() {
  if (!must_stop.load()) is_asked.store(false);
  return !must_stop.load();
}

bool is_interrupted() { return is_asked.load(); }

bool must_end() { return must_stop.load(); }

Status check_interrupted() { return is_interrupted() ? Status(StatusCode::kCancelled, "interrupted") : ok_status(); }

void set_cursor_hidden(bool is_hidden) { cursor_is_hidden.store(is_hidden); }

}  // namespace bass
