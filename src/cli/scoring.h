// Log-probabilities of a text's tokens.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bass/engine.h"

namespace bass {

struct Score {
  Event prompt;                      ///< of kind kPrompt
  std::optional<double> perplexity;  ///< none for a text of one token
};

/// Makes a request one for its prompt's log-probabilities: what it says of samples and of time is nothing to them.
void make_scoring(Request* request);

/// Of the requests' prompts, in their order. Requests: as make_scoring leaves them. is_stopped: asked ten times a
/// second; when it says so, what runs ends. Errors: the engine's; kCancelled.
Result<std::vector<Score>> score_prompts(Engine* engine, std::vector<Request> requests,
                                         const std::function<bool()>& is_stopped);

/// {"ids", "logprobs", "last_top5", "perplexity"} (docs/command_line.md)
nlohmann::ordered_json score_json(const Score& score);

}  // namespace bass
