// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "bass/status.h"

namespace bass {

struct GuardedRange;

/// Tells the kernel that this part of a mapping or buffer will not be read again, so that it leaves the process's
/// resident memory.
void release_pages(std::span<const std::byte> part);

/// Owns a read-only private mapping of a regular file. Movable. Thread-safe after construction. Bytes that go away
/// while it is open (truncated by another program, a disk that fails) read as zeros.
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

  /// Error (kInvalidFile): bytes went away while they were read, so what was made of them is worthless.
  [[nodiscard]] Status check_intact() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::string path_;
  GuardedRange* guard_ = nullptr;
};

}  // namespace bass
