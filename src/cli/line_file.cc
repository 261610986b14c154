#include "cli/line_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cli/interrupt.h"
#include "cli/temporary_file.h"

namespace bass {
namespace {

/// Whether the open file still has this name.
bool is_named(int fd, const std::string& path) {
  struct stat open_file {};
  struct stat named_file {};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named_file) == 0 && open_file.st_ino == named_file.st_ino &&
         open_file.st_dev == named_file.st_dev;
}

}  // namespace

Result<std::unique_ptr<LineFile>> LineFile::open(Kind kind, const std::string& path, Output* out) {
  std::unique_ptr<LineFile> file(new LineFile(std::move(kind), path));
  if (path == "-") {
    file->out_ = out;
    return file;
  }
  BASS_RETURN_IF_ERROR(file->open_file());
  if (file->is_regular_) BASS_RETURN_IF_ERROR(file->read_lines());
  return file;
}

LineFile::~LineFile() {
  if (fd_ < 0) return;
  if (is_new_ && !has_lines_ && is_named(fd_, path_)) unlink(path_.c_str());
  close(fd_);
}

std::string LineFile::name() const { return fmt::format("{} {}", kind_.flag, path_); }

std::string LineFile::place(int line_number) const { return fmt::format("{}:{}", name(), line_number); }

/// Opening a named pipe waits for its reader.
Result<int> LineFile::open_patiently(int flags) const {
  constexpr mode_t kMode = 0666;  // less the umask
  while (true) {
    const int fd = ::open(path_.c_str(), flags, kMode);
    if (fd >= 0) return fd;
    const int error = errno;
    if (error == EINTR && !is_interrupted()) continue;
    if (error == EINTR) return Status(StatusCode::kCancelled, fmt::format("{}: interrupted", name()));
    if (error == ENOSPC || error == EDQUOT) return disk_error(name());
    return invalid_argument(
        fmt::format("{}: cannot be written: {}; name a file in a folder that is there and can be written", name(),
                    std::strerror(error)));
  }
}

Status LineFile::open_file() {
  struct stat info {};
  is_new_ = lstat(path_.c_str(), &info) != 0;
  is_regular_ = stat(path_.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  const int flags = O_APPEND | O_CLOEXEC | (is_regular_ ? O_RDWR | O_CREAT : O_WRONLY);
  while (true) {
    BASS_ASSIGN_OR_RETURN(fd_, open_patiently(flags));
    if (!is_regular_) return ok_status();
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // some file systems have no locks
      is_new_ = false;
      return invalid_argument(
          fmt::format("{}: another run writes to it; wait for its end, or name another file", name()));
    }
    if (is_named(fd_, path_)) return ok_status();
    close(std::exchange(fd_, -1));  // a run that failed has removed it meanwhile
  }
}

Status LineFile::read_lines() {
  struct Close {
    void operator()(FILE* file) const { fclose(file); }
  };
  const std::unique_ptr<FILE, Close> file(fdopen(dup(fd_), "r"));
  char* line = nullptr;
  size_t capacity = 0;
  Status status;
  int number = 0;
  for (ssize_t n; status.ok() && file != nullptr && (n = getline(&line, &capacity, file.get())) > 0;)
    status = take_line({line, static_cast<size_t>(n)}, ++number);
  const int error = errno;
  free(line);
  if (file != nullptr && ferror(file.get()) == 0) return status;
  return invalid_argument(fmt::format("{}: cannot be read: {}", name(), std::strerror(error)));
}

Status LineFile::take_line(std::string_view text, int number) {
  if (!text.ends_with('\n')) return take_end(text, number);
  end_ += static_cast<int64_t>(text.size());
  if (text.find_first_not_of(" \t\r\n") == text.npos) return ok_status();
  has_lines_ = true;
  return try_take(text, number);
}

// A last line without its end: whole if somebody has edited the file, else of a run that was killed, or of a full disk.
// Nobody else's text: it is no JSON yet and begins as a line of this program does.
Status LineFile::take_end(std::string_view text, int number) {
  Status status = try_take(text, number);
  if (!status.ok()) return kind_.is_cut(text) ? ok_status() : status;
  has_lines_ = true;
  end_ += static_cast<int64_t>(text.size());
  lacks_line_feed_ = true;
  return status;
}

Status LineFile::try_take(std::string_view text, int number) const {
  const Status status = kind_.take(text, number);
  if (status.ok()) return status;
  return {status.code(), fmt::format("{}: {}", place(number), status.message())};
}

Status LineFile::mend_end() {
  if (!is_regular_) return ok_status();
  if (ftruncate(fd_, end_) != 0) return disk_error(name());
  return std::exchange(lacks_line_feed_, false) ? write_all(fd_, std::string_view("\n"), name()) : ok_status();
}

Status LineFile::append(std::string_view line) {
  if (out_ != nullptr) {
    out_->write(line);
    return out_->status();
  }
  struct stat before {};
  const bool is_known = is_regular_ && fstat(fd_, &before) == 0;
  Status status = write_all(fd_, line, name());
  has_lines_ |= status.ok();
  if (status.ok()) return status;
  if (is_known && ftruncate(fd_, before.st_size) != 0) return status;  // the next run removes what there is of the line
  return {status.code(), fmt::format("{}; what is there stays, and the same command goes on", status.message())};
}

Status LineFile::check_kept() const {
  if (!is_regular_ || is_named(fd_, path_)) return ok_status();
  return resource_exhausted(
      fmt::format("{}: was moved, replaced or removed while the run wrote to it; the results are in the file that had "
                  "this name",
                  name()));
}

}  // namespace bass
