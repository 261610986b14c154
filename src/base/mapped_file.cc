#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bus_guard.h"

namespace bass {

void release_pages(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(part.data());
  const size_t n_before = (page - address % page) % page;
  if (part.size() < n_before + page) return;
  const size_t n_bytes = (part.size() - n_before) / page * page;
  auto* begin = const_cast<std::byte*>(part.data()) + n_before;
  ::madvise(begin, n_bytes, MADV_DONTNEED);  // a hint: failure is harmless
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return invalid_file(fmt::format("{}: cannot open: {}", path, std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid_file(fmt::format("{}: is {}, need a regular file", path,
                                    S_ISDIR(info.st_mode) ? "a directory" : "a FIFO or device"));
  }
  if (info.st_size == 0) {
    ::close(fd);
    return invalid_file(fmt::format("{}: is empty", path));
  }
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  const int map_errno = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    const StatusCode code = map_errno == ENOMEM ? StatusCode::kResourceExhausted : StatusCode::kInvalidFile;
    return Status(code, fmt::format("{}: cannot map its {} bytes: {}", path, info.st_size, std::strerror(map_errno)));
  }
  MappedFile file;
  file.data_ = static_cast<const std::byte*>(data);
  file.size_bytes_ = static_cast<size_t>(info.st_size);
  file.path_ = path;
  file.guard_ = guard_mapping(file.data_, file.size_bytes_);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(path_, other.path_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (guard_ != nullptr) unguard(guard_);  // there was no memory for one
  ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

Status MappedFile::check_intact() const {
  if (guard_ == nullptr || !guard_->has_faulted.load()) return ok_status();
  return invalid_file(fmt::format(
      "{}: its bytes went away while it was read: another program truncated it, or the disk failed", path_));
}

}  // namespace bass
