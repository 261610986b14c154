#include "server/api_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.h"
#include "engine/messages.h"
#include "engine/user_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// What clients send about themselves, or about how an answer is to be kept and paid.
constexpr std::array<std::string_view, 9> kIgnored{"user",
                                                   "metadata",
                                                   "store",
                                                   "service_tier",
                                                   "safety_identifier",
                                                   "prompt_cache_key",
                                                   "prompt_cache_retention",
                                                   "parallel_tool_calls",
                                                   "stream_options"};  // read with "stream"

/// A key that is only understood when it asks for nothing.
struct Unsupported {
  std::string_view key;
  std::string_view harmless;  // a JSON list of values, besides null
};
constexpr std::array<Unsupported, 15> kUnsupported{{{"tools", "[[]]"},
                                                    {"tool_choice", R"(["none", "auto"])"},
                                                    {"functions", "[[]]"},
                                                    {"function_call", R"(["none", "auto"])"},
                                                    {"response_format", R"([{"type": "text"}])"},
                                                    {"modalities", R"([["text"]])"},
                                                    {"audio", "[]"},
                                                    {"prediction", "[]"},
                                                    {"web_search_options", "[]"},
                                                    {"reasoning_effort", R"(["none"])"},
                                                    {"verbosity", "[]"},
                                                    {"top_logprobs", "[0]"},
                                                    {"echo", "[false]"},
                                                    {"suffix", R"([""])"},
                                                    {"chat", "[]"}}};

/// A value for a message, which is not to be as long as the caller likes.
std::string shown(const Json& value) {
  constexpr size_t kMax = 80;
  std::string text = value.dump();
  if (text.size() <= kMax) return text;
  text.resize(kMax);
  return to_valid_utf8(text) + "...";
}

Result<bool> as_bool(const std::string& key, const Json& value) {
  if (!value.is_boolean()) return invalid_argument(fmt::format("\"{}\" {}: must be true or false", key, shown(value)));
  return value.get<bool>();
}

Result<int64_t> as_whole(const std::string& key, const Json& value, int64_t min, int64_t max) {
  if (value.is_number_integer() && value >= min && value <= max) return value.get<int64_t>();
  return invalid_argument(fmt::format("\"{}\" {}: must be a whole number from {} to {}", key, shown(value), min, max));
}

/// Reads one body.
class CallReader {
 public:
  CallReader(ApiEndpoint endpoint, const GenerateOptions& defaults) : options_(defaults) {
    call_.shape.endpoint = endpoint;
  }

  Result<ApiCall> read(const Json& body) {
    if (!body.is_object()) return invalid_argument("the body must be a JSON object");
    for (const auto& [key, value] : body.items()) {
      if (!value.is_null()) BASS_RETURN_IF_ERROR(read_key(key, value));
    }
    BASS_RETURN_IF_ERROR(read_stream_options(body));
    BASS_RETURN_IF_ERROR(settle_samples());
    BASS_RETURN_IF_ERROR(check_options(options_));
    BASS_RETURN_IF_ERROR(is_chat() ? read_chat(body) : read_prompts(body));
    call_.shape.n_prompts = call_.requests.size();
    return std::move(call_);
  }

 private:
  [[nodiscard]] bool is_chat() const { return call_.shape.endpoint == ApiEndpoint::kChat; }

  Status read_key(const std::string& key, const Json& value) {
    if (key == (is_chat() ? "messages" : "prompt")) return ok_status();  // read when all else is known
    if (key == "model") return read_model(value);
    if (key == "stream") return set(as_bool(key, value), &call_.shape.is_streamed);
    if (key == "logprobs") return read_logprobs(value);
    if (key == "best_of") return set(as_whole(key, value, 1, find_option("n")->max), &n_best_of_);
    if (key == "max_completion_tokens" && is_chat()) return set_row("max_tokens", value);
    if (key == "stop" && value.is_string()) return set_row(key, Json::array({value}));
    if (std::ranges::find(kIgnored, key) != kIgnored.end()) return ok_status();
    for (const Unsupported& unsupported : kUnsupported) {
      if (key == unsupported.key) return check_harmless(unsupported, value);
    }
    return set_row(key, value);
  }

  template <class T, class Value>
  static Status set(const Result<T>& result, Value* value) {
    if (result.ok()) *value = static_cast<Value>(result.value());
    return result.status();
  }

  static Status check_harmless(const Unsupported& unsupported, const Json& value) {
    const Json harmless = Json::parse(unsupported.harmless);
    if (std::ranges::find(harmless, value) != harmless.end()) return ok_status();
    return invalid_argument(fmt::format("\"{}\": is not supported here; leave it out", unsupported.key));
  }

  Status set_row(std::string_view name, const Json& value) {
    const Option* option = find_option(name);
    const bool has_place = option != nullptr && option->is_per_request && name != "chat" && name != "system";
    if (!has_place) return invalid_argument(fmt::format("unknown key \"{}\"; docs/server.md lists them", name));
    return set_option_from_json(*option, nlohmann::json(value), &options_);
  }

  Status read_model(const Json& value) {
    if (!value.is_string()) return invalid_argument("\"model\": must be a string");
    call_.model = value.get<std::string>();
    return ok_status();
  }

  // True or false for a chat, a number of alternatives (none of them) for a completion.
  Status read_logprobs(const Json& value) {
    if (is_chat()) return set(as_bool("logprobs", value), &call_.shape.has_logprobs);
    if (value == false) return ok_status();
    if (value != 0) {
      return invalid_argument(fmt::format(
          "\"logprobs\" {}: must be 0, which gives those of the tokens that were drawn; others are not kept",
          shown(value)));
    }
    call_.shape.has_logprobs = true;
    return ok_status();
  }

  Status read_stream_options(const Json& body) {
    const Json options = body.value("stream_options", Json());
    if (options.is_null()) return ok_status();
    if (!options.is_object()) return invalid_argument("\"stream_options\": must be an object");
    if (!call_.shape.is_streamed) return invalid_argument("\"stream_options\": has no place without \"stream\": true");
    for (const auto& [key, value] : options.items()) {
      if (key == "include_obfuscation" || value.is_null()) continue;  // padding against eavesdroppers: there is none
      if (key != "include_usage") return invalid_argument(fmt::format("\"stream_options\": unknown key \"{}\"", key));
      BASS_RETURN_IF_ERROR(set(as_bool("include_usage", value), &call_.shape.has_usage));
    }
    return ok_status();
  }

  // n answers, of n or of best_of samples.
  Status settle_samples() {
    call_.shape.n_choices = call_.shape.n_samples = options_.request.n;
    if (!n_best_of_) return ok_status();
    if (*n_best_of_ < call_.shape.n_choices) {
      return invalid_argument(
          fmt::format("\"best_of\" {}: must be at least \"n\", which is {}", *n_best_of_, call_.shape.n_choices));
    }
    if (call_.shape.is_streamed && *n_best_of_ > call_.shape.n_choices) {
      return invalid_argument(
          "\"best_of\": which samples are best is known only at the end; leave out \"stream\", or ask for all with "
          "\"n\"");
    }
    options_.request.n = call_.shape.n_samples = *n_best_of_;
    return ok_status();
  }

  Status read_chat(const Json& body) {
    const Json messages = body.value("messages", Json());
    if (messages.is_null()) return invalid_argument("\"messages\" is missing: the conversation to answer");
    Request request = options_.request;
    BASS_ASSIGN_OR_RETURN(request.messages, read_messages(messages));
    call_.requests.push_back(std::move(request));
    return ok_status();
  }

  // A text, token ids, or a list of either.
  Status read_prompts(const Json& body) {
    const Json prompt = body.value("prompt", Json());
    if (prompt.is_null()) return invalid_argument("\"prompt\" is missing: the text to go on with");
    const bool is_list = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
    if (!is_list) return add_prompt(prompt);
    if (prompt.size() > kMaxPrompts)
      return invalid_argument(fmt::format("\"prompt\": {} prompts; at most {} in a call", prompt.size(), kMaxPrompts));
    const auto n_samples = static_cast<int64_t>(prompt.size()) * options_.request.n;
    if (n_samples > kMaxSamples)
      return invalid_argument(fmt::format("\"prompt\": {} prompts of {} samples each are more than {}", prompt.size(),
                                          options_.request.n, kMaxSamples));
    const size_t n_biases = options_.request.sampling.logit_bias.size();
    if (n_biases * prompt.size() > kMaxBiases)
      return invalid_argument(
          fmt::format("\"logit_bias\": {} entries for {} prompts each are more than {}; send the "
                      "prompts in several calls",
                      n_biases, prompt.size(), kMaxBiases));
    for (const Json& one : prompt) BASS_RETURN_IF_ERROR(add_prompt(one));
    return ok_status();
  }

  Status add_prompt(const Json& prompt) {
    Request request = options_.request;
    if (request.seed) *request.seed += call_.requests.size();  // as the prompts of a file
    if (prompt.is_string()) {
      request.prompt = prompt.get<std::string>();
      if (request.prompt.empty()) return invalid_argument("\"prompt\" is empty; give at least one character");
    } else {
      BASS_RETURN_IF_ERROR(read_tokens(prompt, &request.prompt_tokens));
    }
    call_.requests.push_back(std::move(request));
    return ok_status();
  }

  static Status read_tokens(const Json& ids, std::vector<TokenId>* tokens) {
    if (!ids.is_array() || ids.empty())
      return invalid_argument("\"prompt\": must be a string, a list of token ids, or a list of these");
    for (const Json& id : ids) {
      TokenId token = 0;
      BASS_RETURN_IF_ERROR(set(as_whole("prompt", id, 0, std::numeric_limits<TokenId>::max()), &token));
      tokens->push_back(token);
    }
    return ok_status();
  }

  GenerateOptions options_;
  ApiCall call_;
  std::optional<int> n_best_of_;
};

}  // namespace

Result<ApiCall> read_api_call(ApiEndpoint endpoint, std::string_view body, const GenerateOptions& defaults) {
  if (const std::optional<size_t> at = find_invalid_utf8(body))
    return invalid_argument(fmt::format("the body is not valid UTF-8 (at byte {})", *at));
  Result<Json> json = parse_user_json(body);
  if (!json.ok()) return Status(json.status().code(), fmt::format("the body: {}", json.status().message()));
  return CallReader(endpoint, defaults).read(json.value());
}

}  // namespace bass
