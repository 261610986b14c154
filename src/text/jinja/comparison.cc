#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

bool equal_items(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equals(rt, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::ranges::all_of(a.entries, [&](const auto& entry) {
    const Value* other = find_entry(rt, b, entry.first);
    return other != nullptr && equals(rt, entry.second, *other);
  });
}

/// Steps of looking at all of a text.
int64_t cost_of(const Value& value) { return value.is_string() ? std::ssize(value.text()) / 64 : 0; }

int sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

int compare_items(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b, std::string_view symbol) {
  for (size_t i = 0; i < std::min(a.size(), b.size()) && rt.ok(); ++i) {
    if (!equals(rt, a[i], b[i])) return compare(rt, a[i], b[i], symbol);
  }
  return sign(a.size(), b.size());
}

bool is_hashable(const Value& key) {
  if (key.is(Kind::kList) || key.is(Kind::kDict)) return false;
  if (!key.is(Kind::kTuple)) return true;
  return std::ranges::all_of(key.as<Sequence>().items, is_hashable);
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.number() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return !value.as<Sequence>().items.empty();
    case Kind::kDict:
      return !value.as<Dict>().entries.empty();
    default:
      return true;
  }
}

bool equals(Runtime& rt, const Value& a, const Value& b) {
  if (!rt.spend(1 + cost_of(a))) return false;
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.kind() != b.kind()) return false;
  if (a.object() == b.object()) return true;  // nones too
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return equal_items(rt, a.as<Sequence>().items, b.as<Sequence>().items);
    case Kind::kDict:
      return equal_dicts(rt, a.as<Dict>(), b.as<Dict>());
    default:
      return false;
  }
}

int compare(Runtime& rt, const Value& a, const Value& b, std::string_view symbol) {
  rt.spend(1 + cost_of(a));
  if (a.is_integral() && b.is_integral()) return sign(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return sign(a.number(), b.number());
  if (a.is_string() && b.is_string()) return sign(a.text(), b.text());  // UTF-8 sorts as its characters do
  if (a.is_list_or_tuple() && a.kind() == b.kind()) {
    return compare_items(rt, a.as<Sequence>().items, b.as<Sequence>().items, symbol);
  }
  if (a.is_undefined() || b.is_undefined()) {
    rt.fail(a.is_undefined() ? a.text() : b.text());
  } else {
    rt.fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(a), type_name(b)));
  }
  return 0;
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (item.is_string()) {
      return rt.spend(cost_of(container)) && rt.spend_on_search(container.text().size(), item.text().size()) &&
             container.text().find(item.text()) != std::string::npos;
    }
    rt.fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    return false;
  }
  if (container.is(Kind::kDict)) return find_entry(rt, container.as<Dict>(), item) != nullptr;
  const std::vector<Value> items = items_of(rt, container);
  return std::ranges::any_of(items, [&](const Value& other) { return equals(rt, item, other); });
}

std::vector<Value> items_of(Runtime& rt, const Value& value) {
  std::vector<Value> items;
  if (value.is(Kind::kGenerator)) {
    auto& generator = value.as<Sequence>();
    items.assign(generator.items.begin() + static_cast<std::ptrdiff_t>(generator.n_taken), generator.items.end());
    generator.n_taken = generator.items.size();
  } else if (value.is_sequence()) {
    items = value.as<Sequence>().items;
  } else if (value.is(Kind::kDict)) {
    for (const auto& [key, entry] : value.as<Dict>().entries) items.push_back(key);
  } else if (value.is_string()) {
    if (!rt.reserve(static_cast<int64_t>(value.text().size() * sizeof(Value)))) return {};
    for (const std::string_view c : characters(value.text())) items.push_back(rt.string(std::string(c)));
  } else if (!value.is_undefined()) {
    rt.fail(fmt::format("'{}' object is not iterable", type_name(value)));
  }
  rt.reserve(static_cast<int64_t>(items.size() * sizeof(Value)));
  return items;
}

std::optional<int64_t> length(Runtime& rt, const Value& value) {
  if (value.is_string()) {
    rt.spend_on_text(value.text().size());
    return static_cast<int64_t>(n_characters(value.text()));
  }
  if (value.is(Kind::kDict)) return std::ssize(value.as<Dict>().entries);
  if (value.is_sequence() && !value.is(Kind::kGenerator)) return std::ssize(value.as<Sequence>().items);
  if (value.is_undefined()) return 0;
  rt.fail(fmt::format("object of type '{}' has no len()", type_name(value)));
  return std::nullopt;
}

const Value* find_entry(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.entries) {
    if (name.is_string() && name.text() == key) return &value;
  }
  return nullptr;
}

const Value* find_entry(Runtime& rt, const Dict& dict, const Value& key) {
  rt.spend_on_names(dict.entries.size());
  if (key.is_string()) return find_entry(dict, key.text());
  if (!is_hashable(key)) {
    rt.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    return nullptr;
  }
  for (const auto& [name, value] : dict.entries) {
    if (equals(rt, name, key)) return &value;
  }
  return nullptr;
}

void set_entry(Runtime& rt, std::vector<std::pair<Value, Value>>* entries, Value key, Value value) {
  rt.spend(1);
  rt.spend_on_names(entries->size());
  if (!is_hashable(key)) {
    rt.fail(fmt::format("unhashable type: '{}'", type_name(key)));
    return;
  }
  for (auto& [name, old] : *entries) {
    if (!equals(rt, name, key)) continue;
    old = std::move(value);
    return;
  }
  entries->emplace_back(std::move(key), std::move(value));
}

}  // namespace bass::jinja
