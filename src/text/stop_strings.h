// Finds stop strings in text that arrives bit by bit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

/// Searches several strings at once (Knuth-Morris-Pratt for each), whatever the borders of the pushed parts. The first
/// stop string to become complete wins, of those that become complete with the same byte the longest; so the result
/// does not depend on how the text was cut into parts. One for each sequence; not thread-safe.
class StopMatcher {
 public:
  /// Errors (kInvalidArgument): a stop string that is empty or no valid UTF-8. No stop strings at all are fine.
  static Result<StopMatcher> create(const std::vector<std::string>& stop_strings);

  /// Appends to `safe` what can be shown: no stop string can begin in it any more. True when a stop string has been
  /// found: the text before it is complete, and all that follows is swallowed.
  bool push(std::string_view text, std::string* safe);

  /// The end of the text: appends what was held back because it could have begun a stop string.
  void flush(std::string* safe);

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  ///< [i]: longest proper prefix of text[0..i] that is also its suffix
    size_t n_matched = 0;        ///< longest prefix of `text` that the text so far ends with
  };

  StopMatcher() = default;
  static void advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace bass
