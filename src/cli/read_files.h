// What a command reads must not be what it writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

struct ReadFiles {
  std::vector<std::string> models;  ///< as -m takes them; empty: none
  std::vector<std::string> files;   ///< "-": standard input; empty: none
  bool with_folders = false;        ///< of checkpoints whatever lies in their folders, but for GGUF files
};

/// Known before anything is read. Error (kInvalidArgument): the path, which the option `flag` names, is one of these
/// files, or of a model's.
Status check_not_read(std::string_view flag, const std::string& path, const ReadFiles& read);

}  // namespace bass
