#include "text/grammar/regex_characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/utf8.h"

namespace bass {
namespace {

constexpr CodePointRange kHighSurrogates{0xD800, 0xDBFF};
constexpr CodePointRange kLowSurrogates{0xDC00, 0xDFFF};

bool is_in(char32_t code_point, const CodePointRange& range) {
  return range.first <= code_point && code_point <= range.last;
}

bool is_digit(char32_t c) { return is_in(c, {'0', '9'}); }
bool is_letter(char32_t c) { return is_in(c, {'a', 'z'}) || is_in(c, {'A', 'Z'}); }

std::optional<CodePointSet> shorthand(char32_t letter) {
  switch (letter) {
    case 'd':
      return CodePointSet({{'0', '9'}});
    case 'w':
      return CodePointSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    case 's':
      return CodePointSet({{'\t', '\r'}, {' ', ' '}});
    case 'D':
    case 'W':
    case 'S':
      return shorthand(letter - 'A' + 'a')->complement();
    default:
      return std::nullopt;
  }
}

std::optional<char32_t> control_character(char32_t letter, bool is_in_class) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'b':
      return is_in_class ? std::optional<char32_t>('\b') : std::nullopt;
    default:
      return std::nullopt;
  }
}

// What others know by an escape that means no character of ours.
std::string name_of_escape(char32_t letter) {
  if (is_digit(letter) || letter == 'k') return "a backreference";
  if (letter == 'b' || letter == 'B') return "a word boundary";
  if (letter == 'p' || letter == 'P') return "a Unicode property";
  if (letter == 'A' || letter == 'Z' || letter == 'z' || letter == 'G') return "an anchor";
  return fmt::format("the escape \\{}", static_cast<char>(letter));
}

}  // namespace

Status RegexReader::not_supported(std::string_view what, size_t at) {
  return invalid_argument(fmt::format("the pattern has {} at byte {}, which is not supported", what, at));
}

bool RegexReader::take(std::string_view text) {
  if (!sees(text)) return false;
  position_ += text.size();
  return true;
}

std::optional<int> RegexReader::take_number() {
  std::optional<int> number;
  for (; !at_end() && is_digit(static_cast<uint8_t>(pattern_[position_])); ++position_) {
    number = std::min(number.value_or(0) * 10 + (pattern_[position_] - '0'), kMaxNumber);
  }
  return number;
}

char32_t RegexReader::take_code_point() {
  const Utf8Char next = first_utf8_char(pattern_.substr(position_));
  position_ += next.n_bytes;
  return next.code_point;
}

Result<char32_t> RegexReader::take_hex(int n_digits, size_t at) {
  char32_t value = 0;
  for (int i = 0; i < n_digits; ++i) {
    const char32_t c = at_end() ? U' ' : take_code_point();
    const bool is_hex = is_digit(c) || is_in(c, {'a', 'f'}) || is_in(c, {'A', 'F'});
    if (!is_hex) {
      return invalid_argument(fmt::format(
          "the pattern has an escape at byte {} that wants {} hexadecimal digits; write them", at, n_digits));
    }
    value = value * 16 + (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

// Behind \u: what lies above U+FFFF comes as two of them.
Result<char32_t> RegexReader::take_utf16(size_t at) {
  BASS_ASSIGN_OR_RETURN(const char32_t unit, take_hex(4, at));
  if (is_in(unit, kHighSurrogates) && take("\\u")) {
    BASS_ASSIGN_OR_RETURN(const char32_t low, take_hex(4, at));
    if (is_in(low, kLowSurrogates))
      return 0x10000 + ((unit - kHighSurrogates.first) << 10) + (low - kLowSurrogates.first);
    return not_supported("half a surrogate pair", at);
  }
  if (is_in(unit, kHighSurrogates) || is_in(unit, kLowSurrogates)) return not_supported("half a surrogate pair", at);
  return unit;
}

Result<CodePointSet> RegexReader::take_escape(bool is_in_class) {
  const size_t at = position_;
  ++position_;
  if (at_end()) return invalid_argument("the pattern ends with a backslash; write what is escaped behind it");
  const char32_t c = take_code_point();
  if (std::optional<CodePointSet> set = shorthand(c)) return *std::move(set);
  if (const std::optional<char32_t> control = control_character(c, is_in_class)) return CodePointSet::one(*control);
  if (c == 'x' || c == 'u') {
    BASS_ASSIGN_OR_RETURN(const char32_t code_point, c == 'x' ? take_hex(2, at) : take_utf16(at));
    return CodePointSet::one(code_point);
  }
  const bool is_nul = c == '0' && (at_end() || !is_digit(static_cast<uint8_t>(pattern_[position_])));
  if (is_nul) return CodePointSet::one(0);
  if (is_digit(c) || is_letter(c)) return not_supported(name_of_escape(c), at);
  return CodePointSet::one(c);
}

Result<CodePointSet> RegexReader::take_class_item() {
  if (sees("\\")) return take_escape(true);
  if (sees("[:") || sees("[.") || sees("[=")) return not_supported("a POSIX class", position_);
  return CodePointSet::one(take_code_point());
}

// `first`, or what runs from it to another.
Result<CodePointSet> RegexReader::take_class_range(CodePointSet first, size_t at) {
  const bool is_range = sees("-") && !sees("-]") && position_ + 1 < pattern_.size();
  if (!is_range) return first;
  ++position_;
  BASS_ASSIGN_OR_RETURN(const CodePointSet last, take_class_item());
  const auto is_one = [](const CodePointSet& set) { return set.ranges().front().first == set.ranges().back().last; };
  if (!is_one(first) || !is_one(last)) return not_supported("a range between classes (write \\- for the sign)", at);
  const CodePointRange range{first.ranges().front().first, last.ranges().front().first};
  if (range.first <= range.last) return CodePointSet({range});
  return invalid_argument(fmt::format("the pattern has a range at byte {} that runs backwards; swap its ends", at));
}

Result<CodePointSet> RegexReader::take_class() {
  const size_t at = position_;
  ++position_;
  const bool is_negated = take("^");
  if (sees("]")) return not_supported("a class that begins with ] (write \\] for the sign)", at);
  std::vector<CodePointRange> ranges;
  while (!take("]")) {
    if (at_end())
      return invalid_argument(fmt::format("the pattern has a class at byte {} without its end; write ]", at));
    const size_t item_at = position_;
    BASS_ASSIGN_OR_RETURN(CodePointSet item, take_class_item());
    BASS_ASSIGN_OR_RETURN(item, take_class_range(std::move(item), item_at));
    ranges.insert(ranges.end(), item.ranges().begin(), item.ranges().end());
  }
  CodePointSet set(std::move(ranges));
  if (is_negated) set = set.complement();
  if (set.without(CodePointSet({{kHighSurrogates.first, kLowSurrogates.last}})).empty()) {
    return not_supported("a class that no character belongs to", at);
  }
  return set;
}

}  // namespace bass
