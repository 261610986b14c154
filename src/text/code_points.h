// Properties of characters at the ends of texts.
#pragma once

#include <cstddef>
#include <string_view>

namespace bass {

/// Unicode's White_Space.
bool is_white_space(char32_t code_point);

/// A letter, mark, decimal digit, letter-like number, connector or joiner: what a word consists of.
bool begins_with_word_char(std::string_view text);
bool ends_with_word_char(std::string_view text);

/// Bytes of white space at the beginning and at the end of a text.
size_t n_leading_space_bytes(std::string_view text);
size_t n_trailing_space_bytes(std::string_view text);

}  // namespace bass
