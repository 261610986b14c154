#include "text/jinja/string_functions.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace bass::jinja {
namespace {

constexpr int64_t kStepsPerPart = 8;  // bounds the parts of a text before they are values

Value texts(Runtime& rt, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  for (const std::string_view part : parts) items.push_back(rt.string(std::string(part)));
  return rt.list(std::move(items));
}

size_t word_len(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const Utf8Char c = first_utf8_char(text.substr(n));
    if (c.valid && is_space(c.code_point)) break;
    n += c.n_bytes;
  }
  return n;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  for (text = strip(text, Side::kLeft); !text.empty(); text = strip(text, Side::kLeft)) {
    result.push_back(text.substr(0, word_len(text)));
    text.remove_prefix(result.back().size());
  }
  return result;
}

}  // namespace

Value split_space(Runtime& rt, std::string_view text, int64_t max, bool from_right) {
  if (!rt.reserve(8 * std::ssize(text))) return {};  // a word may be one letter
  std::vector<std::string_view> parts = words(text);
  const auto n_split = static_cast<size_t>(max);
  if (max < 0 || parts.size() <= n_split) return texts(rt, parts);
  if (from_right) {  // the first words stay together, with the blanks in front of them
    const auto n_joined = static_cast<std::ptrdiff_t>(parts.size() - n_split);
    const std::string_view last = parts[static_cast<size_t>(n_joined - 1)];
    parts.erase(parts.begin(), parts.begin() + n_joined - 1);
    parts[0] = text.substr(0, static_cast<size_t>(last.data() + last.size() - text.data()));
    return texts(rt, parts);
  }
  const std::string_view rest = parts[n_split];
  parts.resize(n_split);
  parts.push_back(text.substr(static_cast<size_t>(rest.data() - text.data())));
  return texts(rt, parts);
}

Value split_at(Runtime& rt, std::string_view text, std::string_view separator, int64_t max, bool from_right) {
  if (!rt.reserve(std::ssize(text)) || !rt.spend_on_search(text.size(), separator.size())) return {};
  std::vector<std::string_view> parts;
  while (max < 0 || std::ssize(parts) < max) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos || !rt.spend(kStepsPerPart)) break;
    const size_t behind = at + separator.size();
    parts.push_back(from_right ? text.substr(behind) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(behind);
  }
  parts.push_back(text);
  if (from_right) std::ranges::reverse(parts);
  return texts(rt, parts);
}

int64_t count_text(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<int64_t>(n_characters(text)) + 1;
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

Value replace_text(Runtime& rt, std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  if (!rt.spend_on_search(text.size(), from.size())) return {};
  const int64_t n_found = count_text(text, from);
  const int64_t n = count < 0 ? n_found : std::min(count, n_found);
  int64_t n_added = 0;
  const bool is_huge = __builtin_mul_overflow(n, std::ssize(to) - std::ssize(from), &n_added);
  if (!rt.reserve(is_huge ? -1 : std::ssize(text) + n_added)) return {};
  std::string out;
  out.reserve(static_cast<size_t>(std::ssize(text) + n_added));
  for (int64_t i = 0; i < n; ++i) {
    // Nothing is found in front of every character and at the end.
    const size_t at = from.empty() ? 0 : text.find(from);
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
    if (!from.empty() || text.empty()) continue;
    const size_t n_bytes = first_utf8_char(text).n_bytes;
    out += text.substr(0, n_bytes);
    text.remove_prefix(n_bytes);
  }
  out += text;
  return rt.string(std::move(out));
}

Value join_text(Runtime& rt, std::span<const Value> items, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < items.size() && rt.ok(); ++i) {
    if (i > 0) out += separator;
    if (items[i].is_string() && !rt.has_room(std::ssize(out) + std::ssize(items[i].text()))) break;
    out += items[i].is_string() ? items[i].text() : to_text(rt, items[i]);
    rt.has_room(std::ssize(out) + std::ssize(separator));
  }
  return rt.string(std::move(out));
}

Value pad_text(Runtime& rt, std::string_view text, int64_t width, std::string_view fill, char align) {
  const int64_t n_missing = width - static_cast<int64_t>(n_characters(text));
  if (n_missing <= 0) return rt.string(std::string(text));
  int64_t n_bytes = 0;
  const bool is_huge = __builtin_mul_overflow(n_missing, std::ssize(fill), &n_bytes);
  if (!rt.reserve(is_huge ? -1 : n_bytes)) return {};
  // Python's center puts the odd blank on the left where the width is odd.
  const int64_t n_before = align == '<' ? 0 : align == '>' ? n_missing : n_missing / 2 + (n_missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < n_before; ++i) out += fill;
  out += text;
  for (int64_t i = n_before; i < n_missing; ++i) out += fill;
  return rt.string(std::move(out));
}

}  // namespace bass::jinja
