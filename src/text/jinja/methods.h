// Methods of strings, lists and dicts; filters, tests and functions, by their names; how they read arguments.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace bass::jinja {

/// nullptr if values of the kind have no such method.
NativeFunction find_method(Kind kind, std::string_view name);
/// A method that would change its object, which templates must not.
bool is_forbidden_method(Kind kind, std::string_view name);
NativeFunction find_filter(std::string_view name);
NativeFunction find_test(std::string_view name);
/// range, namespace, dict, cycler, joiner, raise_exception, strftime_now.
NativeFunction find_function(std::string_view name);
/// current, next and reset of a cycler; nullopt if there is no such attribute.
std::optional<Value> cycler_attribute(Runtime& rt, const Value& cycler, std::string_view name);

struct NamedFunction {
  std::string_view name;
  NativeFunction call;
};
NativeFunction find(std::string_view name, const NamedFunction* begin, const NamedFunction* end);

/// The arguments of a call under the names of the parameters. Error: too many of them, an unknown name, one given
/// twice, or one of the first `n_required` left out.
class Bound {
 public:
  Bound(Runtime& rt, std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> names, size_t n_required = 0);

  [[nodiscard]] bool has(size_t idx) const { return values_[idx].has_value(); }
  /// The argument, or none where it was left out.
  [[nodiscard]] Value get(size_t idx) const { return values_[idx].value_or(Value()); }
  /// The same as a text, a number, a truth. Errors: another type.
  [[nodiscard]] std::string text(size_t idx, std::string_view otherwise = {}) const;
  [[nodiscard]] int64_t integer(size_t idx, int64_t otherwise) const;
  [[nodiscard]] bool flag(size_t idx, bool otherwise = false) const;
  /// Neither left out nor none.
  [[nodiscard]] bool is_given(size_t idx) const { return has(idx) && !values_[idx]->is_none(); }

 private:
  Runtime& rt_;
  std::string function_;
  std::vector<std::optional<Value>> values_;
};

/// Filters that take filters or tests by name, and attributes by a path such as "function.name".
Value apply_filter(Runtime& rt, std::string_view name, const Value& value, const Arguments& arguments);
bool apply_test(Runtime& rt, std::string_view name, const Value& value, const Arguments& arguments);
Value attribute_path(Runtime& rt, const Value& object, const Value& path);

}  // namespace bass::jinja
