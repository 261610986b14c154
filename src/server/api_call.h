// What a call of the OpenAI-compatible API asks for (docs/server.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/options.h"
#include "server/api_endpoint.h"
#include "server/tool_calls.h"

namespace bass {

/// What an answer has to know of its call.
struct ApiShape {
  ApiEndpoint endpoint = ApiEndpoint::kChat;
  size_t n_prompts = 1;
  int n_samples = 1;  ///< of each prompt
  int n_choices = 1;  ///< of these, that are answered: the best ones
  bool is_streamed = false;
  bool has_usage = false;          ///< the stream ends with how many tokens there were
  bool has_running_usage = false;  ///< and each piece says how many there were so far
  bool has_logprobs = false;
  int n_top = 0;                                           ///< most probable tokens that are told in each one's place
  bool has_echo = false;                                   ///< texts, and log-probabilities, begin with the prompt's
  std::vector<std::string> echoed;                         ///< [n_prompts] then, as they came; empty: of token ids
  std::string schema_key = "json_schema";                  ///< where the caller wrote what answers have to fit
  std::shared_ptr<const CallableTools> tools;              ///< of a chat; none: answers are text
  bool parts_reasoning = false;                            ///< what a chat's model thinks is told apart from its answer
  bool continues_message = false;                          ///< the last message's text is gone on with
  bool continues_thoughts = false;                         ///< the text that is gone on with has begun them
  bool must_call_named = false;                            ///< the caller has named the one that is called
  std::shared_ptr<const nlohmann::ordered_json> repeated;  ///< what a response repeats of its call
};

struct ApiCall {
  ApiShape shape;
  std::string model;              ///< as the caller names it; empty: not named
  std::vector<Request> requests;  ///< one a prompt
};

inline constexpr size_t kMaxPrompts = 2048;    ///< of a call
inline constexpr size_t kMaxBiases = 1 << 20;  ///< of all prompts of a call: each has its own
inline constexpr size_t kMaxEchoed =
    1 << 24;  ///< characters or tokens of prompts, each time that they are echoed; with N log-probabilities N + 1 times
inline constexpr int64_t kMaxSamples = 1 << 16;  ///< of a call, and of all calls that run

/// A call from its body. defaults: what it does not say; the names, types and ranges of what it may say are those of
/// the options table, null stands for the default. Error (kInvalidArgument): a sentence that names the key.
Result<ApiCall> read_api_call(ApiEndpoint endpoint, std::string_view body, const GenerateOptions& defaults);
/// The same of a body that was read, as parse_user_json does.
Result<ApiCall> read_parsed_call(ApiEndpoint endpoint, const nlohmann::ordered_json& body,
                                 const GenerateOptions& defaults);

/// What the engine has against a request of the call, by the key that the caller wrote.
Status by_callers_key(const ApiShape& shape, const Status& status);

}  // namespace bass
