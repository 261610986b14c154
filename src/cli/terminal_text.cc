#include "cli/terminal_text.h"

#include <cwchar>
#include <limits>

#include "text/utf8.h"

namespace bass {
namespace {

constexpr std::string_view kEllipsis = "\xE2\x80\xA6";  // U+2026
constexpr std::string_view kBlank = " ";

bool is_blank(const TerminalChar& c) { return c.bytes == " " || c.bytes == "\n" || c.bytes == "\t"; }

}  // namespace

std::vector<TerminalChar> split_for_terminal(std::string_view text) {
  std::vector<TerminalChar> chars;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char decoded = first_utf8_char(text.substr(offset));
    TerminalChar c{text.substr(offset, decoded.n_bytes), 1, offset};
    if (c.bytes != "\n" && c.bytes != "\t") {
      // wcwidth is -1 for control characters (C0, C1) and what the C library does not know
      const bool is_text = decoded.valid && decoded.code_point != 0;  // wcwidth(0) is 0, as if it were combining
      c.n_columns = is_text ? wcwidth(static_cast<wchar_t>(decoded.code_point)) : -1;
      if (c.n_columns < 0) c = {kReplacementChar, 1, offset};
    }
    chars.push_back(c);
    offset += decoded.n_bytes;
  }
  return chars;
}

std::string for_terminal(std::string_view text) {
  std::string result;
  for (const TerminalChar& c : split_for_terminal(text)) result += c.bytes;
  return result;
}

std::string one_line_for_terminal(std::string_view text) {
  return cut_to_columns(text, std::numeric_limits<int>::max());
}

std::vector<TerminalChar> last_line(const std::vector<TerminalChar>& text, int n_columns) {
  std::vector<TerminalChar> reversed;
  int n_used = 0;
  bool is_cut = false;
  for (size_t i = text.size(); i-- > 0;) {
    TerminalChar c = text[i];
    if (is_blank(c)) {
      if (reversed.empty() || reversed.back().bytes == kBlank) continue;
      c.bytes = kBlank;
    }
    if (n_used + c.n_columns > n_columns) {
      is_cut = true;
      break;
    }
    n_used += c.n_columns;
    reversed.push_back(c);
  }
  if (is_cut && n_columns > 0) {
    while (n_used + 1 > n_columns && !reversed.empty()) {
      n_used -= reversed.back().n_columns;
      reversed.pop_back();
    }
    reversed.push_back({kEllipsis, 1, reversed.empty() ? 0 : reversed.back().offset});
  }
  return {reversed.rbegin(), reversed.rend()};
}

int n_columns_of(std::string_view text) {
  int n = 0;
  for (const TerminalChar& c : split_for_terminal(text)) n += c.n_columns;
  return n;
}

std::string cut_to_columns(std::string_view text, int n_columns) {
  std::string result;
  for (const TerminalChar& c : split_for_terminal(text)) {
    n_columns -= c.n_columns;
    if (n_columns < 0) break;
    result += is_blank(c) ? kBlank : c.bytes;
  }
  return result;
}

}  // namespace bass
