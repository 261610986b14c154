// Files that a user named for a result: whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

class TemporaryFile;

/// A file that is written piece by piece, beside the path, and takes the path's place when it is complete; through a
/// symbolic link, and with the permissions that the file had. Without `keep` nothing is left. What is no regular file
/// (a pipe, /dev/null) is written as it is. Errors (kResourceExhausted) name the path.
class SavedFile {
 public:
  static Result<std::unique_ptr<SavedFile>> create(const std::string& path);
  SavedFile(const SavedFile&) = delete;
  SavedFile& operator=(const SavedFile&) = delete;
  ~SavedFile();

  /// Takes the disk space now, where the file system can, so that a full disk is known before the work is done.
  Status reserve(int64_t n_bytes);
  Status write(std::span<const char> bytes);
  /// The file is complete on the disk before it has its name.
  Status keep();

 private:
  SavedFile() = default;

  std::string path_;
  std::string target_;  // symbolic links are resolved
  unsigned mode_ = 0;
  std::unique_ptr<TemporaryFile> temporary_;  // none: a special file, open as fd_
  int fd_ = -1;
};

/// Whether a SavedFile could be written to the path now; known before the work is done. Error: kInvalidArgument.
/// flag: the option that the path was given with.
Status check_save_path(std::string_view flag, const std::string& path);

/// Whether two paths name one file, which need not be there.
bool is_same_file(const std::string& a, const std::string& b);

/// --save: what `write` writes becomes a SavedFile.
Status save_file(const std::string& path, const std::function<Status(SavedFile*)>& write);

}  // namespace bass
