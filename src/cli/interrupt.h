// Ctrl-C and friends: the first SIGINT, SIGTERM, SIGHUP or SIGQUIT asks the command to stop, one that comes half a
// second later or more ends the process at once.
#pragma once

#include <chrono>

#include "bass/status.h"

namespace bass {

/// Installs the handlers, and ignores SIGPIPE and SIGXFSZ so that a closed pipe and a file at its size limit are failed
/// writes. Where SIGHUP (nohup), SIGINT or SIGQUIT (a shell script's `command &`) was ignored already it stays ignored.
/// Call once, first thing in main.
void install_signal_handlers();

/// Whether one of these signals has come.
bool is_interrupted();
/// kCancelled if so.
Status check_interrupted();

/// How long at most whoever waits for something else goes without looking.
constexpr std::chrono::duration<double> kPollInterval{0.05};

/// After so long without an answer, an engine that was to cancel what runs is not waited for.
constexpr std::chrono::seconds kMaxCancelling{10};

/// Whether another of them than Ctrl-C has come: not what runs is to end, but the process.
bool must_end();

/// Forgets a Ctrl-C that has been obeyed, so that the next one asks again. False when another of these signals came:
/// the command must stop.
bool forget_interrupt();

/// Tells the handler that the cursor of standard error's terminal is hidden, so that a sudden end shows it again.
void set_cursor_hidden(bool is_hidden);

}  // namespace bass
