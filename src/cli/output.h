// Writing to standard output and standard error with errors noticed, and knowing what the stream can show.
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

struct TerminalSize {
  int n_columns = 80;
  int n_rows = 24;
};

/// Waits until a descriptor that must not block (O_NONBLOCK, which a process may have from whoever shares it) takes or
/// has bytes again, or a signal comes. events: poll's
void wait_until(short events, int fd);  // NOLINT(google-runtime-int)

/// A file descriptor that results are written to. Does not own it. Once a write has failed, further ones are dropped
/// and `status` keeps the first error.
class Output {
 public:
  explicit Output(int fd);

  void write(std::string_view bytes);
  [[nodiscard]] const Status& status() const { return status_; }
  /// Nobody reads it any more: `bass ... | head -1` got what it wanted.
  [[nodiscard]] bool is_closed() const { return is_closed_; }

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  /// A terminal that obeys control sequences (TERM is not "dumb").
  [[nodiscard]] bool has_cursor() const { return has_cursor_; }
  /// Colours are wanted: a terminal with a cursor, and NO_COLOR is not set.
  [[nodiscard]] bool has_color() const { return has_color_; }
  [[nodiscard]] TerminalSize size() const;

 private:
  int fd_;
  bool is_terminal_;
  bool has_cursor_;
  bool has_color_;
  bool is_closed_ = false;
  Status status_;
};

/// Both streams of the process.
struct Console {
  Output out{1};
  Output err{2};
};

/// Exit codes (docs/command_line.md).
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

int exit_code(const Status& status);

/// Prints "error: MESSAGE" to standard error, on one line and without control characters, and gives the exit code of
/// the status.
int fail(Console* console, const Status& status);

/// The exit code of a command that has written all its results: kExitDone, or what a failed write or a signal asks for.
int finish(Console* console);

/// The exit code of a command whose result is a file, which is there if `status` is OK: an interrupt that came after
/// that changes nothing. Prints an error.
int finish(Console* console, const Status& status);

/// Writes a command's whole result and finishes. A command that a signal has asked to stop has no result.
int finish(Console* console, std::string_view result);

}  // namespace bass
