// From -p, -f or --prompts to the requests that the engine gets.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"

namespace bass {

struct PromptSpec {
  int index = 0;
  std::string origin;                        ///< for messages: "prompts.jsonl:3", "-p", "-f FILE"
  bool is_line = false;                      ///< of a JSONL file, with options of its own
  std::optional<nlohmann::ordered_json> id;  ///< of a JSONL line
  Request request;
};

/// Reads and checks all prompts. Prompt j of a file gets the seed of the command line plus j; a line's own seed is
/// used as it is. Errors name the file, the line and the mend.
Result<std::vector<PromptSpec>> read_prompts(const GenerateOptions& options);

}  // namespace bass
