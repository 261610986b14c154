// Marks in an answer that comes piece by piece, and the blanks around them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace bass {

inline constexpr std::string_view kBlanks = " \t\r\n";

/// The first place from `at` on that is no blank; the text's size if there is none.
inline size_t skip_blanks(std::string_view text, size_t at = 0) {
  return std::min(text.find_first_not_of(kBlanks, at), text.size());
}

/// Bytes up to the last one that is no blank.
inline size_t len_without_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(kBlanks);
  return last == text.npos ? 0 : last + 1;
}

/// Bytes at a text's end that may become the mark, which is not in it.
inline size_t n_begun(std::string_view text, std::string_view mark) {
  size_t n = std::min(mark.size() - 1, text.size());
  while (!text.ends_with(mark.substr(0, n))) --n;
  return n;
}

}  // namespace bass
