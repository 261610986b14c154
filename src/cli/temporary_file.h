// A file that gets its name only when it is complete.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bass/status.h"

namespace bass {

/// A file beside its later place, under another name; it is removed unless it was kept. It is locked while it is
/// written, so that one left by a process that was killed is known, and removed when another takes the same place.
class TemporaryFile {
 public:
  /// Error (kResourceExhausted): the folder cannot be written.
  static Result<std::unique_ptr<TemporaryFile>> create(const std::string& beside);

  TemporaryFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();

  Status write_all(std::span<const char> bytes);
  [[nodiscard]] int fd() const { return fd_; }

  /// Takes space for so many bytes; true where the file system cannot say. False (and errno): there is too little.
  [[nodiscard]] bool reserve(int64_t n_bytes) const;

  /// The file is complete on the disk before its name is: no crash leaves half a file under the final name.
  Status keep_as(const std::string& target, mode_t mode);

 private:
  int fd_;
  std::string path_;
};

/// "PATH: cannot be written: ..." after a failed call; kResourceExhausted.
Status disk_error(const std::string& path);

/// Writes all bytes, however many calls that takes. Error: as disk_error.
Status write_all(int fd, std::span<const char> bytes, const std::string& path);

/// Puts a new name in the path's folder on the disk too. Some file systems cannot do that; the file is whole all the
/// same.
void sync_folder_of(const std::string& path);

}  // namespace bass
