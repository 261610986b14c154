// Keys by which vLLM's clients say what an answer has to fit.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bass/status.h"

namespace bass {

/// A key of a call and its value.
struct CallKey {
  std::string name;
  nlohmann::ordered_json value;
};

/// Whether a key is one of these.
bool is_structured_key(const std::string& key);

/// "guided_json", "guided_regex", "guided_choice" and "structured_outputs" ({"json": ...}, {"regex": ...}, {"choice":
/// [...]} or {"json_object": true}) as "json_schema" or "regex". nullopt: it asks for nothing. Error
/// (kInvalidArgument): names the key.
Result<std::optional<CallKey>> structured_key(const std::string& key, const nlohmann::ordered_json& value);

/// The pattern of these texts alone.
std::string pattern_of_texts(const std::vector<std::string>& texts);

}  // namespace bass
