#include "cli/save_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "cli/temporary_file.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

mode_t mode_of_new_files() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666u & ~mask;
}

Status check_target(const std::string& path) {
  std::error_code error;
  if (path.ends_with('/') || fs::is_directory(path, error)) {
    errno = EISDIR;
    return disk_error(path);
  }
  const bool exists = access(path.c_str(), F_OK) == 0;
  if (exists && access(path.c_str(), W_OK) != 0) return disk_error(path);
  if (exists && !fs::is_regular_file(path, error)) return ok_status();  // opening a pipe would wait for its reader
  return SavedFile::create(path).status();
}

Status write_and_keep(const std::string& path, const std::function<Status(SavedFile*)>& write) {
  BASS_ASSIGN_OR_RETURN(const std::unique_ptr<SavedFile> file, SavedFile::create(path));
  BASS_RETURN_IF_ERROR(write(file.get()));
  return file->keep();
}

}  // namespace

Result<std::unique_ptr<SavedFile>> SavedFile::create(const std::string& path) {
  std::unique_ptr<SavedFile> file(new SavedFile());
  file->path_ = path;
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(path, error);
  file->target_ = error ? path : resolved.string();
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    file->fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file->fd_ < 0) return disk_error(path);
    return file;
  }
  file->mode_ = exists ? info.st_mode & 07777u : mode_of_new_files();
  BASS_ASSIGN_OR_RETURN(file->temporary_, TemporaryFile::create(file->target_));
  return file;
}

SavedFile::~SavedFile() {
  if (fd_ >= 0) close(fd_);
}

Status SavedFile::reserve(int64_t n_bytes) {
  if (temporary_ == nullptr || temporary_->reserve(n_bytes)) return ok_status();
  return resource_exhausted(
      fmt::format("{}: {} MiB cannot be written: {}", path_, (n_bytes >> 20) + 1, std::strerror(errno)));
}

Status SavedFile::write(std::span<const char> bytes) {
  return write_all(temporary_ == nullptr ? fd_ : temporary_->fd(), bytes, path_);
}

Status SavedFile::keep() {
  if (temporary_ != nullptr) return temporary_->keep_as(target_, mode_);
  return close(std::exchange(fd_, -1)) == 0 ? ok_status() : disk_error(path_);
}

Status check_save_path(std::string_view flag, const std::string& path) {
  Status status = check_target(path);
  if (status.ok()) return status;
  return invalid_argument(
      fmt::format("{} {}; name a file in a folder that is there and can be written", flag, status.message()));
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path of_a = fs::weakly_canonical(a, error), of_b = fs::weakly_canonical(b, error);
  return !error && of_a == of_b;
}

Status save_file(const std::string& path, const std::function<Status(SavedFile*)>& write) {
  const Status status = write_and_keep(path, write);
  return status.ok() ? status : Status(status.code(), fmt::format("--save {}", status.message()));
}

}  // namespace bass
