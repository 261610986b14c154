// UTF-8: decoding character by character, checking, repairing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace bass {

/// U+FFFD, in UTF-8.
inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";

/// What stands at the beginning of a text.
struct Utf8Char {
  char32_t code_point = 0;  ///< of a valid character
  size_t n_bytes = 0;       ///< of the character, or of the maximal subpart that one U+FFFD stands for
  bool valid = false;
  bool cut = false;  ///< invalid only because the text ends: more bytes could make it valid
};

/// The first character of `text`, which must not be empty. Surrogates, overlong forms and numbers above U+10FFFF are
/// invalid; an invalid sequence is as long as Unicode's maximal subpart (chapter 3.9, "substitution").
Utf8Char first_utf8_char(std::string_view text);

/// Position of the first byte that belongs to no valid character.
std::optional<size_t> find_invalid_utf8(std::string_view text);

inline bool is_valid_utf8(std::string_view text) { return !find_invalid_utf8(text).has_value(); }

/// `text` with every maximal subpart of an invalid sequence replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

}  // namespace bass
