// The words of JSON Schema: which are followed, which mean nothing for a text, which are refused.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

/// Keeps the order in which properties are written.
using SchemaJson = nlohmann::ordered_json;

/// What a keyword speaks of, where a schema does not say its type.
enum class SchemaTopic : uint8_t { kAny, kObject, kArray, kString, kNumber, kAnnotation, kRefused };

/// Of a keyword with its value. None: no keyword is called so.
std::optional<SchemaTopic> topic_of_keyword(std::string_view keyword, const SchemaJson& value);

/// The JSON pointer of a part: `path` is that of the schema that it belongs to, `#` of the outermost.
std::string sub_path(std::string_view path, std::string_view key);

/// A user's text for a message: not more than its beginning.
std::string shown_text(std::string_view text);

/// Error (kInvalidArgument): it is no object, or a keyword in it is unknown, or one that cannot be followed.
Status check_schema_keywords(const SchemaJson& schema, std::string_view path);

/// The schema without the keywords that mean nothing for a text.
SchemaJson without_annotations(const SchemaJson& schema);

Status nothing_matches(std::string_view path);
Status wrong_keyword(std::string_view keyword, std::string_view path, std::string_view what);

}  // namespace bass
