// Ctrl-C and friends: the first SIGINT or SIGTERM asks the command to stop, the second ends the process at once.
#pragma once

namespace bass {

/// Installs the handlers, and ignores SIGPIPE so that a closed pipe is a failed write. Call once, at the start of main.
void install_signal_handlers();

/// Whether SIGINT or SIGTERM has come.
bool is_interrupted();

/// Tells the handler that the cursor of standard error's terminal is hidden, so that a sudden end shows it again.
void set_cursor_hidden(bool is_hidden);

}  // namespace bass
