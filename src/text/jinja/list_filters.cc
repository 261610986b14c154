#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

Value filter_length(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "length", arguments, {});
  return Value::of_int(length(rt, value).value_or(0));
}

Value filter_default(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "default", arguments, {"default_value", "boolean"});
  if (!value.is_undefined() && !(bound.flag(1) && !is_true(value))) return value;
  return bound.has(0) ? bound.get(0) : rt.string("");
}

Value filter_first(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "first", arguments, {});
  if (value.is(Kind::kGenerator)) {  // the others stay
    auto& generator = value.as<Sequence>();
    if (generator.n_taken < generator.items.size()) return generator.items[generator.n_taken++];
  }
  const std::vector<Value> items = items_of(rt, value);
  return items.empty() ? rt.undefined("No first item, sequence was empty.") : items.front();
}

Value filter_last(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "last", arguments, {});
  if (value.is(Kind::kGenerator)) return rt.fail("'generator' object is not reversible");
  const std::vector<Value> items = items_of(rt, value);
  return items.empty() ? rt.undefined("No last item, sequence was empty.") : items.back();
}

Value filter_list(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "list", arguments, {});
  return rt.list(items_of(rt, value));
}

Value filter_reverse(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "reverse", arguments, {});
  if (value.is_string()) return slice(rt, value, Value(), Value(), Value::of_int(-1));
  std::vector<Value> items = items_of(rt, value);
  std::ranges::reverse(items);
  return value.is(Kind::kGenerator) ? rt.list(std::move(items)) : rt.generator(std::move(items));
}

Value filter_items(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "items", arguments, {});
  std::vector<Value> items;
  if (value.is(Kind::kDict)) {
    for (const auto& [key, entry] : value.as<Dict>().entries) items.push_back(rt.tuple({key, entry}));
  } else if (!value.is_undefined()) {
    return rt.fail("Can only get item pairs from a mapping.");
  }
  return rt.generator(std::move(items));
}

/// What items are compared by: an attribute, and without regard to case.
Value sort_key(Runtime& rt, const Value& item, const Value& path, bool minds_case) {
  const Value key = path.is_none() ? item : attribute_path(rt, item, path);
  return key.is_string() && !minds_case ? rt.string(to_lower(key.text())) : key;
}

using Keyed = std::pair<Value, Value>;  // key, item

std::vector<Keyed> with_keys(Runtime& rt, const Value& value, const Value& path, bool minds_case) {
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(rt, value)) keyed.emplace_back(sort_key(rt, item, path, minds_case), item);
  return keyed;
}

/// Python sorts stably, in reverse too.
void sort_keyed(Runtime& rt, std::vector<Keyed>* keyed, bool is_reverse) {
  std::ranges::stable_sort(*keyed, [&](const Keyed& a, const Keyed& b) {
    const int order = compare(rt, a.first, b.first, "<");
    return is_reverse ? order > 0 : order < 0;
  });
}

Value items_of_keyed(Runtime& rt, const std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  for (const auto& [key, item] : keyed) items.push_back(item);
  return rt.list(std::move(items));
}

/// A comma joins several attributes.
std::vector<Value> paths_of(Runtime& rt, const Value& paths) {
  if (!paths.is_string()) return {paths};
  std::vector<Value> all;
  for (size_t begin = 0; begin <= paths.text().size() && rt.ok();) {
    const size_t end = std::min(paths.text().find(',', begin), paths.text().size());
    all.push_back(rt.string(paths.text().substr(begin, end - begin)));
    begin = end + 1;
  }
  return all;
}

/// Keys are lists, whose equal entries need not be in any order to each other.
std::vector<Keyed> with_keys_of_paths(Runtime& rt, const Value& value, const Value& paths, bool minds_case) {
  const std::vector<Value> all = paths_of(rt, paths);
  std::vector<Keyed> keyed;
  for (const Value& item : items_of(rt, value)) {
    std::vector<Value> keys;
    for (const Value& path : all) keys.push_back(sort_key(rt, item, path, minds_case));
    keyed.emplace_back(rt.list(std::move(keys)), item);
  }
  return keyed;
}

Value filter_sort(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> keyed = with_keys_of_paths(rt, value, bound.get(2), bound.flag(1));
  sort_keyed(rt, &keyed, bound.flag(0));
  return items_of_keyed(rt, keyed);
}

Value filter_dictsort(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.text(1, "key");
  if (by != "key" && by != "value") return rt.fail("dictsort: by must be \"key\" or \"value\"");
  if (!value.is(Kind::kDict)) return rt.fail(value.is_undefined() ? value.text() : "dictsort needs a mapping");
  const Value pairs = filter_items(rt, value, {});
  std::vector<Keyed> keyed = with_keys(rt, pairs, Value::of_int(by == "key" ? 0 : 1), bound.flag(0));
  sort_keyed(rt, &keyed, bound.flag(2));
  return items_of_keyed(rt, keyed);
}

Value filter_unique(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen, items;
  for (const auto& [key, item] : with_keys(rt, value, bound.get(1), bound.flag(0))) {
    if (!rt.ok()) break;  // each item is compared with all before it
    if (std::ranges::any_of(seen, [&, &k = key](const Value& other) { return equals(rt, k, other); })) continue;
    seen.push_back(key);
    items.push_back(item);
  }
  return rt.generator(std::move(items));
}

template <bool is_max>
Value filter_extreme(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, is_max ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Keyed> keyed = with_keys(rt, value, bound.get(1), bound.flag(0));
  if (keyed.empty()) return rt.undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &keyed.front();
  for (const Keyed& one : keyed) {
    const int order = compare(rt, one.first, best->first, is_max ? ">" : "<");
    if (is_max ? order > 0 : order < 0) best = &one;
  }
  return best->second;
}

Value filter_sum(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "sum", arguments, {"attribute", "start"});
  Value sum = bound.has(1) ? bound.get(1) : Value::of_int(0);
  if (sum.is_string()) return rt.fail("sum() can't sum strings");
  for (const Value& item : items_of(rt, value)) {
    sum = arithmetic(rt, Operator::kAdd, sum, bound.is_given(0) ? attribute_path(rt, item, bound.get(0)) : item);
  }
  return sum;
}

Value filter_batch(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t n_a_line = bound.integer(0, 1);
  if (n_a_line < 1) return rt.fail("batch: the count must be at least 1");
  std::vector<Value> lines, line;
  for (const Value& item : items_of(rt, value)) {
    if (std::ssize(line) == n_a_line) lines.push_back(rt.list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    if (bound.is_given(1) && rt.reserve(std::min<int64_t>(n_a_line, INT32_MAX) * static_cast<int64_t>(sizeof(Value)))) {
      line.resize(static_cast<size_t>(n_a_line), bound.get(1));
    }
    lines.push_back(rt.list(std::move(line)));
  }
  return rt.generator(std::move(lines));
}

Value filter_attr(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "attr", arguments, {"name"}, 1);
  const std::string name = bound.text(0);
  return attribute(rt, value, name);
}

constexpr NamedFunction kListFilters[] = {
    {"length", filter_length},      {"count", filter_length},      {"default", filter_default},
    {"d", filter_default},          {"first", filter_first},       {"last", filter_last},
    {"list", filter_list},          {"reverse", filter_reverse},   {"items", filter_items},
    {"sort", filter_sort},          {"dictsort", filter_dictsort}, {"unique", filter_unique},
    {"min", filter_extreme<false>}, {"max", filter_extreme<true>}, {"sum", filter_sum},
    {"batch", filter_batch},        {"attr", filter_attr},
};

}  // namespace

NativeFunction find_list_filter(std::string_view name) {
  return find(name, std::begin(kListFilters), std::end(kListFilters));
}

}  // namespace bass::jinja
