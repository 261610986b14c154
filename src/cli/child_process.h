// Running another program, without a shell.
#pragma once

#include <string>
#include <vector>

#include "bass/status.h"

namespace bass {

/// Runs arguments[0], found on the PATH, with its standard output sent to our standard error, and waits for it. The
/// child is in our process group, so Ctrl-C reaches it too. The exit code (128 + signal for a signal's death).
/// Error (kUnavailable): the program cannot be started.
Result<int> run_child(const std::vector<std::string>& arguments);

}  // namespace bass
