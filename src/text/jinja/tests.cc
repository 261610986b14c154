// What can stand behind "is".
#include <fmt/format.h>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

template <class F>
Value test_alone(Runtime& rt, const Arguments& arguments, F holds) {
  const Bound bound(rt, "the test", arguments, {});
  return Value::of_bool(rt.ok() && holds());
}

template <Kind... kinds>
Value is_kind(Runtime& rt, const Value& value, const Arguments& arguments) {
  return test_alone(rt, arguments, [&] { return (value.is(kinds) || ...); });
}

template <Kind... kinds>
Value is_not_kind(Runtime& rt, const Value& value, const Arguments& arguments) {
  return test_alone(rt, arguments, [&] { return !(value.is(kinds) || ...); });
}

template <Operator op>
Value compares(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "the test", arguments, {"other"}, 1);
  return Value::of_bool(rt.ok() && relation(rt, op, value, bound.get(0)));
}

template <bool expected>
Value is_bool(Runtime& rt, const Value& value, const Arguments& arguments) {
  return test_alone(rt, arguments, [&] { return value.is(Kind::kBool) && (value.integer() != 0) == expected; });
}

Value has_rest(Runtime& rt, const Value& value, const Value& divisor, int64_t rest) {
  return Value::of_bool(equals(rt, arithmetic(rt, Operator::kMod, value, divisor), Value::of_int(rest)));
}

template <int64_t rest>
Value is_parity(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "the test", arguments, {});
  return has_rest(rt, value, Value::of_int(2), rest);
}

Value is_divisible(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "divisibleby", arguments, {"num"}, 1);
  return has_rest(rt, value, bound.get(0), 0);
}

template <bool (*holds)(std::string_view)>
Value is_text_that(Runtime& rt, const Value& value, const Arguments& arguments) {
  return test_alone(rt, arguments, [&] {
    const std::string text = to_text(rt, value);
    return rt.spend_on_text(text.size()) && holds(text);
  });
}

template <NativeFunction (*find_named)(std::string_view)>
Value is_known(Runtime& rt, const Value& value, const Arguments& arguments) {
  return test_alone(rt, arguments, [&] { return value.is_string() && find_named(value.text()) != nullptr; });
}

/// Python's "is": of what has no identity of its own here, equality and the same type.
Value is_same(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "sameas", arguments, {"other"}, 1);
  const Value other = bound.get(0);
  if (value.kind() != other.kind()) return Value::of_bool(false);
  const bool has_identity = value.object() != nullptr && !value.is_string() && !value.is_undefined();
  return Value::of_bool(has_identity ? value.object() == other.object() : equals(rt, value, other));
}

Value is_never(Runtime& rt, const Value&, const Arguments& arguments) {
  return test_alone(rt, arguments, [] { return false; });
}

constexpr NamedFunction kTests[] = {
    {"defined", is_not_kind<Kind::kUndefined>},
    {"undefined", is_kind<Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"boolean", is_kind<Kind::kBool>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"integer", is_kind<Kind::kInt>},
    {"float", is_kind<Kind::kFloat>},
    {"number", is_kind<Kind::kInt, Kind::kFloat, Kind::kBool>},
    {"string", is_kind<Kind::kString>},
    {"mapping", is_kind<Kind::kDict>},
    {"sequence", is_kind<Kind::kString, Kind::kList, Kind::kTuple, Kind::kRange, Kind::kDict, Kind::kUndefined>},
    {"iterable", is_kind<Kind::kString, Kind::kList, Kind::kTuple, Kind::kRange, Kind::kDict, Kind::kUndefined,
                         Kind::kView, Kind::kGenerator, Kind::kLoop>},
    {"callable", is_kind<Kind::kFunction, Kind::kMacro, Kind::kUndefined, Kind::kLoop>},
    {"odd", is_parity<1>},
    {"even", is_parity<0>},
    {"divisibleby", is_divisible},
    {"upper", is_text_that<is_upper>},
    {"lower", is_text_that<is_lower>},
    {"in", compares<Operator::kIn>},
    {"eq", compares<Operator::kEq>},
    {"equalto", compares<Operator::kEq>},
    {"==", compares<Operator::kEq>},
    {"ne", compares<Operator::kNe>},
    {"!=", compares<Operator::kNe>},
    {"lt", compares<Operator::kLt>},
    {"lessthan", compares<Operator::kLt>},
    {"<", compares<Operator::kLt>},
    {"le", compares<Operator::kLe>},
    {"<=", compares<Operator::kLe>},
    {"gt", compares<Operator::kGt>},
    {"greaterthan", compares<Operator::kGt>},
    {">", compares<Operator::kGt>},
    {"ge", compares<Operator::kGe>},
    {">=", compares<Operator::kGe>},
    {"sameas", is_same},
    {"filter", is_known<find_filter>},
    {"test", is_known<find_test>},
    {"escaped", is_never},
};

}  // namespace

NativeFunction find_test(std::string_view name) { return find(name, std::begin(kTests), std::end(kTests)); }

}  // namespace bass::jinja
