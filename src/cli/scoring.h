// Log-probabilities of a text's tokens.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "bass/engine.h"

namespace bass {

struct Score {
  Event prompt;                      ///< of kind kPrompt
  std::optional<double> perplexity;  ///< none for a text of one token
};

/// Of the request's prompt; what it says of samples is nothing to it. is_stopped: asked ten times a second; when it
/// says so, the request ends. Errors: the engine's; kCancelled.
Result<Score> score_prompt(Engine* engine, Request request, const std::function<bool()>& is_stopped);

/// {"ids", "logprobs", "last_top5", "perplexity"} (docs/command_line.md)
nlohmann::ordered_json score_json(const Score& score);

}  // namespace bass
