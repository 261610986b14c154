#include "text/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/grammar/json_schema_compiler.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr std::array<std::string_view, 7> kTypes{"object", "array", "string", "number", "integer", "boolean", "null"};

// Before it is parsed: what is nested is worked on by recursion.
int nesting_of(std::string_view json) {
  int depth = 0, deepest = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      is_in_string = !is_in_string;
    } else if (!is_in_string && (c == '{' || c == '[')) {
      deepest = std::max(deepest, ++depth);
    } else if (!is_in_string && (c == '}' || c == ']')) {
      --depth;
    }
  }
  return deepest;
}

bool is_type(const SchemaJson& name) {
  return name.is_string() && std::ranges::find(kTypes, name.get_ref<const std::string&>()) != kTypes.end();
}

// Which types the keywords speak of.
std::vector<std::string> implied_types(const SchemaJson& schema) {
  std::vector<std::string> types;
  const auto add = [&](const char* type) {
    if (std::ranges::find(types, type) == types.end()) types.emplace_back(type);
  };
  for (const auto& [keyword, value] : schema.items()) {
    switch (topic_of_keyword(keyword, value).value_or(SchemaTopic::kAny)) {
      case SchemaTopic::kObject:
        add("object");
        break;
      case SchemaTopic::kArray:
        add("array");
        break;
      case SchemaTopic::kString:
        add("string");
        break;
      case SchemaTopic::kNumber:
        add("number");
        break;
      default:
        break;
    }
  }
  return types;
}

Result<SchemaJson> read_schema(std::string_view text) {
  if (text.size() > kMaxSchemaBytes) {
    return invalid_argument(fmt::format("the schema has {} bytes; give at most {}", text.size(), kMaxSchemaBytes));
  }
  if (nesting_of(text) > kMaxSchemaNesting) {
    return invalid_argument(fmt::format("the schema is nested deeper than {} levels; use $ref", kMaxSchemaNesting));
  }
  const auto not_valid = [](size_t byte) {
    return invalid_argument(fmt::format("the schema is not valid JSON (at byte {}); mend it", byte));
  };
  // The parser would take a NUL for the end.
  if (const size_t nul = text.find('\0'); nul != text.npos) return not_valid(nul + 1);
  try {
    return SchemaJson::parse(text);
  } catch (const SchemaJson::parse_error& error) {
    return not_valid(error.byte);
  } catch (const SchemaJson::out_of_range&) {
    return invalid_argument("the schema holds a number that is too large; mend it");
  }
}

}  // namespace

Result<std::vector<std::string>> schema_types(const SchemaJson& schema, const std::string& path) {
  const auto type = schema.find("type");
  if (type == schema.end()) return implied_types(schema);
  const SchemaJson names = type->is_array() ? *type : SchemaJson::array({*type});
  std::vector<std::string> types;
  for (const SchemaJson& name : names) {
    if (!is_type(name)) {
      return wrong_keyword("type", path, fmt::format("must be of {}, or a list of these", fmt::join(kTypes, ", ")));
    }
    if (std::ranges::find(types, name.get<std::string>()) == types.end()) types.push_back(name.get<std::string>());
  }
  if (types.empty()) return nothing_matches(path);
  // Two ways to the same text are one too many.
  if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
  return types;
}

Result<Grammar> json_schema_grammar(std::string_view schema) {
  BASS_ASSIGN_OR_RETURN(const SchemaJson document, read_schema(schema));
  return SchemaCompiler(document).compile();
}

Result<Grammar> SchemaCompiler::compile() {
  const Sequence root = wait_for(fmt::format("{}", fmt::ptr(&document_)), document_, "#");
  while (!waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    BASS_ASSIGN_OR_RETURN(Sequence sequence, value(*next.schema, next.path));
    builder_.define(next.rule, {std::move(sequence)});
  }
  Result<Grammar> grammar = builder_.finish(root);
  if (!grammar.ok()) {
    return invalid_argument(fmt::format("the schema cannot be followed: {}; mend it", grammar.status().message()));
  }
  if (has_endless_rule(grammar.value())) {
    return invalid_argument(
        "the schema cannot be followed: nothing that ends matches it; let what refers to itself be optional");
  }
  return grammar;
}

// A rule for the schema, which must stay where it is.
Sequence SchemaCompiler::wait_for(const std::string& key, const SchemaJson& schema, const std::string& path) {
  const auto [known, is_new] = rules_.try_emplace(key, 0);
  if (is_new) {
    known->second = builder_.declare();
    waiting_.push_back({known->second, &schema, path});
  }
  return builder_.rule(known->second);
}

Result<Sequence> SchemaCompiler::reference(const SchemaJson& target, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const SchemaJson* schema, merger_.resolve(target, path));
  return wait_for(fmt::format("{}", fmt::ptr(schema)), *schema, target.get<std::string>());
}

// By its text: what refers to itself by way of allOf would be merged without end.
Result<Sequence> SchemaCompiler::merged_value(SchemaJson merged, const std::string& path) {
  BASS_RETURN_IF_ERROR(merger_.spend(merged));
  const std::string key = merged.dump();
  if (rules_.contains(key)) return wait_for(key, merged, path);
  merged_.push_back(std::move(merged));
  return wait_for(key, merged_.back(), path);
}

Result<Sequence> SchemaCompiler::value(const SchemaJson& schema, const std::string& path) {
  if (++n_schemas_ > kMaxSchemas) {
    return invalid_argument(fmt::format("the schema has more than {} parts; make it smaller", kMaxSchemas));
  }
  if (builder_.is_too_large())
    return invalid_argument("the schema cannot be followed: it is too large; make it smaller");
  if (schema == true) return json_.value();
  if (schema == false) return nothing_matches(path);
  BASS_RETURN_IF_ERROR(check_schema_keywords(schema, path));
  return nullable_value(schema, path);
}

Result<Sequence> SchemaCompiler::nullable_value(const SchemaJson& schema, const std::string& path) {
  const auto nullable = schema.find("nullable");
  if (nullable == schema.end()) return constrained_value(schema, path);
  if (!nullable->is_boolean()) return wrong_keyword("nullable", path, "must be true or false");
  BASS_RETURN_IF_ERROR(merger_.spend(schema));
  SchemaJson rest = without_annotations(schema);
  rest.erase("nullable");
  BASS_ASSIGN_OR_RETURN(Sequence sequence, constrained_value(rest, path));
  if (*nullable == false || rest.empty()) return sequence;
  return builder_.any_of({std::move(sequence), builder_.text("null")});
}

Result<Sequence> SchemaCompiler::constrained_value(const SchemaJson& schema, const std::string& path) {
  size_t n_constraints = 0;
  for (const auto& [keyword, value] : schema.items()) {
    const SchemaTopic topic = topic_of_keyword(keyword, value).value_or(SchemaTopic::kRefused);
    n_constraints += topic != SchemaTopic::kAnnotation && topic != SchemaTopic::kRefused ? 1 : 0;
  }
  if (n_constraints == 0) return json_.value();
  const auto target = schema.find("$ref");
  const auto parts = schema.find("allOf");
  if (n_constraints == 1 && target != schema.end()) return reference(*target, path);
  if (target != schema.end() || parts != schema.end()) {
    BASS_ASSIGN_OR_RETURN(SchemaJson flat, merger_.flatten(schema, path));
    return merged_value(std::move(flat), path);
  }
  if (schema.contains("anyOf") || schema.contains("oneOf")) return one_of_several(schema, path);
  if (schema.contains("enum") || schema.contains("const")) {
    BASS_ASSIGN_OR_RETURN(std::vector<std::string> texts, listed_texts(schema, path));
    return builder_.any_text(std::move(texts));
  }
  return typed_value(schema, path);
}

// What stands beside the list holds for each of its members.
Result<Sequence> SchemaCompiler::one_of_several(const SchemaJson& schema, const std::string& path) {
  const char* const keyword = schema.contains("anyOf") ? "anyOf" : "oneOf";
  const SchemaJson& members = schema.at(keyword);
  if (!members.is_array()) return wrong_keyword(keyword, path, "must be a list of schemas");
  SchemaJson rest = without_annotations(schema);
  rest.erase(keyword);
  if (rest.contains("oneOf"))
    return wrong_keyword("oneOf", path, "beside \"anyOf\" is not supported; write one of them");
  std::vector<Sequence> alternatives;
  for (size_t i = 0; i < members.size(); ++i) {
    const std::string member_path = sub_path(sub_path(path, keyword), std::to_string(i));
    if (members[i] == false) continue;
    if (rest.empty()) {
      BASS_ASSIGN_OR_RETURN(Sequence member, value(members[i], member_path));
      alternatives.push_back(std::move(member));
      continue;
    }
    BASS_ASSIGN_OR_RETURN(const SchemaJson member, merger_.flatten(members[i], member_path));
    SchemaJson both = rest;
    BASS_RETURN_IF_ERROR(merger_.merge(&both, member, member_path));
    BASS_ASSIGN_OR_RETURN(Sequence merged, merged_value(std::move(both), member_path));
    alternatives.push_back(std::move(merged));
  }
  if (alternatives.empty()) return nothing_matches(path);
  return builder_.any_of(std::move(alternatives));
}

Result<Sequence> SchemaCompiler::typed_value(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const std::vector<std::string> types, schema_types(schema, path));
  std::vector<Sequence> alternatives;
  for (const std::string& type : types) {
    BASS_ASSIGN_OR_RETURN(Sequence sequence, value_of_type(type, schema, path));
    alternatives.push_back(std::move(sequence));
  }
  return builder_.any_of(std::move(alternatives));
}

Result<Sequence> SchemaCompiler::value_of_type(const std::string& type, const SchemaJson& schema,
                                               const std::string& path) {
  if (type == "object") return object(schema, path);
  if (type == "array") return array(schema, path);
  if (type == "string") return string(schema, path);
  if (type == "integer") return integer(schema, path);
  if (type == "number") return number(schema, path);
  if (type == "null") return builder_.text("null");
  return builder_.any_of({builder_.text("true"), builder_.text("false")});
}

}  // namespace bass
