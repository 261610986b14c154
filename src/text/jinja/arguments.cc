#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace bass::jinja {

Bound::Bound(Runtime& rt, std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t n_required)
    : rt_(rt), function_(function), values_(names.size()) {
  if (arguments.positional.size() > names.size()) {
    rt.fail(
        fmt::format("{} takes at most {} argument(s), {} given", function, names.size(), arguments.positional.size()));
    return;
  }
  std::ranges::copy(arguments.positional, values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto idx = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (idx == names.size()) {
      rt.fail(fmt::format("{} got an unexpected keyword argument '{}'", function, name));
      return;
    }
    if (has(idx)) rt.fail(fmt::format("{} got multiple values for argument '{}'", function, name));
    values_[idx] = value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (!has(i)) rt.fail(fmt::format("{} misses its argument '{}'", function, *(names.begin() + i)));
  }
}

std::string Bound::text(size_t idx, std::string_view otherwise) const {
  if (!has(idx)) return std::string(otherwise);
  const Value& value = *values_[idx];
  if (value.is_string()) return value.text();
  rt_.fail(value.is_undefined() ? value.text() : fmt::format("{} needs a str, got {}", function_, type_name(value)));
  return {};
}

int64_t Bound::integer(size_t idx, int64_t otherwise) const {
  if (!has(idx)) return otherwise;
  const Value& value = *values_[idx];
  if (value.is_integral()) return value.integer();
  rt_.fail(value.is_undefined() ? value.text() : fmt::format("{} needs an int, got {}", function_, type_name(value)));
  return 0;
}

bool Bound::flag(size_t idx, bool otherwise) const { return has(idx) ? is_true(*values_[idx]) : otherwise; }

NativeFunction find(std::string_view name, const NamedFunction* begin, const NamedFunction* end) {
  const auto* found = std::find_if(begin, end, [name](const NamedFunction& f) { return f.name == name; });
  return found == end ? nullptr : found->call;
}

Value apply_filter(Runtime& rt, std::string_view name, const Value& value, const Arguments& arguments) {
  if (!rt.ok()) return {};
  const NativeFunction filter = find_filter(name);
  return filter == nullptr ? rt.fail(fmt::format("no filter named '{}'", name)) : filter(rt, value, arguments);
}

bool apply_test(Runtime& rt, std::string_view name, const Value& value, const Arguments& arguments) {
  if (!rt.ok()) return false;
  const NativeFunction test = find_test(name);
  if (test == nullptr) rt.fail(fmt::format("no test named '{}'", name));
  return test != nullptr && is_true(test(rt, value, arguments));
}

Value attribute_path(Runtime& rt, const Value& object, const Value& path) {
  if (!path.is_string()) return item(rt, object, path);
  Value value = object;
  std::string_view rest = path.text();
  while (rt.ok()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    const bool is_number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string_view::npos;
    value = item(rt, value, is_number ? Value::of_int(std::stoll(std::string(part))) : rt.string(std::string(part)));
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  return value;
}

}  // namespace bass::jinja
