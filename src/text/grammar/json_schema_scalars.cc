#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/grammar/json_formats.h"
#include "text/grammar/json_number_multiple.h"
#include "text/grammar/json_schema_compiler.h"
#include "text/grammar/json_string_product.h"
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

}  // namespace

// Of an enum or a const.
Result<std::vector<std::string>> SchemaCompiler::listed_texts(const SchemaJson& schema, const std::string& path) {
  const char* const keyword = schema.contains("enum") ? "enum" : "const";
  for (const auto& [other, value] : schema.items()) {
    const SchemaTopic topic = topic_of_keyword(other, value).value_or(SchemaTopic::kRefused);
    const bool is_fine =
        topic == SchemaTopic::kAnnotation || topic == SchemaTopic::kRefused || other == keyword || other == "type";
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
  return texts;
}

Result<Sequence> SchemaCompiler::string(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const Counts length, counts(schema, "minLength", "maxLength", path));
  BASS_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, patterns_of_string(schema, path));
  const Sequence quote = builder_.text("\"");
  const bool has_pattern = schema.contains("pattern");
  // No text of a format is empty.
  const bool has_length = length.max || length.min > (has_pattern || patterns.empty() ? 0 : 1);
  if (patterns.empty() && !has_length) return json_.string();
  if (patterns.empty())
    return builder_.concat({quote, builder_.repeat(json_.string_character(), length.min, length.max), quote});
  const auto not_supported = [&](const Status& status) {
    return wrong_keyword(has_pattern ? "pattern" : "format", path,
                         fmt::format("is not supported: {}", status.message()));
  };
  if (patterns.size() == 1 && !has_length) {
    const Result<Sequence> inner = regex_sequence(builder_, patterns[0], RegexText::kInJsonString);
    return inner.ok() ? builder_.concat({quote, inner.value(), quote})
                      : Result<Sequence>(not_supported(inner.status()));
  }
  const auto [known, is_new] = products_.try_emplace({patterns, length.min, length.max});
  if (is_new) {
    const Result<std::optional<Sequence>> inner =
        json_string_product(builder_, patterns, length.min, length.max, &work_left_);
    if (!inner.ok()) return not_supported(inner.status());
    if (!inner.value()) return nothing_matches(path);
    known->second = builder_.concat({quote, *inner.value(), quote});
  }
  return known->second;
}

// Of its format, where that is one that is kept to, and its own.
Result<std::vector<std::string>> SchemaCompiler::patterns_of_string(const SchemaJson& schema, const std::string& path) {
  std::vector<std::string> patterns;
  if (const auto format = schema.find("format"); format != schema.end()) {
    if (!format->is_string()) return wrong_keyword("format", path, "must be a string");
    const std::string pattern = pattern_of_format(format->get<std::string>());
    if (!pattern.empty()) patterns.push_back(fmt::format("^({})$", pattern));
  }
  if (const auto pattern = schema.find("pattern"); pattern != schema.end()) {
    if (!pattern->is_string()) return wrong_keyword("pattern", path, "must be a string");
    patterns.push_back(pattern->get<std::string>());
  }
  return patterns;
}

Result<Sequence> SchemaCompiler::number(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const NumberRange range, number_range(schema, path));
  if (range.empty()) return nothing_matches(path);
  if (schema.contains("multipleOf")) return multiples(schema, range, /*are_integers=*/false, path);
  return range.is_bounded ? ranges_.decimals(range.min, range.max) : json_.number();
}

Result<Sequence> SchemaCompiler::integer(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const NumberRange range, number_range(schema, path));
  const int64_t min = range.first_integer(), max = range.last_integer();
  if (min > max) return nothing_matches(path);
  if (schema.contains("multipleOf")) return multiples(schema, range, /*are_integers=*/true, path);
  return min == -kMaxWhole && max == kMaxWhole ? json_.integer() : ranges_.integers(min, max);
}

Result<Sequence> SchemaCompiler::multiples(const SchemaJson& schema, const NumberRange& range, bool are_integers,
                                           const std::string& path) {
  const SchemaJson& multiple = schema.at("multipleOf");
  const auto [known, is_new] = multiples_.try_emplace({multiple.dump(), range.min, range.max, are_integers});
  if (is_new) {
    const Result<std::optional<Sequence>> within = multiples_within(builder_, multiple, range, are_integers);
    if (!within.ok()) return wrong_keyword("multipleOf", path, within.status().message());
    if (!within.value()) return nothing_matches(path);
    known->second = single_element(builder_, *within.value());
  }
  return known->second;
}

}  // namespace bass
