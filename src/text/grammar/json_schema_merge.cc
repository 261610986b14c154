#include "text/grammar/json_schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/check.h"

namespace bass {
namespace {

constexpr size_t kMaxTypes = 7;

// As in the fragment of a URI.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    const bool is_escape = text[i] == '%' && digits.size() == 2 && error == std::errc() && end == digits.data() + 2;
    decoded += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

// ~1 is a slash, ~0 a tilde.
std::string pointer_decoded(std::string_view token) {
  std::string decoded;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool is_escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    decoded += is_escape ? (token[i + 1] == '0' ? '~' : '/') : token[i];
    if (is_escape) ++i;
  }
  return decoded;
}

const SchemaJson* child_of(const SchemaJson& parent, const std::string& token) {
  if (parent.is_object()) {
    const auto found = parent.find(token);
    return found == parent.end() ? nullptr : &*found;
  }
  size_t idx = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), idx);
  const bool is_index = !token.empty() && error == std::errc() && end == token.data() + token.size();
  return parent.is_array() && is_index && idx < parent.size() ? &parent[idx] : nullptr;
}

bool contains(const SchemaJson& list, const SchemaJson& value) { return std::ranges::find(list, value) != list.end(); }

// Objects of the library look through all of their keys for one.
std::map<std::string_view, const SchemaJson*> by_name(const SchemaJson& object) {
  std::map<std::string_view, const SchemaJson*> values;
  for (const auto& [name, value] : object.get_ref<const SchemaJson::object_t&>()) values.emplace(name, &value);
  return values;
}

void add_missing(SchemaJson* list, const SchemaJson& others) {
  std::set<SchemaJson> known(list->begin(), list->end());
  for (const SchemaJson& value : others) {
    if (known.insert(value).second) list->push_back(value);
  }
}

// Every integer is a number.
SchemaJson intersection_of_types(const SchemaJson& a, const SchemaJson& b) {
  const SchemaJson first = a.is_array() ? a : SchemaJson::array({a});
  const SchemaJson second = b.is_array() ? b : SchemaJson::array({b});
  SchemaJson both = SchemaJson::array();
  const auto add = [&](const SchemaJson& types, const SchemaJson& others) {
    for (const SchemaJson& type : types) {
      const bool is_in_both = contains(others, type) || (type == "integer" && contains(others, "number"));
      if (is_in_both && !contains(both, type)) both.push_back(type);
    }
  };
  add(first, second);
  add(second, first);
  return both;
}

/// `rest` speaks of what `listed` does not list beside it: the lists of two schemas must not be thrown together then.
struct RestKeyword {
  const char* rest;
  const char* listed;
};
constexpr RestKeyword kRestKeywords[] = {{"additionalProperties", "properties"}, {"items", "prefixItems"}};

bool lists_all(const SchemaJson& own, const SchemaJson& others) {
  if (!own.is_object() || !others.is_object()) return false;
  const auto known = by_name(own);
  return std::ranges::all_of(by_name(others), [&](const auto& other) { return known.contains(other.first); });
}

Status check_rest(const SchemaJson& a, const SchemaJson& b, std::string_view path) {
  for (const RestKeyword& keyword : kRestKeywords) {
    const auto rest = a.find(keyword.rest);
    const auto others = b.find(keyword.listed);
    if (rest == a.end() || *rest == true || others == b.end()) continue;
    const auto own = a.find(keyword.listed);
    const bool is_same = own != a.end() && *own == *others;
    if (is_same || (own != a.end() && lists_all(*own, *others))) continue;
    return wrong_keyword(keyword.rest, path,
                         fmt::format("stands beside the \"{}\" of another schema, which is not supported; write them "
                                     "in one schema",
                                     keyword.listed));
  }
  return ok_status();
}

Status merge_properties(SchemaJson* into, const SchemaJson& from, std::string_view path) {
  const auto known = by_name(*into);
  std::vector<const SchemaJson::object_t::value_type*> added;  // later: what is known refers to `into`
  for (const auto& property : from.get_ref<const SchemaJson::object_t&>()) {
    const auto same = known.find(property.first);
    if (same == known.end()) {
      added.push_back(&property);
    } else if (*same->second != property.second) {
      return wrong_keyword(property.first, sub_path(path, "properties"),
                           "is described twice (allOf, $ref or anyOf), which is not supported; describe it once");
    }
  }
  auto& properties = into->get_ref<SchemaJson::object_t&>();
  for (const auto* property : added) properties.emplace_back(property->first, property->second);
  return ok_status();
}

}  // namespace

Result<const SchemaJson*> SchemaMerger::resolve(const SchemaJson& reference, std::string_view path) const {
  if (!reference.is_string()) return wrong_keyword("$ref", path, "must be a string");
  const auto& text = reference.get_ref<const std::string&>();
  const bool is_pointer = text == "#" || text.starts_with("#/");
  if (!is_pointer) {
    return wrong_keyword("$ref", path,
                         fmt::format("is \"{}\"; only what begins with \"#/\" is supported", shown_text(text)));
  }
  const std::string pointer = percent_decoded(std::string_view(text).substr(1));
  const SchemaJson* target = &document_;
  for (size_t at = 0; at < pointer.size();) {
    const size_t end = std::min(pointer.find('/', at + 1), pointer.size());
    target = child_of(*target, pointer_decoded(std::string_view(pointer).substr(at + 1, end - at - 1)));
    if (target == nullptr) {
      return wrong_keyword("$ref", path,
                           fmt::format("refers to \"{}\", which is not there; define it", shown_text(text)));
    }
    at = end;
  }
  return target;
}

Result<SchemaJson> SchemaMerger::flatten(const SchemaJson& schema, const std::string& path) {
  if (schema == true) return SchemaJson::object();
  if (schema == false) return nothing_matches(path);
  BASS_RETURN_IF_ERROR(check_schema_keywords(schema, path));
  if (depth_ >= kMaxReferences) {
    return invalid_argument(
        fmt::format("the schema at {} refers to itself, or to more than {} schemas one behind the "
                    "other; mend it",
                    shown_text(path), kMaxReferences));
  }
  ++depth_;
  Result<SchemaJson> flat = flatten_parts(schema, path);
  --depth_;
  return flat;
}

Result<SchemaJson> SchemaMerger::flatten_parts(const SchemaJson& schema, const std::string& path) {
  SchemaJson flat = without_annotations(schema);
  BASS_RETURN_IF_ERROR(spend(flat));
  flat.erase("$ref");
  flat.erase("allOf");
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    BASS_ASSIGN_OR_RETURN(const SchemaJson* target, resolve(*reference, path));
    BASS_ASSIGN_OR_RETURN(SchemaJson other, flatten(*target, reference->get<std::string>()));
    // What is referred to comes first, so that a derived class's properties follow its base's.
    std::swap(flat, other);
    BASS_RETURN_IF_ERROR(merge(&flat, other, path));
  }
  const auto parts = schema.find("allOf");
  if (parts == schema.end()) return flat;
  if (!parts->is_array() || parts->empty()) return wrong_keyword("allOf", path, "must be a list of schemas");
  SchemaJson all = SchemaJson::object();
  for (size_t i = 0; i < parts->size(); ++i) {
    BASS_ASSIGN_OR_RETURN(const SchemaJson part,
                          flatten((*parts)[i], sub_path(sub_path(path, "allOf"), std::to_string(i))));
    BASS_RETURN_IF_ERROR(merge(&all, part, path));
  }
  BASS_RETURN_IF_ERROR(merge(&all, flat, path));
  return all;
}

Status SchemaMerger::spend(const SchemaJson& copied) {
  n_copied_bytes_ += copied.dump().size();
  if (++n_copies_ <= kMaxCopies && n_copied_bytes_ <= kMaxCopiedBytes) return ok_status();
  return invalid_argument(
      "the schema has too much in allOf, and in what stands beside $ref and anyOf; write it plainly");
}

Status SchemaMerger::merge(SchemaJson* into, const SchemaJson& from, std::string_view path) {
  BASS_RETURN_IF_ERROR(spend(from));
  if (into->empty() || from.empty()) {
    if (into->empty()) *into = from;
    return ok_status();
  }
  BASS_RETURN_IF_ERROR(check_rest(*into, from, path));
  BASS_RETURN_IF_ERROR(check_rest(from, *into, path));
  // null is what both allow.
  if (into->contains("nullable") != from.contains("nullable")) into->erase("nullable");
  for (const auto& [keyword, value] : from.items()) {
    if (keyword == "nullable" && !into->contains(keyword)) continue;
    BASS_RETURN_IF_ERROR(merge_keyword(into, keyword, value, path));
  }
  return ok_status();
}

Status SchemaMerger::merge_keyword(SchemaJson* into, const std::string& keyword, const SchemaJson& value,
                                   std::string_view path) {
  const auto known = into->find(keyword);
  if (known == into->end()) {
    (*into)[keyword] = value;
    return ok_status();
  }
  if (*known == value) return ok_status();
  BASS_RETURN_IF_ERROR(spend(*known));
  if (keyword == "required" && known->is_array() && value.is_array()) {
    add_missing(&*known, value);
    return ok_status();
  }
  if (keyword == "type") {
    if (known->size() > kMaxTypes || value.size() > kMaxTypes) {
      return wrong_keyword("type", path, "lists more types than there are; name each once");
    }
    *known = intersection_of_types(*known, value);
    return ok_status();
  }
  if (keyword == "properties" && known->is_object() && value.is_object()) return merge_properties(&*known, value, path);
  return wrong_keyword(keyword, path, "is there twice (allOf, $ref or anyOf), which is not supported; write it once");
}

}  // namespace bass
