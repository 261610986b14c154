// Texts to tokens and back over HTTP, as vLLM's server has it (docs/server.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bass/engine.h"
#include "engine/options.h"
#include "server/api_error.h"

namespace bass {

enum class TokenEndpoint : uint8_t {
  kTokenize,    ///< /tokenize: {"prompt": TEXT, "add_special_tokens": true} or {"messages": [...], ...}
  kDetokenize,  ///< /detokenize: {"tokens": [...]}
};

/// What a call may ask for at most, as answers are made as a whole.
inline constexpr size_t kMaxTokenizedBytes = size_t{4} << 20;
inline constexpr size_t kMaxDetokenized = size_t{1} << 18;

/// Answers a call: {"count": ..., "max_model_len": ..., "tokens": [...]} or {"prompt": TEXT} into `answer`. defaults,
/// model: as read_api_call and take_served_call have them. Error: what is wrong with the call.
std::optional<ApiError> answer_token_call(TokenEndpoint endpoint, std::string_view body, const Engine& engine,
                                          const GenerateOptions& defaults, const std::string& model,
                                          std::string* answer);

}  // namespace bass
