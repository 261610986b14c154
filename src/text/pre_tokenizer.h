// Cuts text into the pieces within which tokens are found.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"
#include "text/byte_level.h"
#include "text/regex.h"
#include "text/tokenizer_rules.h"

namespace bass {

/// Thread-safe after construction.
class PreTokenizer {
 public:
  /// A text and its pieces. Pieces are not empty and follow each other; what lies between them was removed.
  struct Pieces {
    struct Piece {
      uint32_t begin = 0, end = 0;
    };
    std::string text;
    std::vector<Piece> pieces;
  };

  /// Error: a broken expression.
  static Result<PreTokenizer> create(const std::vector<SplitStep>& steps);

  /// A byte that is not part of valid UTF-8 counts as a character of its own that is neither letter, digit nor space.
  /// After a byte-level step the text that comes back is bytes again. `is_first`: nothing stands before `text`. Errors:
  /// 2 GiB or more; an expression that takes too many steps.
  [[nodiscard]] Result<Pieces> split(std::string text, bool is_first) const;

 private:
  struct Step {
    SplitStep rule;
    std::unique_ptr<Regex> regex;  // of kSplit and kMetaspace
  };
  struct State;

  [[nodiscard]] Status cut(const Step& step, State& state, const Regex::Scratch& scratch) const;
  void rewrite(const Step& step, State& state) const;

  std::vector<Step> steps_;
  bool is_spelled_ = false;  // a step behind the byte-level one looks at GPT-2's alphabet
  ByteLevelMap alphabet_;
};

}  // namespace bass
