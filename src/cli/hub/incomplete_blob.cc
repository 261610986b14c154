#include "cli/hub/incomplete_blob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/hub/hub_name.h"
#include "cli/interrupt.h"
#include "cli/temporary_file.h"
#include "text/plain_text.h"

namespace bass {

Result<std::unique_ptr<IncompleteBlob>> IncompleteBlob::open(const std::string& path, const HubFile& file) {
  std::unique_ptr<IncompleteBlob> blob(new IncompleteBlob(path, file));
  const std::string incomplete = blob->incomplete_path();
  constexpr mode_t kMode = 0666;  // less the umask
  blob->fd_ = ::open(incomplete.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kMode);
  if (blob->fd_ < 0) return disk_error(incomplete);
  BASS_RETURN_IF_ERROR(blob->take_up());
  blob->is_taken_up_ = true;
  const bool has_space = file.n_bytes == 0 || fallocate(blob->fd_, FALLOC_FL_KEEP_SIZE, 0, file.n_bytes) == 0;
  if (has_space || (errno != ENOSPC && errno != EFBIG && errno != EDQUOT)) return blob;
  return resource_exhausted(fmt::format("{}: {} cannot be written: {}; make room, or set HF_HOME to a folder with more",
                                        incomplete, bytes_text(file.n_bytes), std::strerror(errno)));
}

IncompleteBlob::~IncompleteBlob() {
  if (fd_ < 0) return;
  // What was reserved behind the part that is there is given back, if it can be.
  const bool has_more = is_taken_up_ && !is_whole();
  [[maybe_unused]] const int failed = has_more ? ftruncate(fd_, n_bytes_) : 0;
  close(fd_);
}

/// Git hashes a small file with its kind and size before it.
Digest IncompleteBlob::new_hash() const {
  if (file_.blob.size() != kSha1Digits) return Digest::sha256();
  Digest hash = Digest::sha1();
  std::string header = fmt::format("blob {}", file_.n_bytes);
  header += '\0';
  hash.update(header);
  return hash;
}

Status IncompleteBlob::take_up() {
  constexpr size_t kBufferBytes = size_t{1} << 20;
  std::vector<char> buffer(kBufferBytes);
  while (!is_interrupted()) {
    const ssize_t n_read = read(fd_, buffer.data(), buffer.size());
    if (n_read < 0 && errno == EINTR) continue;
    if (n_read == 0) return ok_status();
    if (n_read < 0 || n_bytes_ + n_read > file_.n_bytes) return start_over();
    hash_.update({buffer.data(), static_cast<size_t>(n_read)});
    n_bytes_ += n_read;
  }
  return Status(StatusCode::kCancelled, "interrupted");
}

Status IncompleteBlob::start_over() {
  if (ftruncate(fd_, 0) != 0 || lseek(fd_, 0, SEEK_SET) != 0) return disk_error(incomplete_path());
  n_bytes_ = 0;
  hash_ = new_hash();
  return ok_status();
}

Status IncompleteBlob::write(std::span<const char> bytes) {
  if (std::cmp_greater(bytes.size(), file_.n_bytes - n_bytes_)) {
    return unavailable(fmt::format("the server sent more than its {} bytes", file_.n_bytes));
  }
  BASS_RETURN_IF_ERROR(write_all(fd_, bytes, incomplete_path()));
  hash_.update(bytes);
  n_bytes_ += static_cast<int64_t>(bytes.size());
  return ok_status();
}

Status IncompleteBlob::keep() {
  const std::string digest = hash_.finish();
  const bool is_hash = is_hex(file_.blob, kSha1Digits) || is_hex(file_.blob, kSha256Digits);
  if (!is_whole() || (is_hash && digest != file_.blob)) {
    unlink(incomplete_path().c_str());
    return invalid_file(fmt::format("{}: has the hash {} instead of {}", file_.name, digest, file_.blob));
  }
  if (fsync(fd_) != 0) return disk_error(incomplete_path());
  if (rename(incomplete_path().c_str(), path_.c_str()) != 0) return disk_error(path_);
  sync_folder_of(path_);
  return ok_status();
}

}  // namespace bass
