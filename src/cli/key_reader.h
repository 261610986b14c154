// What is typed on a terminal, character by character.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace bass {

inline constexpr char32_t kCtrlC = 0x03;
inline constexpr char kCtrlD = 0x04;

/// Decodes the bytes of a descriptor, which it does not own, as they come. What is read and not asked for yet stays
/// here: one reader a descriptor.
class KeyReader {
 public:
  /// idle: called a few times a second while nothing comes.
  KeyReader(int fd, std::function<void()> idle) : fd_(fd), idle_(std::move(idle)) {}

  /// The next character; U+FFFD for what is not UTF-8; kCtrlC for a SIGINT, which is forgotten with that. None at the
  /// end of the input, which a failed read is too, and where the process must end.
  std::optional<char32_t> next();

  /// Takes what was typed while the terminal edited lines itself, as soon as it does so no more: a Ctrl-D of then is a
  /// NUL in it (Linux), and becomes one again.
  void take_typed_ahead();

 private:
  /// Waits so long for more. False: nothing came.
  bool fill(int patience_ms);

  int fd_;
  std::function<void()> idle_;
  std::string bytes_;  // read
  size_t begin_ = 0;   // of those not given out
  bool has_ended_ = false;
};

}  // namespace bass
