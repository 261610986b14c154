// SentencePiece's precompiled replacement rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

/// A double-array trie (the layout of darts-clone) from texts to their replacements. The bytes come from a file:
/// whatever they are, look-ups stay within them. Thread-safe after construction.
class Charsmap {
 public:
  struct Rule {
    size_t n_bytes = 0;  ///< how much of the text it replaces
    std::string_view replacement;
  };

  Charsmap() = default;  ///< no rules
  /// Error (kInvalidFile): sizes that contradict each other.
  static Result<Charsmap> parse(std::string_view blob);

  /// The rule of the longest (or shortest) text that `text` begins with.
  [[nodiscard]] std::optional<Rule> find(std::string_view text, bool is_longest) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a NUL
};

}  // namespace bass
