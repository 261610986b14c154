// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "bass/status.h"

namespace bass {

/// Owns a read-only private mapping of a regular file. Movable. Thread-safe after construction.
class MappedFile {
 public:
  /// Errors (kInvalidFile, naming the path): missing, unreadable, a directory, FIFO or device, empty.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Tells the kernel that this part will not be read again, so that it leaves the process's resident memory.
  void release(std::span<const std::byte> part) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::string path_;
};

}  // namespace bass
