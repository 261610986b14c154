#include "cli/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "text/utf8.h"

namespace bass {
namespace {

Status cannot_read(std::string_view name, int error) {
  return invalid_file(fmt::format("{}: cannot be read: {}", name, std::strerror(error)));
}

Status interrupted(std::string_view name) {
  return {StatusCode::kCancelled, fmt::format("{}: interrupted while reading", name)};
}

/// Opening a named pipe waits for its writer.
Result<int> open_input(const std::string& path) {
  while (true) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) return fd;
    if (errno != EINTR) return cannot_read(path, errno);
    if (is_interrupted()) return interrupted(path);
  }
}

/// What is no file may never end, as /dev/zero does.
Result<std::string> read_all(int fd, std::string_view name) {
  constexpr size_t kMostOfNoFile = size_t{1} << 30;
  struct stat info {};
  const bool is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t n_read = read(fd, buffer.data(), buffer.size());
    const int error = errno;
    if (is_interrupted()) return interrupted(name);  // Ctrl-C may have ended the pipe's writer too: the text is cut
    if (n_read == 0) return text;
    if (!is_file && text.size() > kMostOfNoFile)
      return invalid_file(fmt::format("{}: does not end within {} GiB; give a file", name, kMostOfNoFile >> 30));
    if (n_read > 0) {
      text.append(buffer.data(), static_cast<size_t>(n_read));
    } else if (error == EAGAIN) {
      wait_until(POLLIN, fd);
    } else if (error != EINTR) {
      return cannot_read(name, error);
    }
  }
}

}  // namespace

Result<std::string> read_input(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input");
  BASS_ASSIGN_OR_RETURN(const int fd, open_input(path));
  struct stat info {};
  const bool is_directory = fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  Result<std::string> text = is_directory ? Result<std::string>(cannot_read(path, EISDIR)) : read_all(fd, path);
  close(fd);
  return text;
}

Result<std::string> read_text(const GenerateOptions& options) {
  if (options.prompt.has_value() && !options.file.empty()) return invalid_argument("-p and -f: give one of them");
  if (options.prompt.has_value()) return *options.prompt;
  return read_input(options.file.empty() ? "-" : options.file);
}

Result<std::optional<std::string>> LineReader::next() {
  constexpr size_t kMaxLineBytes = size_t{16} << 20;
  constexpr std::string_view kName = "standard input";
  std::array<char, 4096> buffer{};
  size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    if (is_interrupted()) return interrupted(kName);
    const ssize_t n_read = read(STDIN_FILENO, buffer.data(), buffer.size());
    const int error = errno;
    if (is_interrupted()) return interrupted(kName);
    if (n_read == 0) {
      if (buffer_.empty()) return std::optional<std::string>();
      return std::optional(std::exchange(buffer_, {}));
    }
    if (n_read < 0 && error == EAGAIN) wait_until(POLLIN, STDIN_FILENO);
    if (n_read < 0 && error != EINTR && error != EAGAIN) return cannot_read(kName, error);
    const size_t n_known = buffer_.size();
    if (n_read > 0) buffer_.append(buffer.data(), static_cast<size_t>(n_read));
    if (buffer_.size() > kMaxLineBytes) return invalid_argument("standard input: a line of more than 16 MiB");
    end = buffer_.find('\n', n_known);
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return std::optional(std::move(line));
}

Status check_utf8(std::string_view what, std::string_view text) {
  const std::optional<size_t> offset = find_invalid_utf8(text);
  if (!offset.has_value()) return ok_status();
  return invalid_argument(fmt::format("{}: invalid UTF-8 at byte {} (0x{:02X}); save the text as UTF-8", what, *offset,
                                      static_cast<unsigned char>(text[*offset])));
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

Status for_each_line(const std::string& name, const std::string& text,
                     const std::function<Status(const std::string& line, const std::string& origin)>& read) {
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string origin = fmt::format("{}:{}", name, line_number);
    const Status status = read(line, origin);
    if (!status.ok()) return {status.code(), fmt::format("{}: {}", origin, status.message())};
  }
  return ok_status();
}

}  // namespace bass
