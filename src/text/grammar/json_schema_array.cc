#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/check.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/json_schema_compiler.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr size_t kMaxUniqueTexts = 8;  // there is a rule for each set of them

Result<std::optional<int>> count(const SchemaJson& schema, const char* keyword, const std::string& path) {
  const auto value = schema.find(keyword);
  if (value == schema.end()) return std::optional<int>();
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < 0 || number != std::floor(number))
    return wrong_keyword(keyword, path, "must be a whole number from 0 on");
  if (number > kMaxSchemaCount) {
    return wrong_keyword(keyword, path, fmt::format("is more than {}; give less, or leave it out", kMaxSchemaCount));
  }
  return std::optional(static_cast<int>(number));
}

}  // namespace

Result<SchemaCompiler::Counts> SchemaCompiler::counts(const SchemaJson& schema, const char* min, const char* max,
                                                      const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const std::optional<int> least, count(schema, min, path));
  BASS_ASSIGN_OR_RETURN(const std::optional<int> most, count(schema, max, path));
  if (most && least.value_or(0) > *most) return nothing_matches(path);
  return Counts{least.value_or(0), most};
}

Result<Sequence> SchemaCompiler::array(const SchemaJson& schema, const std::string& path) {
  const auto unique = schema.find("uniqueItems");
  if (unique != schema.end() && !unique->is_boolean())
    return wrong_keyword("uniqueItems", path, "must be true or false");
  BASS_ASSIGN_OR_RETURN(Counts n_items, counts(schema, "minItems", "maxItems", path));
  std::vector<Sequence> prefix;
  if (const auto first = schema.find("prefixItems"); first != schema.end()) {
    if (!first->is_array()) return wrong_keyword("prefixItems", path, "must be a list of schemas");
    const std::string prefix_path = sub_path(path, "prefixItems");
    for (size_t i = 0; i < first->size(); ++i) {
      BASS_ASSIGN_OR_RETURN(Sequence item, value((*first)[i], sub_path(prefix_path, std::to_string(i))));
      prefix.push_back(single_element(builder_, std::move(item)));
    }
  }
  std::optional<Sequence> further;
  const auto items = schema.find("items");
  if (items != schema.end() && items->is_array()) {
    return wrong_keyword("items", path, "is a list, which is not supported; call it \"prefixItems\"");
  }
  const auto n_prefix = static_cast<int>(prefix.size());
  if (items == schema.end()) {
    further = json_.value();
  } else if (*items != false && (!n_items.max || *n_items.max > n_prefix)) {
    BASS_ASSIGN_OR_RETURN(Sequence item, value(*items, sub_path(path, "items")));
    further = single_element(builder_, std::move(item));
  }
  if (!further) n_items.max = std::min(n_items.max.value_or(n_prefix), n_prefix);
  if (n_items.max && n_items.min > *n_items.max) return nothing_matches(path);
  if (prefix.empty() && further) {
    BASS_ASSIGN_OR_RETURN(const std::vector<std::string> texts, unique_texts(schema, path));
    if (!texts.empty() && n_items.min > static_cast<int>(texts.size())) return nothing_matches(path);
    if (!texts.empty()) return builder_.concat({json_.opening('['), set_of(texts, n_items)});
  }
  return builder_.concat({json_.opening('['), tuple(prefix, further, n_items)});
}

// The texts of items that have to differ, where they are of a list of few; none: they need not, or it is not seen to.
Result<std::vector<std::string>> SchemaCompiler::unique_texts(const SchemaJson& schema, const std::string& path) {
  if (schema.value("uniqueItems", SchemaJson(false)) == false) return std::vector<std::string>();
  const auto items = schema.find("items");
  if (items == schema.end() || !items->is_object()) return std::vector<std::string>();
  const std::string items_path = sub_path(path, "items");
  BASS_ASSIGN_OR_RETURN(const SchemaJson flat, merger_.flatten(*items, items_path));
  const bool is_listed = (flat.contains("enum") || flat.contains("const")) && !flat.contains("nullable");
  if (!is_listed) return std::vector<std::string>();
  BASS_ASSIGN_OR_RETURN(std::vector<std::string> texts, listed_texts(flat, items_path));
  std::set<SchemaJson> values;  // 1 and 1.0 are one
  std::erase_if(texts, [&](const std::string& text) { return !values.insert(SchemaJson::parse(text)).second; });
  if (texts.size() > kMaxUniqueTexts) texts.clear();
  return texts;
}

// A rule for each set of texts that may have been written.
Sequence SchemaCompiler::set_of(const std::vector<std::string>& texts, Counts counts) {
  const size_t n_sets = size_t{1} << texts.size();
  const auto n_texts = static_cast<int>(texts.size());
  const int max = std::min(counts.max.value_or(n_texts), n_texts);
  const Sequence comma = builder_.concat({builder_.text(","), json_.white_space()});
  const Sequence end = builder_.concat({json_.white_space(), builder_.text("]")});
  std::vector<Sequence> items;
  for (const std::string& text : texts) items.push_back(single_element(builder_, builder_.text(text)));
  std::vector<Sequence> behind(n_sets);
  for (size_t written = n_sets; written-- > 0;) {
    const int n_written = std::popcount(written);
    if (n_written > max) continue;
    std::vector<Sequence> alternatives;
    if (n_written >= counts.min) alternatives.push_back(n_written == 0 ? builder_.text("]") : end);
    for (size_t i = 0; i < texts.size() && n_written < max; ++i) {
      const size_t with = written | size_t{1} << i;
      if (with == written) continue;
      alternatives.push_back(builder_.concat({n_written == 0 ? Sequence{} : comma, items[i], behind[with]}));
    }
    behind[written] = single_element(builder_, builder_.any_of(std::move(alternatives)));
  }
  return behind.front();
}

// From the end to the beginning, so that each position is one rule: what comes behind `i` items.
Sequence SchemaCompiler::tuple(const std::vector<Sequence>& prefix, const std::optional<Sequence>& further,
                               Counts counts) {
  const auto n_prefix = static_cast<int>(prefix.size());
  if (n_prefix == 0) return further ? json_.list(*further, counts.min, counts.max, ']') : builder_.text("]");
  const int n_listed = std::min(n_prefix, counts.max.value_or(n_prefix));
  const Sequence end = builder_.concat({json_.white_space(), builder_.text("]")});
  Sequence rest = end;
  if (further && n_listed == n_prefix) {
    const std::optional<int> max = counts.max ? std::optional(*counts.max - n_prefix) : std::nullopt;
    rest = json_.rest_of_list(*further, std::max(counts.min - n_prefix, 0), max, ']');
  }
  for (int i = n_listed - 1; i >= 0; --i) {
    const Sequence& item = prefix[static_cast<size_t>(i)];
    const Sequence behind = single_element(builder_, std::move(rest));
    const Sequence comma = builder_.concat({builder_.text(","), json_.white_space()});
    rest = builder_.concat({i > 0 ? comma : Sequence{}, item, behind});
    if (i < counts.min) continue;
    rest = builder_.any_of({std::move(rest), i > 0 ? end : builder_.text("]")});
  }
  return n_listed == 0 ? builder_.text("]") : rest;
}

}  // namespace bass
