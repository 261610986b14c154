// Methods of lists, tuples and dicts.
#include <algorithm>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_functions.h"

namespace bass::jinja {
namespace {

Value call_get(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "get", arguments, {"key", "default"}, 1);
  const Value* entry = find_entry(rt, self.as<Dict>(), bound.get(0));
  return entry != nullptr ? *entry : bound.get(1);
}

enum class Part { kKeys, kValues, kItems };

template <Part part>
Value call_view(Runtime& rt, const Value& self, const Arguments& arguments) {
  constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
  const Bound bound(rt, "the method", arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.as<Dict>().entries) {
    items.push_back(part == Part::kKeys ? key : part == Part::kValues ? value : rt.tuple({key, value}));
  }
  return rt.sequence(Kind::kView, std::move(items), kNames[static_cast<size_t>(part)]);
}

/// Nothing can be changed, so a copy is the thing itself.
Value call_copy(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "copy", arguments, {});
  return self;
}

Value call_index(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "index", arguments, {"value"}, 1);
  const std::vector<Value>& items = self.as<Sequence>().items;
  const auto found = std::ranges::find_if(items, [&](const Value& item) { return equals(rt, item, bound.get(0)); });
  return found == items.end() ? rt.fail("the value is not in the list") : Value::of_int(found - items.begin());
}

Value call_count(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "count", arguments, {"value"}, 1);
  return Value::of_int(std::ranges::count_if(self.as<Sequence>().items,
                                             [&](const Value& item) { return equals(rt, item, bound.get(0)); }));
}

constexpr NamedFunction kDictMethods[] = {{"get", call_get},
                                          {"keys", call_view<Part::kKeys>},
                                          {"values", call_view<Part::kValues>},
                                          {"items", call_view<Part::kItems>},
                                          {"copy", call_copy}};
constexpr NamedFunction kListMethods[] = {{"index", call_index}, {"count", call_count}, {"copy", call_copy}};

constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};

}  // namespace

NativeFunction find_method(Kind kind, std::string_view name) {
  if (kind == Kind::kString) return find_string_method(name);
  if (kind == Kind::kDict) return find(name, std::begin(kDictMethods), std::end(kDictMethods));
  const size_t n_methods = kind == Kind::kList ? 3 : kind == Kind::kTuple ? 2 : 0;  // tuples have no copy
  return find(name, std::begin(kListMethods), std::begin(kListMethods) + n_methods);
}

bool is_forbidden_method(Kind kind, std::string_view name) {
  if (kind == Kind::kDict) return std::ranges::find(kDictChanges, name) != std::end(kDictChanges);
  return kind == Kind::kList && std::ranges::find(kListChanges, name) != std::end(kListChanges);
}

}  // namespace bass::jinja
