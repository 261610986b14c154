// Schemas that consist of several: $ref and allOf.
#pragma once

#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/grammar/json_schema_keywords.h"

namespace bass {

class SchemaMerger {
 public:
  static constexpr int kMaxReferences = 200;     // one behind the other
  static constexpr size_t kMaxCopies = 1 << 14;  // of parts of the document
  static constexpr size_t kMaxCopiedBytes = 1 << 24;

  /// `document` must outlive the merger and stay as it is.
  explicit SchemaMerger(const SchemaJson& document) : document_(document) {}

  /// What a "$ref" of the schema at `path` refers to. Errors: it is no JSON pointer into this document, or to nothing.
  Result<const SchemaJson*> resolve(const SchemaJson& reference, std::string_view path) const;

  /// The schema as one object of constraints: its $ref and its allOf put in place.
  Result<SchemaJson> flatten(const SchemaJson& schema, const std::string& path);

  /// Adds the constraints of `from`. Error: both say something different of the same.
  Status merge(SchemaJson* into, const SchemaJson& from, std::string_view path);

  /// Before a part of the document is copied: parts of parts could be without end. Error: it has been too much.
  Status spend(const SchemaJson& copied);

 private:
  Result<SchemaJson> flatten_parts(const SchemaJson& schema, const std::string& path);
  Status merge_keyword(SchemaJson* into, const std::string& keyword, const SchemaJson& value, std::string_view path);

  const SchemaJson& document_;
  int depth_ = 0;
  size_t n_copies_ = 0;
  size_t n_copied_bytes_ = 0;
};

}  // namespace bass
