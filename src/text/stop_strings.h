// Finds stop strings in text that arrives bit by bit.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

/// Searches several strings at once (Knuth-Morris-Pratt for each), whatever the borders of the pushed parts. The first
/// stop string to become complete wins, of those that become complete with the same byte the longest; so the result
/// does not depend on how the text was cut into parts. One for each sequence; not thread-safe. Copies share the
/// strings: until its first text, or `make_room`, each takes a few words.
class StopMatcher {
 public:
  static constexpr size_t kMaxStrings = 256;
  static constexpr size_t kMaxBytes = 65536;  // of all: each is looked for at each byte of a text

  /// Whether `create` would take them. Errors (kInvalidArgument): a stop string that is empty or no valid UTF-8, or
  /// more than kMaxStrings or kMaxBytes. No stop strings at all are fine.
  [[nodiscard]] static Status check(const std::vector<std::string>& stop_strings);
  static Result<StopMatcher> create(const std::vector<std::string>& stop_strings);

  /// So that pushes of up to `n_bytes` allocate nothing here.
  void make_room(size_t n_bytes);
  /// Behind the last text: only what copies share stays.
  void release_memory() noexcept;

  /// Appends to `safe` what can be shown: no stop string can begin in it any more. True when a stop string has been
  /// found: the text before it is complete, and all that follows is swallowed.
  bool push(std::string_view text, std::string* safe);

  /// The end of the text: appends what was held back because it could have begun a stop string.
  void flush(std::string* safe);

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  ///< [i]: longest proper prefix of text[0..i] that is also its suffix
  };

  StopMatcher() = default;
  static void advance(const Pattern& pattern, char byte, size_t* n_matched);

  std::shared_ptr<const std::vector<Pattern>> patterns_;
  std::vector<size_t> n_matched_;  ///< of each: longest prefix that the text so far ends with; empty: there was no text
  std::string held_;
  bool stopped_ = false;
};

}  // namespace bass
