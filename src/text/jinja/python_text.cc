#include "text/jinja/python_text.h"

#include <fmt/format.h>
#include <locale.h>
#include <wctype.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "text/utf8.h"

namespace bass::jinja {
namespace {

/// glibc's tables of characters, whatever the process's locale is.
locale_t unicode_locale() {
  static const locale_t kLocale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return kLocale;
}

bool is_alpha(char32_t c) {
  if (c < 128) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return unicode_locale() != nullptr && iswalpha_l(static_cast<wint_t>(c), unicode_locale()) != 0;
}

bool is_ascii_digit(char32_t c) { return c >= '0' && c <= '9'; }

char32_t upper(char32_t c) {
  if (c < 128) return c >= 'a' && c <= 'z' ? c - 32 : c;
  return unicode_locale() == nullptr ? c : static_cast<char32_t>(towupper_l(static_cast<wint_t>(c), unicode_locale()));
}

char32_t lower(char32_t c) {
  if (c < 128) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return unicode_locale() == nullptr ? c : static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), unicode_locale()));
}

bool is_cased(char32_t c) { return upper(c) != c || lower(c) != c || c == U'\u00df'; }

/// Characters that Python's repr escapes: white space, format characters, private and unassigned ones.
bool is_hidden(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kFormatAndPrivate[] = {
      {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},
      {0x8E2, 0x8E2},     {0x180E, 0x180E},   {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x2064},
      {0x2066, 0x206F},   {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
      {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0001, 0x10FFFF}};
  if (is_space(c)) return true;
  if (c >= 0xE0100 && c <= 0xE01EF) return false;  // variation selectors
  for (const auto& [first, last] : kFormatAndPrivate) {
    if (c >= first && c <= last) return true;
  }
  return unicode_locale() != nullptr && iswprint_l(static_cast<wint_t>(c), unicode_locale()) == 0;
}

/// Calls f(character, its bytes) for each; bytes that are no character count as U+FFFD.
template <class F>
void for_each(std::string_view text, F f) {
  while (!text.empty()) {
    if ((text.front() & 0x80) == 0) {  // most of them
      f(static_cast<char32_t>(text.front()), text.substr(0, 1));
      text.remove_prefix(1);
      continue;
    }
    const Utf8Char c = first_utf8_char(text);
    f(c.valid ? c.code_point : U'\ufffd', text.substr(0, c.n_bytes));
    text.remove_prefix(c.n_bytes);
  }
}

template <class F>
bool all(std::string_view text, F holds) {
  bool result = !text.empty();
  for_each(text, [&](char32_t c, std::string_view) { result = result && holds(c); });
  return result;
}

void append_upper(char32_t c, std::string* out) {
  if (c == U'\u00df') {
    *out += "SS";  // the one common letter whose upper case is two
  } else {
    append_utf8(upper(c), *out);
  }
}

/// The last character's bytes.
std::string_view last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const Utf8Char c = first_utf8_char(text.substr(begin));
  return c.valid && c.n_bytes == text.size() - begin ? text.substr(begin) : text.substr(text.size() - 1);
}

template <class F>
std::string_view strip_if(std::string_view text, Side side, F is_stripped) {
  while (side != Side::kRight && !text.empty()) {
    const Utf8Char c = first_utf8_char(text);
    if (!is_stripped(text.substr(0, c.n_bytes))) break;
    text.remove_prefix(c.n_bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const std::string_view last = last_character(text);
    if (!is_stripped(last)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

bool has_only_case(std::string_view text, bool wants_upper) {
  bool has_cased = false, has_other = false;
  for_each(text, [&](char32_t c, std::string_view) {
    if (!is_cased(c)) return;
    const bool is_upper_case = lower(c) != c;
    (is_upper_case == wants_upper ? has_cased : has_other) = true;
  });
  return has_cased && !has_other;
}

}  // namespace

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

size_t n_characters(std::string_view text) {
  size_t n = 0;
  for_each(text, [&](char32_t, std::string_view) { ++n; });
  return n;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  for_each(text, [&](char32_t, std::string_view bytes) { result.push_back(bytes); });
  return result;
}

std::string_view strip(std::string_view text, Side side) {
  return strip_if(text, side, [](std::string_view c) {
    const Utf8Char decoded = first_utf8_char(c);
    return decoded.valid && is_space(decoded.code_point);
  });
}

std::string_view strip(std::string_view text, std::string_view set, Side side) {
  return strip_if(text, side, [set](std::string_view c) { return set.find(c) != std::string_view::npos; });
}

std::string to_upper(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, std::string_view) { append_upper(c, &out); });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, std::string_view) { append_utf8(lower(c), out); });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, std::string_view) {
    const bool is_upper = lower(c) != c, is_lower = upper(c) != c;
    if (is_upper && !is_lower) {
      append_utf8(lower(c), out);
    } else if (is_upper) {
      append_utf8(c, out);  // a letter of titles
    } else {
      append_upper(c, &out);
    }
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, std::string_view) { append_utf8(out.empty() ? upper(c) : lower(c), out); });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool after_letter = false;
  for_each(text, [&](char32_t c, std::string_view) {
    append_utf8(after_letter ? lower(c) : upper(c), out);
    after_letter = is_cased(c);
  });
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool begins = true;
  for_each(text, [&](char32_t c, std::string_view) {
    if (begins) {
      append_upper(c, &out);
    } else {
      append_utf8(lower(c), out);
    }
    begins = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
  return out;
}

bool all_alpha(std::string_view text) { return all(text, is_alpha); }
bool all_digit(std::string_view text) { return all(text, is_ascii_digit); }
bool all_space(std::string_view text) { return all(text, is_space); }
bool all_alnum(std::string_view text) {
  return all(text, [](char32_t c) { return is_alpha(c) || is_ascii_digit(c); });
}
bool is_upper(std::string_view text) { return has_only_case(text, true); }
bool is_lower(std::string_view text) { return has_only_case(text, false); }

std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0, at = 0;
  while (at < text.size()) {
    const Utf8Char c = first_utf8_char(text.substr(at));
    const size_t line_end = at;
    at += c.n_bytes;
    if (!c.valid || !is_line_break(c.code_point)) continue;
    if (c.code_point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keeps_ends ? at : line_end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string quoted_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for_each(text, [&](char32_t c, std::string_view bytes) {
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += fmt::format("\\{}", bytes);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (c > 0xA0 && is_hidden(c)) {
      out += c > 0xFFFF ? fmt::format("\\U{:08x}", static_cast<unsigned>(c))
                        : fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += bytes;
    }
  });
  return out + quote;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double magnitude = std::abs(value);
  const bool is_plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);
  if (is_plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace bass::jinja
