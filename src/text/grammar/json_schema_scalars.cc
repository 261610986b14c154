#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/grammar/json_formats.h"
#include "text/grammar/json_schema_compiler.h"
#include "text/grammar/regex_grammar.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr int64_t kMaxInteger = 9999999999999999;  // of JsonGrammar::kMaxDigits digits

bool is_of_type(const SchemaJson& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() || (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

/// A bound, and how far an exclusive one is from the first number that it lets in.
struct BoundKeyword {
  const char* name;
  bool is_min;
  int step;
};
constexpr BoundKeyword kBounds[] = {
    {"minimum", true, 0}, {"exclusiveMinimum", true, 1}, {"maximum", false, 0}, {"exclusiveMaximum", false, -1}};

// The nearest integer within; what is beyond all of ours becomes the first beyond.
int64_t integer_bound(const SchemaJson& bound, const BoundKeyword& keyword) {
  constexpr int64_t kBeyond = kMaxInteger + 1;
  if (bound.is_number_unsigned() && bound.get<uint64_t>() > static_cast<uint64_t>(kMaxInteger)) return kBeyond;
  if (bound.is_number_integer()) return std::clamp(bound.get<int64_t>(), -kBeyond, kBeyond) + keyword.step;
  const double real = bound.get<double>();
  if (std::abs(real) >= static_cast<double>(kBeyond)) return real < 0 ? -kBeyond : kBeyond;
  const double whole = keyword.is_min ? std::ceil(real) : std::floor(real);
  return static_cast<int64_t>(whole) + (whole == real ? keyword.step : 0);
}

Status check_bounds(const SchemaJson& schema, const std::string& path) {
  for (const BoundKeyword& keyword : kBounds) {
    const auto bound = schema.find(keyword.name);
    if (bound != schema.end() && !bound->is_number()) return wrong_keyword(keyword.name, path, "must be a number");
  }
  if (!schema.contains("multipleOf")) return ok_status();
  return wrong_keyword("multipleOf", path, "is not supported; leave it out");
}

ByteSet digit_range(char first, char last) {
  ByteSet set;
  for (char digit = first; digit <= last; ++digit) set.set(static_cast<uint8_t>(digit));
  return set;
}

}  // namespace

Result<Sequence> SchemaCompiler::listed_value(const SchemaJson& schema, const std::string& path) {
  const char* const keyword = schema.contains("enum") ? "enum" : "const";
  for (const auto& [other, value] : schema.items()) {
    const SchemaTopic topic = topic_of_keyword(other).value_or(SchemaTopic::kRefused);
    const bool is_fine =
        topic == SchemaTopic::kAnnotation || other == keyword || other == "type" || other == "uniqueItems";
    if (is_fine) continue;
    return wrong_keyword(other, path, fmt::format("beside \"{}\" is not supported; leave it out", keyword));
  }
  const SchemaJson& listed = schema.at(keyword);
  const SchemaJson values = schema.contains("enum") ? listed : SchemaJson::array({listed});
  if (!values.is_array()) return wrong_keyword(keyword, path, "must be a list");
  std::vector<std::string> types;
  if (schema.contains("type")) {
    BASS_ASSIGN_OR_RETURN(types, schema_types(schema, path));
  }
  std::vector<Sequence> alternatives;
  for (const SchemaJson& value : values) {
    const bool is_allowed = !schema.contains("type") || std::ranges::any_of(types, [&](const std::string& type) {
      return is_of_type(value, type);
    });
    if (is_allowed) alternatives.push_back(builder_.text(value.dump()));
  }
  if (alternatives.empty()) return nothing_matches(path);
  return builder_.any_of(std::move(alternatives));
}

Result<Sequence> SchemaCompiler::string(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const Counts length, counts(schema, "minLength", "maxLength", path));
  const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
  const auto pattern = schema.find("pattern");
  const auto format = schema.find("format");
  const Sequence quote = builder_.text("\"");
  if (pattern != schema.end()) {
    if (!pattern->is_string()) return wrong_keyword("pattern", path, "must be a string");
    if (has_length) {
      return wrong_keyword("pattern", path,
                           "beside minLength or maxLength is not supported; put the length into the pattern");
    }
    Result<Sequence> inner = regex_sequence(builder_, pattern->get<std::string>(), RegexText::kInJsonString);
    if (!inner.ok())
      return wrong_keyword("pattern", path, fmt::format("is not supported: {}", inner.status().message()));
    return builder_.concat({quote, inner.value(), quote});
  }
  if (has_length) {
    return builder_.concat({quote, builder_.repeat(json_.string_character(), length.min, length.max), quote});
  }
  if (format == schema.end()) return json_.string();
  if (!format->is_string()) return wrong_keyword("format", path, "must be a string");
  const std::string format_pattern = pattern_of_format(format->get<std::string>());
  if (format_pattern.empty()) return json_.string();
  BASS_ASSIGN_OR_RETURN(const Sequence inner,
                        regex_sequence(builder_, fmt::format("^({})$", format_pattern), RegexText::kInJsonString));
  return builder_.concat({quote, inner, quote});
}

Result<Sequence> SchemaCompiler::number(const SchemaJson& schema, const std::string& path) {
  BASS_RETURN_IF_ERROR(check_bounds(schema, path));
  for (const BoundKeyword& keyword : kBounds) {
    if (!schema.contains(keyword.name)) continue;
    return wrong_keyword(keyword.name, path, "is supported for \"type\": \"integer\" only; say that, or leave it out");
  }
  return json_.number();
}

Result<Sequence> SchemaCompiler::integer(const SchemaJson& schema, const std::string& path) {
  BASS_RETURN_IF_ERROR(check_bounds(schema, path));
  int64_t min = -kMaxInteger, max = kMaxInteger;
  for (const BoundKeyword& keyword : kBounds) {
    const auto bound = schema.find(keyword.name);
    if (bound == schema.end()) continue;
    const int64_t limit = integer_bound(*bound, keyword);
    if (keyword.is_min) {
      min = std::max(min, limit);
    } else {
      max = std::min(max, limit);
    }
  }
  if (min > max) return nothing_matches(path);
  return min == -kMaxInteger && max == kMaxInteger ? json_.integer() : integer_range(min, max);
}

Sequence SchemaCompiler::integer_range(int64_t min, int64_t max) {
  std::vector<Sequence> parts;
  // Numbers of as many digits each, the least of which is `first`.
  const auto add = [&](std::string_view sign, int64_t from, int64_t to) {
    for (int64_t first = 0, last = 9; first <= to; first = last + 1, last = last * 10 + 9) {
      const int64_t low = std::max(from, first), high = std::min(to, last);
      if (low > high) continue;
      parts.push_back(builder_.concat({builder_.text(sign), digits_range(std::to_string(low), std::to_string(high))}));
    }
  };
  if (min < 0) add("-", std::max<int64_t>(1, -max), -min);
  if (max >= 0) add("", std::max<int64_t>(0, min), max);
  return builder_.any_of(std::move(parts));
}

// As many digits in both. Where all digits behind the first may be anything for a part of the range, that part is one
// alternative; its two ends go on a digit further.
Sequence SchemaCompiler::digits_range(std::string_view min, std::string_view max) {
  const std::string zeros(min.size(), '0'), nines(min.size(), '9');
  if (min == zeros && max == nines) {
    Sequence all;
    for (size_t i = 0; i < min.size(); ++i) all.push_back(builder_.bytes(digit_range('0', '9')).front());
    return all;
  }
  const auto from = [&](char digit, std::string_view low, std::string_view high) {
    return builder_.concat({builder_.bytes(digit_range(digit, digit)), digits_range(low, high)});
  };
  const std::string_view low = min.substr(1), high = max.substr(1);
  const std::string_view all_zeros = std::string_view(zeros).substr(1), all_nines = std::string_view(nines).substr(1);
  if (min[0] == max[0]) return from(min[0], low, high);
  std::vector<Sequence> parts;
  char first = min[0], last = max[0];
  if (low != all_zeros) parts.push_back(from(first++, low, all_nines));
  if (high != all_nines) parts.push_back(from(last--, all_zeros, high));
  if (first <= last) {
    parts.push_back(builder_.concat({builder_.bytes(digit_range(first, last)), digits_range(all_zeros, all_nines)}));
  }
  return builder_.any_of(std::move(parts));
}

}  // namespace bass
