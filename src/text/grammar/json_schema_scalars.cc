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

bool is_of_type(const SchemaJson& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() || (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
}

/// multiple: of which all values are one anyway; 0: there is none
Status check_no_multiples(const SchemaJson& schema, const std::string& path, int multiple) {
  if (!schema.contains("multipleOf") || (multiple > 0 && schema["multipleOf"] == multiple)) return ok_status();
  return wrong_keyword("multipleOf", path, "is not supported; leave it out");
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
  std::vector<std::string> texts;
  for (const SchemaJson& value : values) {
    const bool is_allowed = !schema.contains("type") || std::ranges::any_of(types, [&](const std::string& type) {
      return is_of_type(value, type);
    });
    if (is_allowed) texts.push_back(value.dump());
  }
  if (texts.empty()) return nothing_matches(path);
  return builder_.any_text(std::move(texts));
}

Result<Sequence> SchemaCompiler::string(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const Counts length, counts(schema, "minLength", "maxLength", path));
  BASS_ASSIGN_OR_RETURN(const std::string format_pattern, format_of_string(schema, path));
  const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
  const auto pattern = schema.find("pattern");
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
  if (!format_pattern.empty()) {
    BASS_ASSIGN_OR_RETURN(const Sequence inner,
                          regex_sequence(builder_, fmt::format("^({})$", format_pattern), RegexText::kInJsonString));
    return builder_.concat({quote, inner, quote});
  }
  if (!has_length) return json_.string();
  return builder_.concat({quote, builder_.repeat(json_.string_character(), length.min, length.max), quote});
}

// The pattern of a format that is kept to; empty: none. No text of one is empty, so a least length of one says nothing.
Result<std::string> SchemaCompiler::format_of_string(const SchemaJson& schema, const std::string& path) {
  const auto format = schema.find("format");
  if (format == schema.end()) return std::string();
  if (!format->is_string()) return wrong_keyword("format", path, "must be a string");
  std::string pattern = pattern_of_format(format->get<std::string>());
  if (pattern.empty()) return pattern;
  BASS_ASSIGN_OR_RETURN(const Counts length, counts(schema, "minLength", "maxLength", path));
  if (schema.contains("pattern") || length.min > 1 || length.max) {
    return wrong_keyword("format", path, "beside a pattern or lengths is not supported; leave one of them out");
  }
  return pattern;
}

Result<Sequence> SchemaCompiler::number(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const NumberRange range, number_range(schema, path));
  BASS_RETURN_IF_ERROR(check_no_multiples(schema, path, 0));
  if (range.empty()) return nothing_matches(path);
  return range.is_bounded ? ranges_.decimals(range.min, range.max) : json_.number();
}

Result<Sequence> SchemaCompiler::integer(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const NumberRange range, number_range(schema, path));
  BASS_RETURN_IF_ERROR(check_no_multiples(schema, path, 1));
  const int64_t min = range.first_integer(), max = range.last_integer();
  if (min > max) return nothing_matches(path);
  return min == -kMaxWhole && max == kMaxWhole ? json_.integer() : ranges_.integers(min, max);
}

}  // namespace bass
