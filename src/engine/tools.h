// Functions that an assistant may call: "tools" of a request.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

struct Tool {
  std::string name;
  nlohmann::ordered_json
      parameters;  ///< the JSON schema of its arguments; of an object without any where nothing is said
};

/// OpenAI's list, [{"type": "function", "function": {"name": ..., "description"?, "parameters"?: SCHEMA, ...}}, ...],
/// of at least one function; no name twice. Of the schemas only is looked at that they are objects: templates print
/// all. Errors (kInvalidArgument): what is wrong with which.
Result<std::vector<Tool>> read_tools(std::string_view json);
/// What read_tools says of it.
Status check_tools(std::string_view json);

}  // namespace bass
