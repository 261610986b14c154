#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_functions.h"

namespace bass::jinja {
namespace {

/// An indention: a text, or a number of spaces.
std::string indention_of(Runtime& rt, const Bound& bound, size_t idx, int64_t otherwise) {
  if (bound.has(idx) && bound.get(idx).is_string()) return bound.text(idx);
  const int64_t width = std::max<int64_t>(bound.integer(idx, otherwise), 0);
  return std::string(rt.reserve(width) ? static_cast<size_t>(width) : 0, ' ');
}

Value filter_trim(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "trim", arguments, {"chars"});
  const std::string text = to_text(rt, value), set = bound.is_given(0) ? bound.text(0) : "";
  if (!rt.spend_on_search(text.size(), set.size())) return {};
  return rt.string(std::string(bound.is_given(0) ? strip(text, set, Side::kBoth) : strip(text, Side::kBoth)));
}

template <std::string (*change)(std::string_view)>
Value filter_change(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "the filter", arguments, {});
  const std::string text = to_text(rt, value);
  const bool has_room = rt.has_room(2 * std::ssize(text)) && rt.spend_on_text(text.size());
  return has_room ? rt.string(change(text)) : Value();
}

std::string unchanged(std::string_view text) { return std::string(text); }

std::string escape_html(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr std::string_view kWritten[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  std::string out;
  for (const char c : text) {
    const size_t idx = kSpecial.find(c);
    if (idx == std::string_view::npos) {
      out += c;
    } else {
      out += kWritten[idx];
    }
  }
  return out;
}

Value filter_escape(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "escape", arguments, {});
  const std::string text = to_text(rt, value);
  const bool has_room = rt.has_room(5 * std::ssize(text)) && rt.spend_on_text(text.size());
  return has_room ? rt.string(escape_html(text)) : Value();
}

Value filter_replace(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "replace", arguments, {"old", "new", "count"}, 2);
  const int64_t count = bound.is_given(2) ? bound.integer(2, -1) : -1;
  return replace_text(rt, to_text(rt, value), to_text(rt, bound.get(0)), to_text(rt, bound.get(1)), count);
}

Value filter_join(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "join", arguments, {"d", "attribute"});
  std::vector<Value> items = items_of(rt, value);
  if (bound.is_given(1)) {
    for (Value& item : items) item = attribute_path(rt, item, bound.get(1));
  }
  return join_text(rt, items, bound.has(0) ? to_text(rt, bound.get(0)) : "");
}

Value filter_indent(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "indent", arguments, {"width", "first", "blank"});
  if (!value.is_string()) return rt.fail(value.is_undefined() ? value.text() : "indent needs a str");
  const std::string indention = indention_of(rt, bound, 0, 4);
  if (!rt.has_room(17 * std::ssize(value.text())) || !rt.spend_on_text(value.text().size()))
    return {};  // lines may be empty
  const std::string text = value.text() + "\n";
  const std::vector<std::string_view> lines = split_lines(text, false);
  if (!rt.reserve(std::ssize(text) + std::ssize(lines) * std::ssize(indention))) return {};
  std::string out = bound.flag(1) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (bound.flag(2) || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return rt.string(std::move(out));
}

Value filter_center(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "center", arguments, {"width"});
  return pad_text(rt, to_text(rt, value), bound.integer(0, 80), " ", '^');
}

Value filter_format(Runtime& rt, const Value& value, const Arguments& arguments) {
  if (arguments.named.empty()) return format_percent(rt, to_text(rt, value), rt.tuple(arguments.positional));
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, argument] : arguments.named) entries.emplace_back(rt.string(name), argument);
  if (!arguments.positional.empty()) return rt.fail("format takes positional or named arguments, not both");
  return format_percent(rt, to_text(rt, value), rt.dict(std::move(entries)));
}

Value filter_truncate(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string text = to_text(rt, value), end = bound.text(2, "...");
  const int64_t max = bound.integer(0, 255), leeway = bound.is_given(3) ? bound.integer(3, 5) : 5;
  const auto n = static_cast<int64_t>(n_characters(text)), n_end = static_cast<int64_t>(n_characters(end));
  if (max < n_end || leeway < 0) return rt.fail("truncate: the length is shorter than its end");
  if (!rt.ok() || max >= n || n - max <= leeway) return rt.string(text);
  const Value cut = slice(rt, rt.string(text), Value(), Value::of_int(max - n_end), Value());
  const std::string kept = to_text(rt, cut);
  return rt.string(kept.substr(0, bound.flag(1) ? kept.size() : kept.rfind(' ')) + end);
}

Value filter_wordcount(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "wordcount", arguments, {});
  int64_t n = 0;
  bool in_word = false;
  const std::string text = to_text(rt, value);
  if (!rt.reserve(16 * std::ssize(text))) return {};
  for (const std::string_view c : characters(text)) {
    const bool is_word = c == "_" || all_alnum(c);
    n += is_word && !in_word ? 1 : 0;
    in_word = is_word;
  }
  return Value::of_int(n);
}

Value filter_tojson(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0);
  style.sort_keys = bound.flag(3);
  if (bound.is_given(1)) {
    style.indent = indention_of(rt, bound, 1, 0);
    style.item_separator = ',';
  }
  if (bound.is_given(2)) {
    const std::vector<Value> separators = items_of(rt, bound.get(2));
    if (separators.size() != 2) return rt.fail("tojson: separators are two texts");
    style.item_separator = to_text(rt, separators[0]);
    style.key_separator = to_text(rt, separators[1]);
  }
  return rt.ok() ? rt.string(to_json(rt, value, style)) : Value();
}

constexpr NamedFunction kTextFilters[] = {
    {"trim", filter_trim},
    {"upper", filter_change<to_upper>},
    {"lower", filter_change<to_lower>},
    {"capitalize", filter_change<capitalize>},
    {"title", filter_change<title_words>},
    {"string", filter_change<unchanged>},
    {"safe", filter_change<unchanged>},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_escape},
    {"replace", filter_replace},
    {"join", filter_join},
    {"indent", filter_indent},
    {"center", filter_center},
    {"format", filter_format},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"tojson", filter_tojson},
};

}  // namespace

NativeFunction find_text_filter(std::string_view name) {
  return find(name, std::begin(kTextFilters), std::end(kTextFilters));
}

}  // namespace bass::jinja
