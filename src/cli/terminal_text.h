// Text on a terminal: measured in columns, and made harmless.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bass {

/// One character of a text as a terminal shows it.
struct TerminalChar {
  std::string_view bytes;  ///< of the text, or a constant that stands for what must not be printed
  int n_columns = 0;       ///< 0 (combining), 1 or 2
  size_t offset = 0;       ///< of the character in the text
};

/// Splits a text into characters. What is not valid UTF-8, and control characters but line feed and tab, which a model
/// could use to take over a terminal, become U+FFFD.
std::vector<TerminalChar> split_for_terminal(std::string_view text);

/// The text as it may be printed on a terminal; line feeds and tabs stay.
std::string for_terminal(std::string_view text);

/// The same on one line: line feeds and tabs become blanks.
std::string one_line_for_terminal(std::string_view text);

/// The end of the text on one line of at most n_columns, beginning with an ellipsis where something was left out.
/// Runs of blanks and line feeds become one blank.
std::vector<TerminalChar> last_line(const std::vector<TerminalChar>& text, int n_columns);

int n_columns_of(std::string_view text);

/// The beginning of a text without control characters, cut to n_columns.
std::string cut_to_columns(std::string_view text, int n_columns);

}  // namespace bass
