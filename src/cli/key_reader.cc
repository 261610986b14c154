#include "cli/key_reader.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cli/interrupt.h"
#include "text/utf8.h"

namespace bass {
namespace {

// A signal that comes just before the waiting is seen after it; how long that may take.
constexpr int kPatienceMs = 200;
constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

std::optional<char32_t> KeyReader::next() {
  while (true) {
    if (is_interrupted()) return forget_interrupt() ? std::optional(kCtrlC) : std::nullopt;
    if (begin_ < bytes_.size()) {
      const Utf8Char c = first_utf8_char(std::string_view(bytes_).substr(begin_));
      if (!c.cut || has_ended_) {
        begin_ += c.n_bytes;
        return c.valid ? c.code_point : kReplacement;
      }
    }
    if (has_ended_) return std::nullopt;
    if (!fill(kPatienceMs)) idle_();
  }
}

void KeyReader::take_typed_ahead() {
  (void)fill(0);
  std::replace(bytes_.begin() + static_cast<ptrdiff_t>(begin_), bytes_.end(), '\0', kCtrlD);
}

bool KeyReader::fill(int patience_ms) {
  pollfd one{fd_, POLLIN, 0};
  const int n_ready = poll(&one, 1, patience_ms);
  if (n_ready <= 0) return n_ready < 0;
  std::array<char, 4096> buffer{};
  const ssize_t n_read = read(fd_, buffer.data(), buffer.size());
  has_ended_ = n_read == 0 || (n_read < 0 && errno != EINTR && errno != EAGAIN);
  if (n_read <= 0) return true;
  bytes_.erase(0, begin_);
  begin_ = 0;
  bytes_.append(buffer.data(), static_cast<size_t>(n_read));
  return true;
}

}  // namespace bass
