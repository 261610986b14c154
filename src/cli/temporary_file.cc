#include "cli/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/interrupt.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".bass-tmp";  // so that no file of somebody else is taken for one of these

/// Files for this target whose processes ended without removing them: nobody holds their locks.
void remove_stale(const std::string& target) {
  const fs::path path(target), folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string begin = path.filename().string() + ".";
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    constexpr size_t kRandomLen = 6;
    if (name.size() != begin.size() + kRandomLen + kEnding.size() || !name.starts_with(begin) ||
        !name.ends_with(kEnding)) {
      continue;
    }
    const int fd = open(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(at->path().c_str());
    close(fd);
  }
}

}  // namespace

Status disk_error(const std::string& path) {
  return resource_exhausted(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

Status write_all(int fd, std::span<const char> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n_written = write(fd, bytes.data(), bytes.size());
    if (n_written < 0 && errno == EINTR) {  // a pipe that nobody reads
      if (must_end()) return Status(StatusCode::kCancelled, fmt::format("{}: interrupted", path));
      continue;
    }
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
  remove_stale(beside);  // first, as a full disk may be full of them
  constexpr int kMaxTries = 3;
  for (int n_tries = 1;; ++n_tries) {
    std::string path = fmt::format("{}.XXXXXX{}", beside, kEnding);
    const int fd = mkostemps(path.data(), static_cast<int>(kEnding.size()), O_CLOEXEC);
    if (fd < 0) return disk_error(beside);
    auto file = std::make_unique<TemporaryFile>(fd, std::move(path));
    flock(fd, LOCK_EX);
    struct stat info {};  // who cleared up before it was locked has removed it
    if ((fstat(fd, &info) == 0 && info.st_nlink > 0) || n_tries == kMaxTries) return file;
  }
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
  if (rename(path_.c_str(), target.c_str()) != 0) return disk_error(target);  // still locked: nobody clears it up
  path_.clear();
  close(std::exchange(fd_, -1));
  sync_folder_of(target);
  return ok_status();
}

}  // namespace bass
