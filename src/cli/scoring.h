// Log-probabilities of a text's tokens.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bass/engine.h"
#include "cli/prompts.h"

namespace bass {

struct Score {
  Event prompt;                      ///< of kind kPrompt
  std::optional<double> perplexity;  ///< none for a text of one token
};

/// Of prompts, in their order; what they say of samples and of time is nothing to it. is_stopped: asked ten times a
/// second and for each prompt; when it says so, what runs ends. Errors: the engine's, with the prompt's origin where
/// there are several; kCancelled.
Result<std::vector<Score>> score_prompts(Engine* engine, std::vector<PromptSpec> specs,
                                         const std::function<bool()>& is_stopped);

/// {"ids", "logprobs", "last_top5", "perplexity"} (docs/command_line.md)
nlohmann::ordered_json score_json(const Score& score);

}  // namespace bass
