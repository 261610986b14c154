#include "cli/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "cli/interrupt.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

bool environment_is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || *term == '\0' || std::strcmp(term, "dumb") == 0;
}

/// Whether there is room soon.
bool is_read(int fd) {
  constexpr int kPatienceMs = 500;
  pollfd one{fd, POLLOUT, 0};
  int n_ready = 0;
  do {
    n_ready = poll(&one, 1, kPatienceMs);
  } while (n_ready < 0 && errno == EINTR);
  return n_ready > 0;
}

}  // namespace

Output::Output(int fd)
    : fd_(fd),
      is_terminal_(isatty(fd) == 1),
      has_cursor_(is_terminal_ && !is_dumb_terminal()),
      has_color_(has_cursor_ && !environment_is_set("NO_COLOR")) {}

void wait_until(short events, int fd) {  // NOLINT(google-runtime-int): poll's type
  pollfd one{fd, events, 0};
  poll(&one, 1, -1);
}

// A SIGTERM that comes while this waits, and nobody reads, ends the waiting; where one came before, what is written is
// what there was when it came.
void Output::write(std::string_view bytes) {
  const bool had_to_end = must_end();
  while (!bytes.empty() && status_.ok()) {
    const bool is_ending = must_end() && !had_to_end;
    if (is_ending && !is_read(fd_)) {
      if (fd_ != STDERR_FILENO) status_ = Status(StatusCode::kCancelled, "interrupted");  // which is told there
      return;
    }
    const size_t n_bytes = is_ending ? std::min(bytes.size(), size_t{PIPE_BUF}) : bytes.size();  // for so many is room
    const ssize_t n_written = ::write(fd_, bytes.data(), n_bytes);
    if (n_written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n_written));
    } else if (errno == EAGAIN) {
      wait_until(POLLOUT, fd_);
    } else if (errno != EINTR) {
      is_closed_ = errno == EPIPE;
      const char* stream = fd_ == 1 ? "standard output" : "standard error";
      status_ = resource_exhausted(fmt::format("cannot write to {}: {}", stream, std::strerror(errno)));
    }
  }
}

TerminalSize Output::size() const {
  winsize size{};
  TerminalSize result;
  if (ioctl(fd_, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) result.n_columns = size.ws_col;
    if (size.ws_row > 0) result.n_rows = size.ws_row;
  }
  return result;
}

int exit_code(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitDone;
    case StatusCode::kInvalidArgument:
    case StatusCode::kInvalidFile:
      return kExitUsage;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
    case StatusCode::kInternal:
      return kExitFailed;
  }
  return kExitFailed;
}

int fail(Console* console, const Status& status) {
  console->err.write(fmt::format("error: {}\n", one_line_for_terminal(status.message())));
  return exit_code(status);
}

int finish(Console* console) {
  const int code = finish(console, ok_status());
  return code == kExitDone && is_interrupted() ? kExitInterrupted : code;
}

int finish(Console* console, const Status& status) {
  if (!status.ok()) return fail(console, status);
  if (console->out.is_closed()) return kExitFailed;  // whoever closed it knows
  return console->out.status().ok() ? kExitDone : fail(console, console->out.status());
}

int finish(Console* console, std::string_view result) {
  if (is_interrupted()) return fail(console, Status(StatusCode::kCancelled, "interrupted"));
  console->out.write(result);
  return finish(console);
}

}  // namespace bass
