// map, select and their like: filters that take filters, tests and attributes by name; and the list of all filters.
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"

namespace bass::jinja {
namespace {

/// The arguments from `n` on, which are those of the filter or test that was named.
Arguments behind(const Arguments& arguments, size_t n) {
  return {{arguments.positional.begin() + static_cast<std::ptrdiff_t>(n), arguments.positional.end()}, arguments.named};
}

// All of them make nothing of what is false, such as none, whatever they were to do with its items.

Value map_attribute(Runtime& rt, const Value& value, const Arguments& arguments) {
  Arguments named{{}, arguments.named};
  const Bound bound(rt, "map", named, {"attribute", "default"}, 1);
  std::vector<Value> items;
  for (const Value& item : items_of(rt, value)) {
    Value found = attribute_path(rt, item, bound.get(0));
    items.push_back(found.is_undefined() && bound.is_given(1) ? bound.get(1) : std::move(found));
  }
  return rt.generator(std::move(items));
}

Value filter_map(Runtime& rt, const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return rt.generator({});
  if (arguments.positional.empty()) return map_attribute(rt, value, arguments);
  const Value& name = arguments.positional[0];
  if (!name.is_string()) return rt.fail("map needs the name of a filter");
  const Arguments rest = behind(arguments, 1);
  std::vector<Value> items;
  for (const Value& item : items_of(rt, value)) {
    if (rt.spend(1)) items.push_back(apply_filter(rt, name.text(), item, rest));
  }
  return rt.generator(std::move(items));
}

template <bool wants, bool by_attribute>
Value filter_select(Runtime& rt, const Value& value, const Arguments& arguments) {
  if (!is_true(value)) return rt.generator({});
  const size_t n_own = by_attribute ? 1 : 0;
  if (arguments.positional.size() < n_own) return rt.fail("the filter needs the name of an attribute");
  const bool has_test = arguments.positional.size() > n_own;
  const Value name = has_test ? arguments.positional[n_own] : Value();
  if (has_test && !name.is_string()) return rt.fail("the filter needs the name of a test");
  const Arguments rest = has_test ? behind(arguments, n_own + 1) : Arguments{};
  std::vector<Value> items;
  for (const Value& item : items_of(rt, value)) {
    if (!rt.spend(1)) break;
    const Value asked = by_attribute ? attribute_path(rt, item, arguments.positional[0]) : item;
    const bool holds = has_test ? apply_test(rt, name.text(), asked, rest) : is_true(asked);
    if (holds == wants) items.push_back(item);
  }
  return rt.generator(std::move(items));
}

constexpr NamedFunction kSelectingFilters[] = {{"map", filter_map},
                                               {"select", filter_select<true, false>},
                                               {"reject", filter_select<false, false>},
                                               {"selectattr", filter_select<true, true>},
                                               {"rejectattr", filter_select<false, true>}};

}  // namespace

NativeFunction find_selecting_filter(std::string_view name) {
  return find(name, std::begin(kSelectingFilters), std::end(kSelectingFilters));
}

NativeFunction find_filter(std::string_view name) {
  for (const auto group : {find_text_filter, find_list_filter, find_selecting_filter, find_number_filter}) {
    if (const NativeFunction filter = group(name)) return filter;
  }
  return nullptr;
}

}  // namespace bass::jinja
