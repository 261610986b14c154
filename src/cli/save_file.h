// --save: a result in a file, whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

/// Whether `save_file` could write to the path now; known before the work is done. Error: kInvalidArgument.
Status check_save_path(const std::string& path);

/// Writes the text beside the path and renames it, so that a file is never half new; through a symbolic link, and with
/// the permissions that the file had. What is no regular file (a pipe, /dev/null) is written as it is.
Status save_file(const std::string& path, std::string_view text);

}  // namespace bass
