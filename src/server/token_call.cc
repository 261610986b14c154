#include "server/token_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/api_keys.h"
#include "server/submit_call.h"
#include "text/user_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Status check_keys(const Json& body, std::span<const std::string> known) {
  for (const auto& [key, value] : body.items()) {
    if (std::ranges::find(known, key) == known.end()) return unknown_key(key, known);
  }
  return ok_status();
}

/// True where the key is not there.
Result<bool> switch_of(const Json& body, const char* key) {
  const Json value = body.value(key, Json());
  if (value.is_null()) return true;
  if (value.is_boolean()) return value.get<bool>();
  return invalid_argument(fmt::format("\"{}\" {}: must be true or false", key, shown(value)));
}

Result<std::vector<TokenId>> text_tokens(const Json& body, const Engine& engine) {
  const std::vector<std::string> known{"model", "prompt", "add_special_tokens", "return_token_strs"};
  BASS_RETURN_IF_ERROR(check_keys(body, known));
  const Json prompt = body.value("prompt", Json());
  if (!prompt.is_string()) return invalid_argument("\"prompt\": must be a string (or give \"messages\")");
  BASS_ASSIGN_OR_RETURN(const bool adds_special, switch_of(body, "add_special_tokens"));
  return engine.tokenize(prompt.get_ref<const std::string&>(), adds_special, /*parse_special=*/true);
}

Result<std::string> detokenized(const Json& body, const Engine& engine) {
  const std::vector<std::string> known{"model", "tokens"};
  BASS_RETURN_IF_ERROR(check_keys(body, known));
  const Json ids = body.value("tokens", Json());
  if (!ids.is_array()) return invalid_argument("\"tokens\": must be a list of token ids");
  if (ids.size() > kMaxDetokenized)
    return invalid_argument(fmt::format("\"tokens\": {} ids; at most {} in a call", ids.size(), kMaxDetokenized));
  std::vector<TokenId> tokens;
  for (const Json& id : ids) {
    const bool is_id = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max();
    if (!is_id) return invalid_argument(fmt::format("\"tokens\" {}: must be a list of token ids", shown(id)));
    tokens.push_back(id.get<TokenId>());
  }
  return engine.detokenize(tokens);
}

}  // namespace

std::optional<ApiError> answer_token_call(TokenEndpoint endpoint, std::string_view body, const Engine& engine,
                                          const GenerateOptions& defaults, const std::string& model,
                                          std::string* answer) {
  const bool is_long = endpoint == TokenEndpoint::kTokenize && body.size() > kMaxTokenizedBytes;
  if (is_long) return too_large_error(kMaxTokenizedBytes);
  if (const std::optional<size_t> at = find_invalid_utf8(body))
    return api_error(invalid_argument(fmt::format("the body is not valid UTF-8 (at byte {})", *at)));
  const Result<Json> json = parse_user_json(body);
  if (!json.ok() || !json->is_object()) return api_error(invalid_argument("the body must be a JSON object"));
  const Json named = json->value("model", Json());
  if (named.is_string() && named != model) return unknown_model_error(named.get<std::string>(), model);
  if (endpoint == TokenEndpoint::kDetokenize) {
    const Result<std::string> text = detokenized(json.value(), engine);
    if (!text.ok()) return api_error(text.status());
    *answer = json_line({{"prompt", to_valid_utf8(text.value())}});
    return std::nullopt;
  }
  if (const Json texts = json->value("return_token_strs", Json()); !texts.is_null() && texts != false)
    return api_error(invalid_argument("\"return_token_strs\": is not supported here; leave it out"));
  Result<std::vector<TokenId>> tokens = std::vector<TokenId>();
  if (json->contains("messages")) {
    // A template prints the special tokens that it wants.
    Json chat = json.value();
    if (chat.value("add_special_tokens", Json()) != true) chat.erase("add_special_tokens");
    chat.erase("return_token_strs");
    ApiCall call;
    if (auto error = take_served_call(read_parsed_call(ApiEndpoint::kChat, chat, defaults), model, &call)) return error;
    tokens = engine.prompt_tokens(call.requests.front());
  } else {
    tokens = text_tokens(json.value(), engine);
  }
  if (!tokens.ok()) return api_error(tokens.status());
  *answer = json_line(
      {{"count", tokens->size()}, {"max_model_len", *engine.options().context_len}, {"tokens", tokens.value()}});
  return std::nullopt;
}

}  // namespace bass
