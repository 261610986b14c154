#include "cli/save_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "cli/temporary_file.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

/// Where the bytes go, and how.
struct Target {
  std::string path;  ///< symbolic links are resolved
  bool is_special = false;
  mode_t mode = 0;
};

Target find_target(const std::string& path) {
  Target target;
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(path, error);
  target.path = error ? path : resolved.string();
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    target.is_special = !S_ISREG(info.st_mode);
    target.mode = info.st_mode & 07777u;
  } else {
    const mode_t mask = umask(0);
    umask(mask);
    target.mode = 0666u & ~mask;
  }
  return target;
}

Status check_target(const std::string& path) {
  std::error_code error;
  if (path.ends_with('/') || fs::is_directory(path, error)) {
    errno = EISDIR;
    return disk_error(path);
  }
  const bool exists = access(path.c_str(), F_OK) == 0;
  if (exists && access(path.c_str(), W_OK) != 0) return disk_error(path);
  const Target target = find_target(path);
  return target.is_special ? ok_status() : TemporaryFile::create(target.path).status();
}

Status write_special(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return disk_error(path);
  Status status = write_all(fd, text, path);
  if (close(fd) != 0 && status.ok()) status = disk_error(path);
  return status;
}

Status write_target(const Target& target, std::string_view text) {
  if (target.is_special) return write_special(target.path, text);
  BASS_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::create(target.path));
  BASS_RETURN_IF_ERROR(file->write_all(text));
  return file->keep_as(target.path, target.mode);
}

}  // namespace

Status check_save_path(const std::string& path) {
  Status status = check_target(path);
  if (status.ok()) return status;
  return invalid_argument(
      fmt::format("--save {}; name a file in a folder that is there and can be written", status.message()));
}

Status save_file(const std::string& path, std::string_view text) {
  const Status status = write_target(find_target(path), text);
  return status.ok() ? status : Status(status.code(), fmt::format("--save {}", status.message()));
}

}  // namespace bass
