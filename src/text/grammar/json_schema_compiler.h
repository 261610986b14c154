// What json_schema_grammar() works with; not for others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bass/status.h"
#include "text/grammar/json_grammar.h"
#include "text/grammar/json_number_range.h"
#include "text/grammar/json_schema_keywords.h"
#include "text/grammar/json_schema_merge.h"

namespace bass {

/// Builds the rules of one document. What is referred to becomes a rule of its own, once; these wait in a list, so that
/// no chain of references is followed by recursion.
class SchemaCompiler {
 public:
  using Sequence = Grammar::Sequence;
  static constexpr int64_t kMaxWork = 1 << 22;    // a second
  static constexpr size_t kMaxSchemas = 1 << 17;  // looked at, again and again for what has been merged

  explicit SchemaCompiler(const SchemaJson& document)
      : document_(document), merger_(document), json_(builder_), ranges_(builder_) {}

  Result<Grammar> compile();

 private:
  struct Waiting {
    Grammar::RuleId rule = 0;
    const SchemaJson* schema = nullptr;
    std::string path;
  };
  struct Counts {
    int min = 0;
    std::optional<int> max;
  };
  struct Object;

  // json_schema.cc: schemas of whatever type.
  Result<Sequence> value(const SchemaJson& schema, const std::string& path);
  Result<Sequence> nullable_value(const SchemaJson& schema, const std::string& path);
  Result<Sequence> constrained_value(const SchemaJson& schema, const std::string& path);
  Result<Sequence> one_of_several(const SchemaJson& schema, const std::string& path);
  Result<Sequence> typed_value(const SchemaJson& schema, const std::string& path);
  Result<Sequence> value_of_type(const std::string& type, const SchemaJson& schema, const std::string& path);
  Result<Sequence> reference(const SchemaJson& target, const std::string& path);
  Result<Sequence> merged_value(SchemaJson merged, const std::string& path);
  Sequence wait_for(const std::string& key, const SchemaJson& schema, const std::string& path);

  // json_schema_object.cc
  Result<Sequence> object(const SchemaJson& schema, const std::string& path);
  Result<Object> object_members(const SchemaJson& schema, const std::string& path);
  Status add_required(const SchemaJson& schema, const std::string& path, Object* object);
  Result<std::optional<Sequence>> property_names(const SchemaJson& schema, const std::string& path);
  Result<std::optional<Sequence>> additional_value(const SchemaJson& schema, const std::string& path);
  Result<Sequence> object_text(const Object& object, const std::string& path);
  Result<Sequence> name_other_than(const std::vector<std::string>& names, const std::string& path);

  // json_schema_array.cc
  Result<Sequence> array(const SchemaJson& schema, const std::string& path);
  Result<std::vector<std::string>> unique_texts(const SchemaJson& schema, const std::string& path);
  Sequence set_of(const std::vector<std::string>& texts, Counts counts);
  Sequence tuple(const std::vector<Sequence>& prefix, const std::optional<Sequence>& further, Counts counts);

  // json_schema_scalars.cc
  static Result<std::vector<std::string>> listed_texts(const SchemaJson& schema, const std::string& path);
  static Result<std::vector<std::string>> patterns_of_string(const SchemaJson& schema, const std::string& path);
  Result<Sequence> string(const SchemaJson& schema, const std::string& path);
  Result<Sequence> integer(const SchemaJson& schema, const std::string& path);
  Result<Sequence> number(const SchemaJson& schema, const std::string& path);
  Result<Sequence> multiples(const SchemaJson& schema, const NumberRange& range, bool are_integers,
                             const std::string& path);

  static Result<Counts> counts(const SchemaJson& schema, const char* min, const char* max, const std::string& path);

  const SchemaJson& document_;
  SchemaMerger merger_;
  GrammarBuilder builder_;
  JsonGrammar json_;
  NumberRangeGrammar ranges_;
  size_t n_schemas_ = 0;
  std::map<std::string, Grammar::RuleId> rules_;  // by an address in the document, or the text of what was merged
  // Strings of so many characters that match these patterns: large, and often the same in one schema.
  std::map<std::tuple<std::vector<std::string>, int, std::optional<int>>, Sequence> products_;
  std::map<std::tuple<std::string, DecimalUnits, DecimalUnits, bool>, Sequence> multiples_;
  int64_t work_left_ = kMaxWork;  // of the products
  std::deque<Waiting> waiting_;
  std::deque<SchemaJson> merged_;  // a deque, since references into it stay
};

/// The types that a schema allows, by name; none: all of them. Errors: "type" is not what it should be.
Result<std::vector<std::string>> schema_types(const SchemaJson& schema, const std::string& path);

/// Whether some rule can never be brought to an end.
bool has_endless_rule(const Grammar& grammar);

}  // namespace bass
