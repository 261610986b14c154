// Python's strings over UTF-8: positions are characters, white space and case are Unicode's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace bass::jinja {

bool is_space(char32_t c);
/// What splitlines splits at.
bool is_line_break(char32_t c);

/// Number of characters.
size_t n_characters(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);

enum class Side { kLeft, kRight, kBoth };
/// Without white space at its ends.
std::string_view strip(std::string_view text, Side side);
/// Without the characters of `set` at its ends.
std::string_view strip(std::string_view text, std::string_view set, Side side);

std::string to_upper(std::string_view text);
std::string swap_case(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
/// str.title: letters after something that is no letter are upper case.
std::string to_title(std::string_view text);

/// The filter `title`: a word begins behind a blank, a hyphen or an opening bracket.
std::string title_words(std::string_view text);

/// What str.isalpha and its like ask of each character; false for an empty text.
bool all_alpha(std::string_view text);
bool all_digit(std::string_view text);
bool all_alnum(std::string_view text);
bool all_space(std::string_view text);
/// Has cased characters, and none of the other case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends);

/// A string as Python's repr writes it.
std::string quoted_text(std::string_view text);
/// A float as Python's repr writes it.
std::string float_text(double value);

}  // namespace bass::jinja
