// Thoughts that may have so many tokens: where a text stands with them.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/thoughts.h"

namespace bass {

/// At most so many tokens between the marks, behind which the mark that ends thoughts has to come. kNone: nothing is
/// asked of a text.
struct ThoughtBudget {
  ThoughtsAhead ahead = ThoughtsAhead::kNone;
  uint32_t max_tokens = 0;
};

/// Where a text stands with its thoughts. A value of 8 bytes.
struct ThoughtsPlace {
  enum class Part : uint8_t { kBefore, kInside, kBehind };
  Part part = Part::kBehind;
  uint8_t n_matched = 0;  ///< bytes of the next mark that the text ends with
  uint32_t n_tokens = 0;  ///< of the thoughts so far

  friend bool operator==(const ThoughtsPlace&, const ThoughtsPlace&) = default;
};

/// In front of the first token.
ThoughtsPlace thoughts_place(ThoughtsAhead thoughts);
/// Behind one more token of these bytes. The one that completes the first mark is not yet a token of the thoughts.
ThoughtsPlace behind_token(ThoughtsPlace place, std::string_view bytes);
/// What is wanting of the mark that ends the thoughts. Inside of them alone.
std::string_view rest_of_thoughts_end(ThoughtsPlace place);

}  // namespace bass
