#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/loop.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

std::string python_name(const Value& object) {
  return object.is_none() ? "None" : fmt::format("{} object", type_name(object));
}

Value no_attribute(Runtime& rt, const Value& object, std::string_view name) {
  return rt.undefined(fmt::format("'{}' has no attribute '{}'", python_name(object), name));
}

/// What object.name is in Python, items left out.
std::optional<Value> own_attribute(Runtime& rt, const Value& object, std::string_view name) {
  if (name.starts_with("__") || is_forbidden_method(object.kind(), name)) {
    return rt.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  if (object.is(Kind::kNamespace)) {
    if (!rt.spend_on_names(object.as<Namespace>().attributes.size())) return std::nullopt;
    for (const auto& [key, value] : object.as<Namespace>().attributes) {
      if (key == name) return value;
    }
    return std::nullopt;
  }
  if (object.is(Kind::kLoop)) return loop_attribute(rt, object, name);
  if (object.is(Kind::kCycler)) return cycler_attribute(rt, object, name);
  if (const NativeFunction method = find_method(object.kind(), name)) return rt.function(method, object);
  return std::nullopt;
}

std::optional<Value> at(Runtime& rt, const Value& object, int64_t index) {
  if (object.is_string()) {
    if (!rt.has_room(16 * std::ssize(object.text())) || !rt.spend_on_text(object.text().size())) return std::nullopt;
    const std::vector<std::string_view> all = characters(object.text());
    if (index < 0) index += std::ssize(all);
    if (index < 0 || index >= std::ssize(all)) return std::nullopt;
    return rt.string(std::string(all[static_cast<size_t>(index)]));
  }
  if (!object.is_list_or_tuple() && !object.is(Kind::kRange)) return std::nullopt;
  const std::vector<Value>& items = object.as<Sequence>().items;
  if (index < 0) index += std::ssize(items);
  if (index < 0 || index >= std::ssize(items)) return std::nullopt;
  return items[static_cast<size_t>(index)];
}

struct SliceBounds {
  int64_t start = 0;
  int64_t step = 1;
  int64_t n = 0;
};

/// Python's rules for what a slice of `size` items holds. Negative positions count from the end.
SliceBounds slice_bounds(int64_t size, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](std::optional<int64_t> position, int64_t otherwise) {
    if (!position.has_value()) return otherwise;
    return std::clamp(*position < 0 ? std::max(*position, -size - 1) + size : *position, low, high);
  };
  const int64_t first = place(start, step > 0 ? low : high), last = place(stop, step > 0 ? high : low);
  const int64_t distance = step > 0 ? last - first : first - last;
  const int64_t stride = step > 0 ? step : -step;
  return {first, step, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

template <class T>
std::vector<T> pick(const std::vector<T>& items, const SliceBounds& bounds) {
  std::vector<T> out;
  out.reserve(static_cast<size_t>(bounds.n));
  for (int64_t i = 0; i < bounds.n; ++i) out.push_back(items[static_cast<size_t>(bounds.start + i * bounds.step)]);
  return out;
}

bool is_slice_bound(const Value& value) { return value.is_none() || value.is_integral(); }

std::optional<int64_t> bound(const Value& value) {
  return value.is_none() ? std::nullopt : std::optional<int64_t>(value.integer());
}

Value slice_text(Runtime& rt, const std::string& text, const SliceBounds& bounds, size_t n_bytes_hint) {
  std::string out;
  out.reserve(n_bytes_hint);
  for (const std::string_view c : pick(characters(text), bounds)) out += c;
  return rt.string(std::move(out));
}

}  // namespace

Value attribute(Runtime& rt, const Value& object, std::string_view name) {
  if (!rt.ok()) return {};
  if (object.is_undefined()) return rt.fail(object.text());
  if (std::optional<Value> own = own_attribute(rt, object, name)) return *own;
  if (object.is(Kind::kDict)) {
    rt.spend_on_names(object.as<Dict>().entries.size());
    const Value* entry = find_entry(object.as<Dict>(), name);
    if (entry != nullptr) return *entry;
  }
  return no_attribute(rt, object, name);
}

Value item(Runtime& rt, const Value& object, const Value& key) {
  if (!rt.ok()) return {};
  if (object.is_undefined()) return rt.fail(object.text());
  if (object.is(Kind::kDict)) {
    // A key that no dict can have is no error here: Jinja takes it for one that is not there.
    const bool can_be_key = !key.is(Kind::kList) && !key.is(Kind::kDict);
    const Value* entry = can_be_key ? find_entry(rt, object.as<Dict>(), key) : nullptr;
    if (entry != nullptr) return *entry;
  } else if (key.is_integral()) {
    if (std::optional<Value> found = at(rt, object, key.integer())) return *found;
  }
  if (!key.is_string()) {
    std::string shown;
    append_repr(rt, key, &shown);
    return rt.undefined(fmt::format("{} has no element {}", python_name(object), shown));
  }
  if (std::optional<Value> own = own_attribute(rt, object, key.text())) return *own;
  return no_attribute(rt, object, key.text());
}

Value slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (!rt.ok()) return {};
  if (object.is_undefined()) return rt.fail(object.text());
  const bool is_items = object.is_list_or_tuple() || object.is(Kind::kRange);
  if ((!is_items && !object.is_string()) || !is_slice_bound(start) || !is_slice_bound(stop) || !is_slice_bound(step)) {
    return rt.undefined(fmt::format("{} has no such slice", python_name(object)));
  }
  const int64_t stride = bound(step).value_or(1);
  if (stride == 0) return rt.fail("slice step cannot be zero");
  const std::optional<int64_t> size = length(rt, object);
  if (stride == INT64_MIN || !rt.reserve(size.value_or(0) * static_cast<int64_t>(sizeof(Value)))) return {};
  const SliceBounds bounds = slice_bounds(*size, bound(start), bound(stop), stride);
  if (object.is_string()) return slice_text(rt, object.text(), bounds, object.text().size());
  const Kind kind = object.is(Kind::kRange) ? Kind::kTuple : object.kind();
  return rt.sequence(kind, pick(object.as<Sequence>().items, bounds));
}

}  // namespace bass::jinja
