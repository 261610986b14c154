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

/// `status`, with where the prompt came from in front if it is an error and that is one of several.
Status with_origin(const Status& status, const PromptSpec& spec);

/// The index-th prompt of a file, or of any list, from its JSON object. options: what it starts from; a seed there is
/// the first prompt's, and this one gets that plus index, if it has none of its own. origin: of the prompt
Status read_prompt(const std::string& json, const GenerateOptions& options, int index, std::string origin,
                   PromptSpec* spec);

/// Reads and checks all prompts. Prompt j of a file gets the seed of the command line plus j; a line's own seed is
/// used as it is. Errors name the file, the line and the mend.
Result<std::vector<PromptSpec>> read_prompts(const GenerateOptions& options);

}  // namespace bass
