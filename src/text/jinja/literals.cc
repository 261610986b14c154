#include "text/jinja/literals.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/jinja/format.h"
#include "text/utf8.h"

namespace bass::jinja {
namespace {

bool is_digit_of(char c, int base) {
  if (base == 16) return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  return c >= '0' && c < '0' + base;
}

/// Digits with single underscores between them, from `at` on: where they end.
size_t digits_end(std::string_view text, size_t at, int base) {
  while (at < text.size()) {
    const bool is_underscore = text[at] == '_' && at > 0 && at + 1 < text.size() && is_digit_of(text[at + 1], base);
    if (!is_digit_of(text[at], base) && !is_underscore) break;
    ++at;
  }
  return at;
}

/// Where the fraction and the exponent of a float end; `at` if there are none.
size_t fraction_end(std::string_view text, size_t at) {
  size_t end = at;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) end = digits_end(text, at + 1, 10);
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (exponent < text.size() && is_digit(text[exponent])) end = digits_end(text, exponent, 10);
  }
  return end;
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  const char letter = static_cast<char>(text[1] | 0x20);
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  return base != 10 && is_digit_of(text[2], base) ? base : 10;
}

/// Reads up to `n_max` digits at the front of the text, and takes them.
std::optional<char32_t> take_code(std::string_view* text, size_t n_min, size_t n_max, int base) {
  uint32_t code = 0;
  const char* end = text->data() + std::min(text->size(), n_max);
  const auto [stop, error] = std::from_chars(text->data(), end, code, base);
  const auto n = static_cast<size_t>(stop - text->data());
  if (error != std::errc{} || n < n_min) return std::nullopt;
  text->remove_prefix(n);
  return code;
}

/// The escape whose letter is `c`, or nullopt if the backslash stands for itself. `rest`: what follows.
std::optional<std::string_view> simple_escape(char c) {
  switch (c) {
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case 'r':
      return "\r";
    case 'a':
      return "\a";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'v':
      return "\v";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    case '\n':
      return "";
    default:
      return std::nullopt;
  }
}

/// A character by its number: \x41, \u00e9, \U0001f600, \101. False: no such escape.
bool append_numbered(char c, std::string_view* rest, std::string* out) {
  const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
  const bool is_octal = c >= '0' && c <= '7';
  const std::optional<char32_t> code = is_octal ? take_code(rest, 1, 3, 8) : take_code(rest, n, n, 16);
  if (!code.has_value() || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) return false;
  append_utf8(*code, *out);
  return true;
}

}  // namespace

size_t name_len(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const char c = text[n];
    const bool is_letter = c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
    if (!is_letter && !(n > 0 && is_digit(c))) break;
    ++n;
  }
  return n;
}

NumberLiteral read_number(std::string_view text, bool may_be_float) {
  NumberLiteral number;
  const int base = base_of(text);
  size_t end = digits_end(text, base == 10 ? 0 : 2, base);
  if (base == 10 && may_be_float) {
    const size_t float_end = fraction_end(text, end);
    number.is_float = float_end > end;
    end = float_end;
  }
  number.n_bytes = end;
  number.text = text.substr(0, end);
  std::erase(number.text, '_');
  return number;
}

Result<std::string> unescape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t plain = std::min(text.find('\\'), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char c = text[1];  // a backslash never stands last
    const std::string_view bytes = text.substr(0, 2);
    const bool is_octal = c >= '0' && c <= '7';
    text.remove_prefix(is_octal ? 1 : 2);
    if (const std::optional<std::string_view> simple = simple_escape(c)) {
      out += *simple;
    } else if (is_octal || c == 'x' || c == 'u' || c == 'U') {
      if (!append_numbered(c, &text, &out)) return invalid_argument("an escape in a string that is no character");
    } else if (c == 'N') {
      return invalid_argument("characters by their names (\\N) are not supported");
    } else {
      out += bytes;  // no escape: the backslash stays
    }
  }
  return out;
}

}  // namespace bass::jinja
