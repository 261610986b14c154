#include "text/code_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/regex.h"
#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace bass {
namespace {

/// One character of a word.
const Regex& word_char() {
  static const Regex kWordChar = [] {
    const std::string contents = fmt::format(
        R"([{}{}{}\p{{Nl}}\p{{Pc}}\x{{200c}}\x{{200d}}\x{{24b6}}-\x{{24e9}}\x{{1f130}}-\x{{1f149}}\x{{1f150}}-\x{{1f169}}\x{{1f170}}-\x{{1f189}}])",
        *find_unicode_class("L"), *find_unicode_class("M"), *find_unicode_class("Nd"));
    Result<Regex> regex = Regex::compile(contents, false);
    BASS_CHECK(regex.ok());
    return std::move(regex).value();
  }();
  return kWordChar;
}

bool is_word_char(std::string_view character) {
  const Result<Regex::Scratch> scratch = Regex::make_scratch();
  if (!scratch.ok()) return false;
  const auto match = word_char().find(character, 0, scratch.value());
  return match.ok() && match->has_value();
}

/// The character that ends a text; none if that is not valid UTF-8.
std::optional<Utf8Char> last_char(std::string_view text) {
  for (size_t n_bytes = 1; n_bytes <= std::min<size_t>(4, text.size()); ++n_bytes) {
    const Utf8Char c = first_utf8_char(text.substr(text.size() - n_bytes));
    if (c.valid && c.n_bytes == n_bytes) return c;
  }
  return std::nullopt;
}

}  // namespace

bool is_white_space(char32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= 9 && code_point <= 13);
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 || code_point == 0x2029 ||
         code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

bool begins_with_word_char(std::string_view text) {
  if (text.empty()) return false;
  const Utf8Char c = first_utf8_char(text);
  return c.valid && is_word_char(text.substr(0, c.n_bytes));
}

bool ends_with_word_char(std::string_view text) {
  const std::optional<Utf8Char> c = last_char(text);
  return c.has_value() && is_word_char(text.substr(text.size() - c->n_bytes));
}

size_t n_leading_space_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char c = first_utf8_char(text.substr(at));
    if (!c.valid || !is_white_space(c.code_point)) break;
    at += c.n_bytes;
  }
  return at;
}

size_t n_trailing_space_bytes(std::string_view text) {
  size_t n_bytes = 0;
  while (n_bytes < text.size()) {
    const std::optional<Utf8Char> c = last_char(text.substr(0, text.size() - n_bytes));
    if (!c.has_value() || !is_white_space(c->code_point)) break;
    n_bytes += c->n_bytes;
  }
  return n_bytes;
}

}  // namespace bass
