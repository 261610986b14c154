#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "text/grammar/json_schema_compiler.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr size_t kMaxNameNodes = 1 << 15;

/// Names letter by letter: where one may still become one of them, and where no more.
struct NameTree {
  struct Node {
    std::map<char32_t, size_t> next;
    bool is_name = false;
  };
  std::vector<Node> nodes{1};  // a node's children come behind it

  void add(std::string_view name) {
    size_t at = 0;
    while (!name.empty()) {
      const Utf8Char first = first_utf8_char(name);
      name.remove_prefix(first.n_bytes);
      const auto [child, is_new] = nodes[at].next.try_emplace(first.code_point, nodes.size());
      at = child->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[at].is_name = true;
  }
};

}  // namespace

struct SchemaCompiler::Object {
  struct Member {
    std::string name;
    Sequence value;
    bool is_required = false;
    bool is_forbidden = false;  // its schema is false: no member has this name
  };
  std::vector<Member> members;         // in their order
  std::optional<Sequence> additional;  // values of other members; none: there are no others
  std::optional<Sequence> names;       // of these; none: any but the members'
  Counts n_additional;
};

Result<Sequence> SchemaCompiler::object(const SchemaJson& schema, const std::string& path) {
  BASS_ASSIGN_OR_RETURN(Object object, object_members(schema, path));
  BASS_ASSIGN_OR_RETURN(object.additional, additional_value(schema, path));
  BASS_RETURN_IF_ERROR(add_required(schema, path, &object));
  BASS_ASSIGN_OR_RETURN(object.n_additional, counts(schema, "minProperties", "maxProperties", path));
  const bool has_counts = object.n_additional.min > 0 || object.n_additional.max;
  if (has_counts && !object.members.empty()) {
    const char* const keyword = object.n_additional.max ? "maxProperties" : "minProperties";
    return wrong_keyword(keyword, path, "beside properties or required is not supported; leave it out");
  }
  if (object.n_additional.min > 0 && !object.additional) return nothing_matches(path);
  BASS_ASSIGN_OR_RETURN(object.names, property_names(schema, path));
  if (object.names && !object.members.empty()) {
    return wrong_keyword("propertyNames", path, "beside properties or required is not supported; leave it out");
  }
  return object_text(object, path);
}

// None: they may be any strings.
Result<std::optional<Sequence>> SchemaCompiler::property_names(const SchemaJson& schema, const std::string& path) {
  const auto names = schema.find("propertyNames");
  if (names == schema.end()) return std::optional<Sequence>();
  const std::string names_path = sub_path(path, "propertyNames");
  BASS_ASSIGN_OR_RETURN(SchemaJson flat, merger_.flatten(*names, names_path));
  BASS_RETURN_IF_ERROR(merger_.merge(&flat, {{"type", "string"}}, names_path));
  if (flat == SchemaJson{{"type", "string"}}) return std::optional<Sequence>();
  BASS_ASSIGN_OR_RETURN(Sequence sequence, merged_value(std::move(flat), names_path));
  return std::optional(std::move(sequence));
}

Result<SchemaCompiler::Object> SchemaCompiler::object_members(const SchemaJson& schema, const std::string& path) {
  Object object;
  const auto properties = schema.find("properties");
  if (properties == schema.end()) return object;
  if (!properties->is_object()) return wrong_keyword("properties", path, "must be an object of schemas");
  const std::string properties_path = sub_path(path, "properties");
  for (const auto& [name, property] : properties->items()) {
    if (property == false) {
      object.members.push_back({.name = name, .value = {}, .is_forbidden = true});
      continue;
    }
    BASS_ASSIGN_OR_RETURN(Sequence sequence, value(property, sub_path(properties_path, name)));
    object.members.push_back({name, single_element(builder_, std::move(sequence)), false});
  }
  return object;
}

// None: no additional members.
Result<std::optional<Sequence>> SchemaCompiler::additional_value(const SchemaJson& schema, const std::string& path) {
  const auto additional = schema.find("additionalProperties");
  if (additional == schema.end()) {
    return schema.contains("properties") ? std::optional<Sequence>() : std::optional(json_.value());
  }
  if (*additional == false) return std::optional<Sequence>();
  BASS_ASSIGN_OR_RETURN(Sequence sequence, value(*additional, sub_path(path, "additionalProperties")));
  return std::optional(single_element(builder_, std::move(sequence)));
}

Status SchemaCompiler::add_required(const SchemaJson& schema, const std::string& path, Object* object) {
  const auto required = schema.find("required");
  if (required == schema.end()) return ok_status();
  if (!required->is_array()) return wrong_keyword("required", path, "must be a list of names");
  std::map<std::string, size_t> idx_of;
  for (size_t i = 0; i < object->members.size(); ++i) idx_of[object->members[i].name] = i;
  for (const SchemaJson& name : *required) {
    if (!name.is_string()) return wrong_keyword("required", path, "must be a list of names");
    const auto [known, is_new] = idx_of.try_emplace(name.get<std::string>(), object->members.size());
    if (!is_new) {
      if (object->members[known->second].is_forbidden) return nothing_matches(path);
      object->members[known->second].is_required = true;
      continue;
    }
    if (schema.contains("additionalProperties") && !object->additional) return nothing_matches(path);
    object->members.push_back({known->first, object->additional.value_or(json_.value()), true});
  }
  return ok_status();
}

// From the end to the beginning. Each member is two rules: with and without another one written before it.
Result<Sequence> SchemaCompiler::object_text(const Object& object, const std::string& path) {
  const Sequence comma = builder_.concat({builder_.text(","), json_.white_space()});
  Sequence first = builder_.text("}");
  Sequence further = builder_.concat({json_.white_space(), builder_.text("}")});
  if (object.additional) {
    std::vector<std::string> names;
    for (const Object::Member& member : object.members) names.push_back(member.name);
    BASS_ASSIGN_OR_RETURN(const Sequence name,
                          object.names ? Result<Sequence>(*object.names) : name_other_than(names, path));
    const Sequence pair = single_element(builder_, json_.member(name, *object.additional));
    first = json_.list(pair, object.n_additional.min, object.n_additional.max, '}');
    further = json_.rest_of_list(pair, 0, std::nullopt, '}');
  }
  for (auto member = object.members.rbegin(); member != object.members.rend(); ++member) {
    if (member->is_forbidden) continue;
    const Sequence name = builder_.text(SchemaJson(member->name).dump());
    const Sequence pair = single_element(builder_, json_.member(name, member->value));
    first = single_element(builder_, std::move(first));
    further = single_element(builder_, std::move(further));
    Sequence as_first = builder_.concat({pair, further});
    Sequence as_further = builder_.concat({comma, pair, further});
    first = member->is_required ? std::move(as_first) : builder_.any_of({std::move(as_first), std::move(first)});
    further =
        member->is_required ? std::move(as_further) : builder_.any_of({std::move(as_further), std::move(further)});
  }
  return builder_.concat({json_.opening('{'), first});
}

// As long as a name may become one of `names`, its characters are written in one way only: others would hide which.
Result<Sequence> SchemaCompiler::name_other_than(const std::vector<std::string>& names, const std::string& path) {
  if (names.empty()) return json_.string();
  NameTree tree;
  for (const std::string& name : names) tree.add(name);
  if (tree.nodes.size() > kMaxNameNodes) {
    return wrong_keyword("properties", path,
                         fmt::format("are too many to tell other names from them: their names have more than {} "
                                     "characters; set additionalProperties to false",
                                     kMaxNameNodes));
  }
  const Sequence quote = builder_.text("\"");
  const Sequence rest =
      single_element(builder_, builder_.concat({builder_.repeat(json_.string_character(), 0, std::nullopt), quote}));
  std::vector<Sequence> behind(tree.nodes.size());  // node -> what may follow
  for (size_t i = tree.nodes.size(); i-- > 0;) {
    const NameTree::Node& node = tree.nodes[i];
    std::vector<Sequence> alternatives;
    if (!node.is_name) alternatives.push_back(quote);
    std::vector<CodePointRange> ranges;
    for (const auto& [letter, child] : node.next) {
      ranges.push_back({letter, letter});
      alternatives.push_back(builder_.concat({json_character(builder_, CodePointSet::one(letter)), behind[child]}));
    }
    alternatives.push_back(builder_.concat({json_character(builder_, CodePointSet(ranges).complement()), rest}));
    behind[i] = single_element(builder_, builder_.any_of(std::move(alternatives)));
  }
  return builder_.concat({quote, behind.front()});
}

}  // namespace bass
