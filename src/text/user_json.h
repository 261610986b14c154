// JSON that comes from outside: prompts, a model's config, a cache that somebody else may have written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

/// Arrays and objects inside one another. What is nested deeper would need a deep stack wherever it is copied, printed
/// or freed.
inline constexpr int kMaxJsonDepth = 64;

/// Errors (kInvalidArgument), to which the caller adds what text it was: no valid JSON and at which byte, nested too
/// deep, a key twice in one object, a number too large for a double.
Result<nlohmann::ordered_json> parse_user_json(std::string_view text);

/// The value of an object's key; null where it has none. In place of a copy, which takes long where it is large.
const nlohmann::ordered_json& value_or_null(const nlohmann::ordered_json& object, const char* key);

/// On one line. Bytes that are no UTF-8, for which the library throws, become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);
/// The same and a line feed.
std::string json_line(const nlohmann::ordered_json& json);
/// A JSON text in which the characters beside line feeds that end lines of Unicode (U+0085, U+2028, U+2029) are
/// escaped: some programs that read line by line cut there.
std::string with_escaped_line_ends(std::string json);

}  // namespace bass
