#include "cli/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace bass {
Status disk_error(const std::string& path) {
  return resource_exhausted(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

Status write_all(int fd, std::span<const char> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n_written = write(fd, bytes.data(), bytes.size());
    if (n_written < 0 && errno == EINTR) continue;
    if (n_written < 0) return disk_error(path);
    bytes = bytes.subspan(static_cast<size_t>(n_written));
  }
  return ok_status();
}

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

Result<std::unique_ptr<TemporaryFile>> TemporaryFile::create(const std::string& beside) {
  std::string path = beside + ".XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return disk_error(beside);
  return std::make_unique<TemporaryFile>(fd, std::move(path));
}

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) close(fd_);
  if (!path_.empty()) unlink(path_.c_str());
}

Status TemporaryFile::write_all(std::span<const char> bytes) { return bass::write_all(fd_, bytes, path_); }

bool TemporaryFile::reserve(int64_t n_bytes) const {
  return fallocate(fd_, 0, 0, n_bytes) == 0 || (errno != ENOSPC && errno != EFBIG && errno != EDQUOT);
}

Status TemporaryFile::keep_as(const std::string& target, mode_t mode) {
  if (fchmod(fd_, mode) != 0 || fsync(fd_) != 0) return disk_error(path_);
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0 || rename(path_.c_str(), target.c_str()) != 0) return disk_error(target);
  path_.clear();
  sync_folder_of(target);
  return ok_status();
}

}  // namespace bass
