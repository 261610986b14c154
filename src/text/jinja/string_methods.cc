#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_functions.h"

namespace bass::jinja {
namespace {

template <Side side>
Value strip_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "strip", arguments, {"chars"});
  const bool has_set = bound.is_given(0);
  const std::string set = has_set ? bound.text(0) : "";
  if (!rt.spend_on_search(self.text().size(), set.size())) return {};
  return rt.string(std::string(has_set ? strip(self.text(), set, side) : strip(self.text(), side)));
}

template <std::string (*change)(std::string_view)>
Value changed(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "the method", arguments, {});
  const bool has_room = rt.has_room(2 * std::ssize(self.text())) && rt.spend_on_text(self.text().size());
  return has_room ? rt.string(change(self.text())) : Value();
}

template <bool (*holds)(std::string_view)>
Value asks(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "the method", arguments, {});
  return Value::of_bool(rt.spend_on_text(self.text().size()) && holds(self.text()));
}

template <bool from_right>
Value split_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "split", arguments, {"sep", "maxsplit"});
  const int64_t max = bound.integer(1, -1);
  if (!bound.is_given(0)) return split_space(rt, self.text(), max, from_right);
  const std::string separator = bound.text(0);
  if (!rt.ok()) return {};
  return separator.empty() ? rt.fail("empty separator") : split_at(rt, self.text(), separator, max, from_right);
}

Value splitlines_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "splitlines", arguments, {"keepends"});
  std::vector<Value> lines;
  if (!rt.reserve(16 * std::ssize(self.text()))) return {};
  for (const std::string_view line : split_lines(self.text(), bound.flag(0)))
    lines.push_back(rt.string(std::string(line)));
  return rt.list(std::move(lines));
}

template <bool at_end>
Value has_affix(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, at_end ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  const Value affix = bound.get(0);
  const Value part = bound.has(1) ? slice(rt, self, bound.get(1), bound.get(2), Value()) : self;
  std::vector<Value> affixes = {affix};
  if (affix.is(Kind::kTuple)) affixes = affix.as<Sequence>().items;
  for (const Value& one : affixes) {
    if (!one.is_string() || !part.is_string())
      return rt.fail(fmt::format("startswith and endswith need a str or a tuple of str, not {}", type_name(one)));
    if (at_end ? part.text().ends_with(one.text()) : part.text().starts_with(one.text())) return Value::of_bool(true);
  }
  return Value::of_bool(false);
}

Value replace_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "replace", arguments, {"old", "new", "count"}, 2);
  const std::string from = bound.text(0), to = bound.text(1);
  return replace_text(rt, self.text(), from, to, bound.integer(2, -1));
}

Value join_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "join", arguments, {"iterable"}, 1);
  const std::vector<Value> items = items_of(rt, bound.get(0));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string())
      return rt.fail(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(items[i])));
  }
  return join_text(rt, items, self.text());
}

/// The characters from `start` up to `end` of a method's arguments, as of Python's slices.
struct TextPart {
  int64_t start = 0;  // characters in front of it
  std::string_view text;
};

/// None where it would begin behind the text, or behind its own end: not even "" is found there.
std::optional<TextPart> searched_part(std::string_view text, const Bound& bound) {
  if (!bound.is_given(1) && !bound.is_given(2)) return TextPart{0, text};
  const std::vector<std::string_view> all = characters(text);
  const auto n = static_cast<int64_t>(all.size());
  const auto place = [&](size_t idx, int64_t otherwise) {
    const int64_t at = bound.is_given(idx) ? bound.integer(idx, otherwise) : otherwise;
    return at < 0 ? std::max<int64_t>(at + n, 0) : at;
  };
  const int64_t start = place(1, 0), end = std::min(place(2, n), n);
  if (start > end) return std::nullopt;
  const auto byte_of = [&](int64_t at) {
    return at == n ? text.size() : static_cast<size_t>(all[static_cast<size_t>(at)].data() - text.data());
  };
  return TextPart{start, text.substr(byte_of(start), byte_of(end) - byte_of(start))};
}

template <bool from_right, bool must_be>
Value find_method_of(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "find", arguments, {"sub", "start", "end"}, 1);
  const std::string sub = bound.text(0);
  if (!rt.spend_on_search(self.text().size(), sub.size())) return {};
  const std::optional<TextPart> part = searched_part(self.text(), bound);
  const size_t at = !part ? std::string::npos : from_right ? part->text.rfind(sub) : part->text.find(sub);
  if (at != std::string::npos)
    return Value::of_int(part->start + static_cast<int64_t>(n_characters(part->text.substr(0, at))));
  return must_be ? rt.fail("substring not found") : Value::of_int(-1);
}

Value count_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "count", arguments, {"sub", "start", "end"}, 1);
  const std::string sub = bound.text(0);
  if (!rt.spend_on_search(self.text().size(), sub.size())) return {};
  const std::optional<TextPart> part = searched_part(self.text(), bound);
  return Value::of_int(part ? count_text(part->text, sub) : 0);
}

Value format_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  return format_braces(rt, self.text(), arguments);
}

template <char align>
Value pad_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "the method", arguments, {"width", "fillchar"}, 1);
  const std::string fill = bound.text(1, " ");
  if (n_characters(fill) != 1) return rt.fail("the fill character must be exactly one character long");
  return pad_text(rt, self.text(), bound.integer(0, 0), fill, align);
}

Value zfill_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  const size_t n_sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const Value padded =
      pad_text(rt, std::string_view(text).substr(n_sign), bound.integer(0, 0) - static_cast<int64_t>(n_sign), "0", '>');
  return rt.ok() ? rt.string(text.substr(0, n_sign) + padded.text()) : Value();
}

template <bool at_end>
Value remove_affix(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "the method", arguments, {"affix"}, 1);
  const std::string affix = bound.text(0);
  const std::string& text = self.text();
  if (!(at_end ? text.ends_with(affix) : text.starts_with(affix))) return self;
  return rt.string(text.substr(at_end ? 0 : affix.size(), text.size() - affix.size()));
}

template <bool from_right>
Value partition_method(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "partition", arguments, {"sep"}, 1);
  const std::string separator = bound.text(0);
  const std::string& text = self.text();
  if (rt.ok() && separator.empty()) return rt.fail("empty separator");
  if (!rt.spend_on_search(text.size(), separator.size())) return {};
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  const Value none = rt.string("");
  if (at == std::string::npos)
    return rt.tuple(from_right ? std::vector{none, none, self} : std::vector{self, none, none});
  return rt.tuple({rt.string(text.substr(0, at)), rt.string(separator), rt.string(text.substr(at + separator.size()))});
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return (c & 0x80) != 0; });
}

constexpr NamedFunction kStringMethods[] = {
    {"strip", strip_method<Side::kBoth>},
    {"lstrip", strip_method<Side::kLeft>},
    {"rstrip", strip_method<Side::kRight>},
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"casefold", changed<to_lower>},
    {"capitalize", changed<capitalize>},
    {"title", changed<to_title>},
    {"swapcase", changed<swap_case>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"startswith", has_affix<false>},
    {"endswith", has_affix<true>},
    {"replace", replace_method},
    {"join", join_method},
    {"find", find_method_of<false, false>},
    {"rfind", find_method_of<true, false>},
    {"index", find_method_of<false, true>},
    {"rindex", find_method_of<true, true>},
    {"count", count_method},
    {"format", format_method},
    {"center", pad_method<'^'>},
    {"ljust", pad_method<'<'>},
    {"rjust", pad_method<'>'>},
    {"zfill", zfill_method},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"isalpha", asks<all_alpha>},
    {"isdigit", asks<all_digit>},
    {"isdecimal", asks<all_digit>},
    {"isnumeric", asks<all_digit>},
    {"isalnum", asks<all_alnum>},
    {"isspace", asks<all_space>},
    {"isupper", asks<is_upper>},
    {"islower", asks<is_lower>},
    {"isascii", asks<is_ascii>},
};

}  // namespace

NativeFunction find_string_method(std::string_view name) {
  return find(name, std::begin(kStringMethods), std::end(kStringMethods));
}

}  // namespace bass::jinja
