#include "text/jinja/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

std::string with_commas(std::string digits) {
  const size_t end = std::min(digits.find('.'), digits.size());
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string float_digits(double magnitude, const FieldFormat& format) {
  if (!std::isfinite(magnitude)) return std::isnan(magnitude) ? "nan" : "inf";
  const int precision = format.precision < 0 ? 6 : format.precision;
  switch (format.type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, precision == 0 ? 1 : precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 0:
      return format.precision < 0 ? float_text(magnitude)
                                  : fmt::format("{:.{}g}", magnitude, precision == 0 ? 1 : precision);
    default:
      return fmt::format("{:.{}f}", magnitude, precision);
  }
}

std::string int_digits(uint64_t magnitude, const FieldFormat& format) {
  switch (format.type) {
    case 'x':
      return fmt::format("{}{:x}", format.is_alternate ? "0x" : "", magnitude);
    case 'X':
      return fmt::format("{}{:X}", format.is_alternate ? "0X" : "", magnitude);
    case 'o':
      return fmt::format("{}{:o}", format.is_alternate ? "0o" : "", magnitude);
    case 'b':
      return fmt::format("{}{:b}", format.is_alternate ? "0b" : "", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

std::string pad(const std::string& sign, const std::string& body, const FieldFormat& format, char own_align) {
  const auto n_used = static_cast<int>(n_characters(sign) + n_characters(body));
  const auto n_fill = static_cast<size_t>(std::max(format.width - n_used, 0));
  const char align = format.align == 0 ? own_align : format.align;
  const size_t n_before = align == '<' ? 0 : align == '^' ? n_fill / 2 : n_fill;
  const std::string before(n_before, format.fill), after(n_fill - n_before, format.fill);
  return align == '=' ? sign + before + body : before + sign + body + after;
}

std::string sign_of(bool is_negative, char sign) {
  if (is_negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

bool is_float_type(char type) { return type != 0 && std::string_view("feg%").find(type) != std::string_view::npos; }

}  // namespace

int take_number(std::string_view* text, int otherwise) {
  if (text->empty() || !is_digit(text->front())) return otherwise;
  int number = 0;
  while (!text->empty() && is_digit(text->front())) {
    number = std::min(number * 10 + (text->front() - '0'), kMaxFieldWidth + 1);
    text->remove_prefix(1);
  }
  return number;
}

std::optional<FieldFormat> parse_field_format(std::string_view spec) {
  FieldFormat format;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (spec.size() > 1 && is_align(spec[1])) {
    format.fill = spec[0];
    spec.remove_prefix(1);
  }
  const auto take_if = [&spec](auto holds) {
    const bool found = !spec.empty() && holds(spec.front());
    const char c = found ? spec.front() : '\0';
    if (found) spec.remove_prefix(1);
    return c;
  };
  format.align = take_if(is_align);
  const char sign = take_if([](char c) { return c == '+' || c == '-' || c == ' '; });
  if (sign != 0) format.sign = sign;
  format.is_alternate = take_if([](char c) { return c == '#'; }) != 0;
  if (take_if([](char c) { return c == '0'; }) != 0 && format.align == 0) {
    format.fill = '0';
    format.align = '=';
  }
  format.width = take_number(&spec, 0);
  format.has_commas = take_if([](char c) { return c == ','; }) != 0;
  if (take_if([](char c) { return c == '.'; }) != 0) format.precision = take_number(&spec, kMaxFieldWidth + 1);
  format.type = take_if([](char c) { return std::string_view("sdfegxXob%").find(c) != std::string_view::npos; });
  const bool is_good = spec.empty() && format.width <= kMaxFieldWidth && format.precision <= kMaxFieldWidth;
  return is_good ? std::optional(format) : std::nullopt;
}

std::string format_field(Runtime& rt, const Value& value, const FieldFormat& format) {
  const bool is_text = format.type == 's' || (format.type == 0 && !value.is_number());
  if (is_text || (value.is(Kind::kBool) && format.type == 0)) {
    std::string text = to_text(rt, value);
    if (format.precision >= 0 && static_cast<int>(n_characters(text)) > format.precision) {
      const Value cut = slice(rt, rt.string(text), Value(), Value::of_int(format.precision), Value());
      text = to_text(rt, cut);
    }
    return pad("", text, format, '<');
  }
  if (!value.is_number()) {
    rt.fail(fmt::format("a number is required, not {}", type_name(value)));
    return {};
  }
  if (value.is(Kind::kFloat) || is_float_type(format.type)) {
    if (format.type != 0 && !is_float_type(format.type)) {
      rt.fail("a whole number is required, not float");
      return {};
    }
    const std::string digits = float_digits(std::abs(value.number()), format);
    return pad(sign_of(std::signbit(value.number()), format.sign), format.has_commas ? with_commas(digits) : digits,
               format, '>');
  }
  const int64_t integer = value.integer();
  const uint64_t magnitude = integer < 0 ? 0 - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
  const std::string digits = int_digits(magnitude, format);
  return pad(sign_of(integer < 0, format.sign), format.has_commas ? with_commas(digits) : digits, format, '>');
}

}  // namespace bass::jinja
