#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

/// float(text) of Python.
std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::kBoth);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// int(text, base) of Python; underscores may stand between digits.
std::optional<int64_t> parse_int(std::string_view text, int base) {
  constexpr size_t kMaxDigits = 4300;  // Python reads no more either
  text = strip(text, Side::kBoth);
  if (text.size() > kMaxDigits) return std::nullopt;
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  if (base != 10 && to_lower(text.substr(0, 2)) == prefix) text.remove_prefix(2);
  std::string digits(is_negative ? "-" : "");
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (text[i] == '_' && is_between) continue;
    if (text[i] == '-') return std::nullopt;
    digits += text[i];
  }
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || stop != digits.data() + digits.size()) return std::nullopt;
  return value;
}

Value truncated(Runtime& rt, double value, const Value& otherwise, bool is_text) {
  if (std::abs(value) < 9.2e18) return Value::of_int(static_cast<int64_t>(value));
  return is_text ? otherwise : rt.fail("a float that is no whole number of 64 bits");
}

Value filter_int(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "int", arguments, {"default", "base"});
  Value otherwise = bound.has(0) ? bound.get(0) : Value::of_int(0);
  const int64_t base = bound.integer(1, 10);
  if (base != 10 && base != 2 && base != 8 && base != 16) return rt.fail("int: the base must be 2, 8, 10 or 16");
  if (value.is_undefined()) return rt.fail(value.text());
  if (value.is_integral()) return Value::of_int(value.integer());
  if (value.is(Kind::kFloat)) return truncated(rt, value.number(), otherwise, false);
  if (!value.is_string()) return otherwise;
  if (const std::optional<int64_t> number = parse_int(value.text(), static_cast<int>(base)))
    return Value::of_int(*number);
  const std::optional<double> number = parse_float(value.text());
  return number.has_value() ? truncated(rt, *number, otherwise, true) : otherwise;
}

Value filter_float(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "float", arguments, {"default"});
  Value otherwise = bound.has(0) ? bound.get(0) : Value::of_float(0);
  if (value.is_undefined()) return rt.fail(value.text());
  if (value.is_number()) return Value::of_float(value.number());
  const std::optional<double> number = value.is_string() ? parse_float(value.text()) : std::nullopt;
  return number.has_value() ? Value::of_float(*number) : otherwise;
}

Value filter_abs(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "abs", arguments, {});
  if (value.is(Kind::kFloat)) return Value::of_float(std::abs(value.number()));
  return value.is_integral() && value.integer() >= 0 ? Value::of_int(value.integer()) : signed_value(rt, value, true);
}

/// As Python's round: correct in the decimal digits, ties to even. fmt writes exactly that.
double round_digits(double value, int digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::nearbyint(value / scale) * scale;
  }
  return parse_float(fmt::format("{:.{}f}", value, digits)).value_or(value);
}

Value filter_round(Runtime& rt, const Value& value, const Arguments& arguments) {
  const Bound bound(rt, "round", arguments, {"precision", "method"});
  const auto digits = static_cast<int>(std::clamp<int64_t>(bound.integer(0, 0), -300, 1000));
  const std::string method = bound.text(1, "common");
  if (!rt.ok()) return {};
  if (value.is_undefined()) return rt.fail(value.text());
  if (!value.is_number()) return rt.fail(fmt::format("round needs a number, not {}", type_name(value)));
  if (method == "common") {
    if (value.is_integral() && digits >= 0) return Value::of_int(value.integer());
    const double rounded = round_digits(value.number(), digits);
    return value.is_integral() ? Value::of_int(static_cast<int64_t>(rounded)) : Value::of_float(rounded);
  }
  if (method != "ceil" && method != "floor") return rt.fail("round: the method must be common, ceil or floor");
  const double scale = std::pow(10.0, digits), scaled = value.number() * scale;
  return Value::of_float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr NamedFunction kNumberFilters[] = {
    {"int", filter_int}, {"float", filter_float}, {"abs", filter_abs}, {"round", filter_round}};

}  // namespace

NativeFunction find_number_filter(std::string_view name) {
  return find(name, std::begin(kNumberFilters), std::end(kNumberFilters));
}

}  // namespace bass::jinja
