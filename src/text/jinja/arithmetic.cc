#include <fmt/format.h>

#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/operators.h"

namespace bass::jinja {
namespace {

std::string_view symbol_of(Operator op) {
  constexpr std::string_view kSymbols[] = {"+",  "-",  "*", "/",  "//", "%", "** or pow()",
                                           "==", "!=", "<", "<=", ">",  ">="};
  return op < Operator::kIn ? kSymbols[static_cast<size_t>(op)] : "in";
}

Value unsupported(Runtime& rt, Operator op, const Value& a, const Value& b) {
  if (a.is_undefined() || b.is_undefined()) return rt.fail(a.is_undefined() ? a.text() : b.text());
  return rt.fail(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(op), type_name(a), type_name(b)));
}

Value overflow(Runtime& rt) { return rt.fail("a whole number of more than 64 bits"); }

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

double float_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value int_pow(Runtime& rt, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return rt.fail("0 cannot be raised to a negative power");
    return Value::of_float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::of_int(exponent == 0 ? 1 : base);
  if (base == -1) return Value::of_int(exponent % 2 == 0 ? 1 : -1);
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {  // at most 64 rounds
    if (__builtin_mul_overflow(result, base, &result)) return overflow(rt);
  }
  return Value::of_int(result);
}

Value int_divide(Runtime& rt, Operator op, int64_t a, int64_t b) {
  if (b == 0) return rt.fail("division by zero");
  if (op == Operator::kDiv) return Value::of_float(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // the one case in which a quotient overflows
    int64_t result = 0;
    if (op == Operator::kMod) return Value::of_int(0);
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? overflow(rt) : Value::of_int(result);
  }
  const int64_t quotient = floor_div(a, b);
  return Value::of_int(op == Operator::kMod ? a - quotient * b : quotient);
}

Value int_arithmetic(Runtime& rt, Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSub:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMul:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kPow:
      return int_pow(rt, a, b);
    default:
      return int_divide(rt, op, a, b);
  }
  return overflows ? overflow(rt) : Value::of_int(result);
}

Value float_arithmetic(Runtime& rt, Operator op, double a, double b) {
  const bool divides = op == Operator::kDiv || op == Operator::kFloorDiv || op == Operator::kMod;
  if (divides && b == 0) return rt.fail("division by zero");
  switch (op) {
    case Operator::kAdd:
      return Value::of_float(a + b);
    case Operator::kSub:
      return Value::of_float(a - b);
    case Operator::kMul:
      return Value::of_float(a * b);
    case Operator::kDiv:
      return Value::of_float(a / b);
    case Operator::kFloorDiv:
      return Value::of_float(std::floor((a - float_mod(a, b)) / b + 0.5));
    case Operator::kMod:
      return Value::of_float(float_mod(a, b));
    default:
      break;
  }
  if (a < 0 && b != std::floor(b)) return rt.fail("a complex number has no place in a template");
  if (a == 0 && b < 0) return rt.fail("0 cannot be raised to a negative power");
  const double power = std::pow(a, b);
  return std::isinf(power) && !std::isinf(a) && !std::isinf(b) ? rt.fail("Numerical result out of range")
                                                               : Value::of_float(power);
}

/// text * n, list * n.
Value repeat(Runtime& rt, const Value& value, int64_t n) {
  n = std::max<int64_t>(n, 0);
  const bool is_text = value.is_string();
  const auto size = static_cast<int64_t>(is_text ? value.text().size() : value.as<Sequence>().items.size());
  int64_t n_bytes = 0;
  const bool is_huge = __builtin_mul_overflow(size * (is_text ? 1 : static_cast<int64_t>(sizeof(Value))), n, &n_bytes);
  if (!rt.reserve(is_huge ? -1 : n_bytes) || size == 0) n = 0;
  if (is_text) {
    std::string out;
    out.reserve(static_cast<size_t>(size * n));
    for (int64_t i = 0; i < n; ++i) out += value.text();
    return rt.string(std::move(out));
  }
  std::vector<Value> items;
  const std::vector<Value>& from = value.as<Sequence>().items;
  for (int64_t i = 0; i < n; ++i) items.insert(items.end(), from.begin(), from.end());
  return rt.sequence(value.kind(), std::move(items));
}

bool can_repeat(const Value& value) { return value.is_string() || value.is_list_or_tuple(); }

Value joined(Runtime& rt, const Value& a, const Value& b) {
  if (a.is_string()) {
    if (!rt.reserve(static_cast<int64_t>(a.text().size() + b.text().size()))) return {};
    return rt.string(a.text() + b.text());
  }
  std::vector<Value> items = a.as<Sequence>().items;
  const std::vector<Value>& more = b.as<Sequence>().items;
  if (!rt.reserve(static_cast<int64_t>((items.size() + more.size()) * sizeof(Value)))) return {};
  items.insert(items.end(), more.begin(), more.end());
  return rt.sequence(a.kind(), std::move(items));
}

}  // namespace

Value arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return int_arithmetic(rt, op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return float_arithmetic(rt, op, a.number(), b.number());
  if (op == Operator::kAdd && a.kind() == b.kind() && can_repeat(a)) return joined(rt, a, b);
  if (op == Operator::kMul && can_repeat(a) && b.is_integral()) return repeat(rt, a, b.integer());
  if (op == Operator::kMul && a.is_integral() && can_repeat(b)) return repeat(rt, b, a.integer());
  if (op == Operator::kMod && a.is_string() && !b.is_undefined()) return format_percent(rt, a.text(), b);
  return unsupported(rt, op, a, b);
}

Value signed_value(Runtime& rt, const Value& value, bool is_negative) {
  if (value.is_undefined()) return rt.fail(value.text());
  if (value.is(Kind::kFloat)) return Value::of_float(is_negative ? -value.number() : value.number());
  if (!value.is_integral()) return rt.fail(fmt::format("bad operand type for unary sign: '{}'", type_name(value)));
  return is_negative ? int_arithmetic(rt, Operator::kSub, 0, value.integer()) : Value::of_int(value.integer());
}

bool relation(Runtime& rt, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEq:
      return equals(rt, a, b);
    case Operator::kNe:
      return !equals(rt, a, b);
    case Operator::kIn:
      return contains(rt, b, a);
    case Operator::kNotIn:
      return !contains(rt, b, a);
    case Operator::kLt:
      return compare(rt, a, b, "<") < 0;
    case Operator::kLe:
      return compare(rt, a, b, "<=") <= 0;
    case Operator::kGt:
      return compare(rt, a, b, ">") > 0;
    default:
      return compare(rt, a, b, ">=") >= 0;
  }
}

}  // namespace bass::jinja
