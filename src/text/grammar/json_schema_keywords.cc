#include "text/grammar/json_schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/utf8.h"

namespace bass {
namespace {

struct Keyword {
  std::string_view name;
  SchemaTopic topic;
};

using enum SchemaTopic;
constexpr std::array kKeywords{
    Keyword{"type", kAny},
    Keyword{"enum", kAny},
    Keyword{"const", kAny},
    Keyword{"anyOf", kAny},
    Keyword{"oneOf", kAny},
    Keyword{"allOf", kAny},
    Keyword{"$ref", kAny},
    Keyword{"nullable", kAny},
    Keyword{"properties", kObject},
    Keyword{"required", kObject},
    Keyword{"additionalProperties", kObject},
    Keyword{"minProperties", kObject},
    Keyword{"maxProperties", kObject},
    Keyword{"propertyNames", kObject},
    Keyword{"items", kArray},
    Keyword{"prefixItems", kArray},
    Keyword{"minItems", kArray},
    Keyword{"maxItems", kArray},
    Keyword{"uniqueItems", kArray},
    Keyword{"minLength", kString},
    Keyword{"maxLength", kString},
    Keyword{"pattern", kString},
    Keyword{"format", kString},
    Keyword{"minimum", kNumber},
    Keyword{"maximum", kNumber},
    Keyword{"exclusiveMinimum", kNumber},
    Keyword{"exclusiveMaximum", kNumber},
    Keyword{"multipleOf", kNumber},
    Keyword{"title", kAnnotation},
    Keyword{"description", kAnnotation},
    Keyword{"default", kAnnotation},
    Keyword{"example", kAnnotation},
    Keyword{"examples", kAnnotation},
    Keyword{"$schema", kAnnotation},
    Keyword{"$id", kAnnotation},
    Keyword{"$anchor", kAnnotation},
    Keyword{"$comment", kAnnotation},
    Keyword{"$defs", kAnnotation},
    Keyword{"definitions", kAnnotation},
    Keyword{"deprecated", kAnnotation},
    Keyword{"readOnly", kAnnotation},
    Keyword{"writeOnly", kAnnotation},
    Keyword{"contentMediaType", kAnnotation},
    Keyword{"contentEncoding", kAnnotation},
    Keyword{"contentSchema", kAnnotation},
    Keyword{"discriminator", kAnnotation},  // OpenAPI: a hint beside oneOf
    Keyword{"not", kRefused},
    Keyword{"if", kRefused},
    Keyword{"then", kRefused},
    Keyword{"else", kRefused},
    Keyword{"contains", kRefused},
    Keyword{"minContains", kRefused},
    Keyword{"maxContains", kRefused},
    Keyword{"additionalItems", kRefused},
    Keyword{"patternProperties", kRefused},
    Keyword{"dependencies", kRefused},
    Keyword{"dependentRequired", kRefused},
    Keyword{"dependentSchemas", kRefused},
    Keyword{"unevaluatedItems", kRefused},
    Keyword{"unevaluatedProperties", kRefused},
    Keyword{"$dynamicRef", kRefused},
    Keyword{"$dynamicAnchor", kRefused},
    Keyword{"$recursiveRef", kRefused},
    Keyword{"$recursiveAnchor", kRefused},
    Keyword{"$vocabulary", kRefused},
};

constexpr size_t kMaxShownBytes = 200;

/// What is refused where it constrains, and here does not.
bool says_nothing(std::string_view keyword, const SchemaJson& value) {
  constexpr std::string_view kByName[] = {"patternProperties", "dependentRequired", "dependentSchemas", "dependencies"};
  return value.is_object() && value.empty() && std::ranges::find(kByName, keyword) != std::end(kByName);
}

}  // namespace

std::optional<SchemaTopic> topic_of_keyword(std::string_view keyword, const SchemaJson& value) {
  if (keyword == "uniqueItems" && value == false) return kAnnotation;
  if (keyword.starts_with("x-")) return kAnnotation;  // what anybody may add
  const auto* const found = std::ranges::find(kKeywords, keyword, &Keyword::name);
  if (found == kKeywords.end()) return std::nullopt;
  return found->topic;
}

std::string sub_path(std::string_view path, std::string_view key) {
  std::string result = fmt::format("{}/", path);
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

Status check_schema_keywords(const SchemaJson& schema, std::string_view path) {
  if (!schema.is_object())
    return invalid_argument(fmt::format("the schema at {} must be an object, true or false", shown_text(path)));
  for (const auto& [keyword, value] : schema.items()) {
    const std::optional<SchemaTopic> topic = topic_of_keyword(keyword, value);
    if (!topic) return wrong_keyword(keyword, path, "is not known; leave it out or mend its name");
    if (*topic == kRefused && !says_nothing(keyword, value))
      return wrong_keyword(keyword, path, "is not supported; leave it out");
  }
  return ok_status();
}

SchemaJson without_annotations(const SchemaJson& schema) {
  SchemaJson rest = SchemaJson::object();
  for (const auto& [keyword, value] : schema.items()) {
    const SchemaTopic topic = topic_of_keyword(keyword, value).value_or(kRefused);
    if (topic != kAnnotation && topic != kRefused) rest[keyword] = value;
  }
  return rest;
}

std::string shown_text(std::string_view text) {
  if (text.size() <= kMaxShownBytes) return std::string(text);
  return to_valid_utf8(text.substr(0, kMaxShownBytes)) + "...";
}

Status nothing_matches(std::string_view path) {
  return invalid_argument(fmt::format("nothing matches the schema at {}; mend it or leave it out", shown_text(path)));
}

Status wrong_keyword(std::string_view keyword, std::string_view path, std::string_view what) {
  return invalid_argument(fmt::format("\"{}\" at {} {}", shown_text(keyword), shown_text(path), what));
}

}  // namespace bass
