#include "server/api_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/constraint_cache.h"
#include "engine/messages.h"
#include "server/api_keys.h"
#include "server/response_call.h"
#include "server/structured_keys.h"
#include "text/grammar/json_schema.h"
#include "text/thoughts.h"
#include "text/user_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Result<bool> as_bool(const std::string& key, const Json& value) {
  if (!value.is_boolean()) return invalid_argument(fmt::format("\"{}\" {}: must be true or false", key, shown(value)));
  return value.get<bool>();
}

Result<int64_t> as_whole(const std::string& key, const Json& value, int64_t min, int64_t max) {
  // Compared with a negative number, a large unsigned one is negative, too.
  const bool is_large =
      value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  if (value.is_number_integer() && !is_large && value >= min && value <= max) return value.get<int64_t>();
  return invalid_argument(fmt::format("\"{}\" {}: must be a whole number from {} to {}", key, shown(value), min, max));
}

/// A number that is whole as one that is written so: callers whose only numbers are floats send 5.0. Other values as
/// they are.
Json written_whole(const Json& value) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  if (!value.is_number_float()) return value;
  const auto number = value.get<double>();
  const bool is_whole = number == std::trunc(number) && std::abs(number) <= kMost;
  return is_whole ? Json(static_cast<int64_t>(number)) : value;
}

/// Reads one body.
class CallReader {
 public:
  CallReader(ApiEndpoint endpoint, const GenerateOptions& defaults) : options_(defaults) {
    call_.shape.endpoint = endpoint;
    if (!is_chat()) options_.request.thinking_budget.reset();  // the server's, for its chats
  }

  Result<ApiCall> read(const Json& body) {
    if (!body.is_object()) return invalid_argument("the body must be a JSON object");
    for (const auto& [key, value] : body.items()) {
      if (value.is_null()) continue;
      BASS_RETURN_IF_ERROR(value.is_number_float() ? read_key(key, written_whole(value)) : read_key(key, value));
    }
    BASS_RETURN_IF_ERROR(read_stream_options(body));
    BASS_RETURN_IF_ERROR(settle_samples());
    BASS_RETURN_IF_ERROR(settle_logprobs());
    BASS_RETURN_IF_ERROR(settle_tools());
    BASS_RETURN_IF_ERROR(settle_lengths());
    BASS_RETURN_IF_ERROR(check_options(options_));
    BASS_RETURN_IF_ERROR(is_chat() ? read_chat(body) : read_prompts(body));
    call_.shape.n_prompts = call_.requests.size();
    return std::move(call_);
  }

 private:
  [[nodiscard]] bool is_chat() const { return call_.shape.endpoint == ApiEndpoint::kChat; }

  Status read_key(const std::string& key, const Json& value) {
    if (key == (is_chat() ? "messages" : "prompt")) return ok_status();  // read when all else is known
    if (key == "messages")
      return invalid_argument("\"messages\": belong to /v1/chat/completions; here is a \"prompt\"");
    if (key == "prompt") return invalid_argument("\"prompt\": belongs to /v1/completions; a chat has \"messages\"");
    if (key == "model") return read_model(value);
    if (key == "stream") return set(as_bool(key, value), &call_.shape.is_streamed);
    if (key == "logprobs") return read_logprobs(value);
    if (key == "top_logprobs" && is_chat())
      return set(as_whole(key, value, 0, find_option(key)->max), &options_.request.top_logprobs);
    if (key == "echo" && !is_chat()) return set(as_bool(key, value), &call_.shape.has_echo);
    if (key == "best_of") return set(as_whole(key, value, 1, find_option("n")->max), &n_best_of_);
    if (key == "max_tokens") return set(as_whole(key, value, -1, find_option(key)->max), &max_tokens_);
    if (key == "max_completion_tokens") return set(as_whole(key, value, -1, find_option("max_tokens")->max), &max_new_);
    if (key == "response_format") return read_response_format(value);
    if (key == "tools" && is_chat()) return value == Json::array() ? ok_status() : set_row(key, value);
    if (key == "tool_choice" && is_chat()) return read_tool_choice(value);
    if (key == "chat_template_kwargs" && is_chat()) return set_row(key, value);
    if (key == "continue_final_message" && is_chat()) return set_row(key, value);
    if (key == "add_generation_prompt" && is_chat()) return set(as_bool(key, value), &begins_answer_);
    if (key == "separate_reasoning" && is_chat()) return set(as_bool(key, value), &parts_reasoning_);
    if (key == "think_first" && is_chat()) return set(as_bool(key, value), &thinks_first_);
    if (is_thinking_budget(key) && is_chat()) return read_thinking_budget(key, value);
    if (key == "parallel_tool_calls" && is_chat()) return set(as_bool(key, value), &may_call_several_);
    if (key == "stop" && value.is_string()) return set_row(key, Json::array({value}));
    if (key == "stop_token_ids" && value.is_array()) return read_stop_tokens(value);
    if (is_structured_key(key)) return read_structured(key, value);
    if (take_off_value(key, value)) return ok_status();
    if (const std::optional<Status> other = check_other_key(key, value)) return *other;
    return set_row(key, value);
  }

  /// As it is called here, by vLLM's clients and by llama.cpp's.
  static bool is_thinking_budget(std::string_view key) {
    constexpr std::array<std::string_view, 3> kNames{"thinking_budget", "thinking_token_budget",
                                                     "thinking_budget_tokens"};
    return std::ranges::find(kNames, key) != kNames.end();
  }

  // -1: none, whatever the server was told.
  Status read_thinking_budget(const std::string& key, const Json& value) {
    BASS_ASSIGN_OR_RETURN(const int64_t n, as_whole(key, value, -1, find_option("thinking_budget")->max));
    options_.request.thinking_budget = n < 0 ? std::nullopt : std::optional(static_cast<int>(n));
    return ok_status();
  }

  /// Takes what is right elsewhere, though it is out of range here. False: it is no such value.
  bool take_off_value(const std::string& key, const Json& value) {
    const bool is_minus_one = value.is_number_integer() && !value.is_number_unsigned() && value == -1;
    if (key == "top_p" && value.is_number() && value == 0) {
      is_greedy_ = true;  // the likeliest token alone
    } else if (key == "top_k" && is_minus_one) {
      options_.request.sampling.top_k = 0;
    } else if (key == "seed" && is_minus_one) {
      options_.request.seed.reset();
    } else if (key == "seed" && value.is_number_integer() && !value.is_number_unsigned()) {
      options_.request.seed = static_cast<uint64_t>(value.get<int64_t>());  // a number as good as any
    } else {
      return false;
    }
    return true;
  }

  template <class T, class Value>
  static Status set(const Result<T>& result, Value* value) {
    if (result.ok()) *value = static_cast<Value>(result.value());
    return result.status();
  }

  Status set_row(std::string_view name, const Json& value) {
    const Option* option = find_option(name);
    if (option == nullptr || !is_key(*option)) return unknown_key(name, known_keys());
    return set_option_from_json(*option, value, &options_);
  }

  Status read_stop_tokens(const Json& ids) {
    Json whole = Json::array();
    for (const Json& id : ids) whole.push_back(written_whole(id));
    return set_row("stop_token_ids", whole);
  }

  [[nodiscard]] bool is_key(const Option& option) const {
    constexpr std::array<std::string_view, 3> kOtherwise{"chat", "system", "top_logprobs"};
    constexpr std::array<std::string_view, 5> kOfChats{"tools", "chat_template_kwargs", "continue_final_message",
                                                       "think_first", "thinking_budget"};
    if (!is_chat() && std::ranges::find(kOfChats, option.name) != kOfChats.end()) return false;
    return option.is_per_request && std::ranges::find(kOtherwise, option.name) == kOtherwise.end();
  }

  /// For what is not one of them.
  [[nodiscard]] std::vector<std::string> known_keys() const {
    std::vector<std::string> keys{"model",   "stream_options",        "stream",         "logprobs",
                                  "best_of", "max_completion_tokens", "response_format"};
    keys.insert(keys.end(), is_chat() ? std::initializer_list<std::string>{"messages", "top_logprobs", "tool_choice",
                                                                           "separate_reasoning", "parallel_tool_calls"}
                                      : std::initializer_list<std::string>{"prompt", "echo"});
    for (const Option& option : options_table()) {
      if (is_key(option)) keys.emplace_back(option.name);
    }
    return keys;
  }

  Status read_model(const Json& value) {
    if (!value.is_string()) return invalid_argument("\"model\": must be a string");
    call_.model = value.get<std::string>();
    return ok_status();
  }

  // {"type": "json_schema", "json_schema": {"schema": SCHEMA, ...}}, or any JSON object (other servers take its
  // "schema" there), or text.
  Status read_response_format(const Json& value) {
    const Json type = value.is_object() ? value.value("type", Json()) : Json();
    if (type == "text") return ok_status();
    if (type == "json_object") return set_schema("response_format", value.value("schema", Json{{"type", "object"}}));
    if (type != "json_schema") {
      return invalid_argument(
          fmt::format("\"response_format\" {}: must be {{\"type\": \"text\"}}, {{\"type\": \"json_object\"}} or "
                      "{{\"type\": \"json_schema\", \"json_schema\": {{\"schema\": ...}}}}",
                      shown(value)));
    }
    const Json format = value.value("json_schema", Json());
    const Json schema = format.is_object() ? format.value("schema", Json()) : Json();
    if (!schema.is_object()) {
      return invalid_argument("\"response_format\": \"json_schema\" must be an object whose \"schema\" is the schema");
    }
    return set_schema("response_format", schema);
  }

  /// What answers have to fit, as the caller's key has it.
  Status set_schema(const std::string& key, const Json& schema) {
    std::string text = json_text(schema);
    const Status status = json_schema_grammar(text).status();
    if (!status.ok()) return Status(status.code(), fmt::format("\"{}\": {}", key, status.message()));
    options_.request.json_schema = std::move(text);
    call_.shape.schema_key = key;
    return ok_status();
  }

  Status read_structured(const std::string& key, const Json& value) {
    BASS_ASSIGN_OR_RETURN(const std::optional<CallKey> meant, structured_key(key, value));
    if (!meant) return ok_status();
    if (meant->name == "json_schema" && meant->value.is_object()) return set_schema(key, meant->value);
    const Status status = set_row(meant->name, meant->value);
    if (status.ok()) return status;
    const std::string own = fmt::format("\"{}\"", meant->name);
    const std::string& message = status.message();
    const std::string rest = message.starts_with(own) ? message.substr(own.size()) : ": " + message;
    return Status(status.code(), fmt::format("\"{}\"{}", key, rest));
  }

  // "none", "auto", "required", or {"type": "function", "function": {"name": NAME}}.
  Status read_tool_choice(const Json& value) {
    if (value == "none" || value == "auto" || value == "required") {
      tool_choice_ = value.get<std::string>();
      return ok_status();
    }
    if (value.is_object() && value.value("type", Json()) == "allowed_tools")
      return read_allowed_tools(value.value("allowed_tools", Json()));
    const Json name = name_of_function(value);
    if (!name.is_string()) {
      return invalid_argument(
          fmt::format("\"tool_choice\" {}: must be \"none\", \"auto\", \"required\" or {{\"type\": \"function\", "
                      "\"function\": {{\"name\": \"...\"}}}}",
                      shown(value)));
    }
    called_ = name.get<std::string>();
    return ok_status();
  }

  static Json name_of_function(const Json& value) {
    const Json function = value.is_object() ? value.value("function", Json()) : Json();
    return function.is_object() ? function.value("name", Json()) : Json();
  }

  // {"mode": "auto" or "required", "tools": [{"type": "function", "function": {"name": NAME}}, ...]}
  Status read_allowed_tools(const Json& value) {
    const Json mode = value.is_object() ? value.value("mode", Json()) : Json();
    const Json tools = value.is_object() ? value.value("tools", Json()) : Json();
    bool is_right = (mode == "auto" || mode == "required") && tools.is_array();
    allowed_.emplace();
    for (const Json& tool : tools) {
      const Json name = name_of_function(tool);
      is_right = is_right && name.is_string();
      if (is_right) allowed_->push_back(name.get<std::string>());
    }
    if (!is_right) {
      return invalid_argument(fmt::format(
          "\"tool_choice\": its \"allowed_tools\" {}: must be {{\"mode\": \"auto\" or \"required\", \"tools\": "
          "[{{\"type\": \"function\", \"function\": {{\"name\": \"...\"}}}}, ...]}}",
          shown(value)));
    }
    tool_choice_ = mode.get<std::string>();
    return ok_status();
  }

  [[nodiscard]] bool is_allowed(const Tool& tool) const {
    return std::ranges::find(*allowed_, tool.name) != allowed_->end();
  }

  // A schema is one of what is said: the answer may be a call all the same.
  Status let_call(std::span<const Tool> tools) {
    if (!options_.request.json_schema) return ok_status();
    BASS_ASSIGN_OR_RETURN(Json schema, parse_user_json(*options_.request.json_schema));
    return set_schema("tools", tool_call_or(std::move(schema), tools));
  }

  // Where a call is wanted, the answer is one: {"name": ..., "arguments": ...}.
  Status settle_tools() {
    Request& request = options_.request;
    const bool must_call = called_.has_value() || tool_choice_ == "required";
    if (!request.tools) {
      return must_call ? invalid_argument("\"tool_choice\": there is nothing to call without \"tools\"") : ok_status();
    }
    if (tool_choice_ == "none") {
      request.tools.reset();
      return ok_status();
    }
    BASS_ASSIGN_OR_RETURN(std::vector<Tool> tools, read_tools(*request.tools));
    if (allowed_) std::erase_if(tools, [&](const Tool& tool) { return !is_allowed(tool); });
    if (tools.empty()) return invalid_argument("\"tool_choice\": allows none of the \"tools\"");
    CallableTools callable{.only_one = !may_call_several_, .must_call = must_call};
    for (const Tool& tool : tools) callable.names.push_back(tool.name);
    call_.shape.tools = std::make_shared<const CallableTools>(std::move(callable));
    if (!must_call) return let_call(tools);
    // A format is of what is said, and nothing is.
    if (call_.shape.schema_key == "response_format") request.json_schema.reset();
    if (has_grammar(request))
      return invalid_argument("\"tool_choice\": the answer is a call, and cannot follow a schema or pattern as well");
    call_.shape.must_call_named = called_.has_value();
    if (called_) std::erase_if(tools, [&](const Tool& tool) { return tool.name != *called_; });
    if (tools.empty())
      return invalid_argument(fmt::format("\"tool_choice\": {} is none of the \"tools\"", shown(Json(*called_))));
    return set_schema("tools", tool_call_schema(tools));
  }

  // True or false for a chat, whose "top_logprobs" are a key of their own; a number of these for a completion.
  Status read_logprobs(const Json& value) {
    if (is_chat() || value == false) return set(as_bool("logprobs", value), &call_.shape.has_logprobs);
    call_.shape.has_logprobs = true;
    return set(as_whole("logprobs", value, 0, find_option("top_logprobs")->max), &options_.request.top_logprobs);
  }

  // Of an echoed prompt, too.
  Status settle_logprobs() {
    ApiShape& shape = call_.shape;
    if (options_.request.top_logprobs > 0 && !shape.has_logprobs)
      return invalid_argument("\"top_logprobs\": has no place without \"logprobs\": true");
    shape.n_top = options_.request.top_logprobs;
    options_.request.prompt_logprobs = shape.has_echo && shape.has_logprobs;
    return ok_status();
  }

  // -1: as much as fits. Of 0 the prompt is all that is wanted.
  Status settle_lengths() {
    if (is_greedy_) options_.request.sampling.temperature = 0;
    const int least = options_.request.min_tokens;
    const std::optional<int> wanted = max_new_ ? max_new_ : max_tokens_;
    const int most = wanted.value_or(options_.request.max_tokens);
    if (most >= 0 && least > most)
      return invalid_argument(
          fmt::format("\"min_tokens\" {}: must be at most \"max_tokens\", which is {}", least, most));
    if (!wanted) return ok_status();
    options_.request.max_tokens = *wanted < 0 ? std::numeric_limits<int>::max() : *wanted;
    if (*wanted == 0) options_.request.prompt_logprobs = true;  // so the engine wants it
    // Who scores a text drops the one token behind it, and would drop one of the text where an end token leaves no
    // trace.
    if (*wanted == 1 && options_.request.prompt_logprobs) options_.request.sampling.ignore_eos = true;
    return ok_status();
  }

  Status read_stream_options(const Json& body) {
    const Json options = body.value("stream_options", Json());
    if (options.is_null()) return ok_status();
    if (!options.is_object()) return invalid_argument("\"stream_options\": must be an object");
    if (!call_.shape.is_streamed) return invalid_argument("\"stream_options\": has no place without \"stream\": true");
    for (const auto& [key, value] : options.items()) {
      if (key == "include_obfuscation" || value.is_null()) continue;  // padding against eavesdroppers: there is none
      if (key == "include_usage") {
        BASS_RETURN_IF_ERROR(set(as_bool(key, value), &call_.shape.has_usage));
      } else if (key == "continuous_usage_stats") {
        BASS_RETURN_IF_ERROR(set(as_bool(key, value), &call_.shape.has_running_usage));
      } else {
        return invalid_argument(fmt::format("\"stream_options\": unknown key \"{}\"; leave it out", key));
      }
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
    const Json& messages = value_or_null(body, "messages");
    if (messages.is_null()) return invalid_argument("\"messages\" is missing: the conversation to answer");
    Request request = options_.request;
    if (begins_answer_ && *begins_answer_ == request.continue_final_message)
      return invalid_argument(
          "\"add_generation_prompt\": is false where \"continue_final_message\" is true, and nowhere else");
    BASS_ASSIGN_OR_RETURN(request.messages, read_messages(messages));
    // Content that has to fit a schema or pattern does so as a whole, unless the caller wants both in it.
    request.think_first = thinks_first_.value_or(parts_reasoning_);
    const bool is_free = !has_grammar(request);
    call_.shape.parts_reasoning = parts_reasoning_ && (is_free || request.think_first);
    call_.shape.continues_message = request.continue_final_message;
    call_.shape.continues_thoughts = request.continue_final_message && is_in_thoughts(request.messages.back().content);
    call_.requests.push_back(std::move(request));
    return ok_status();
  }

  // A text, token ids, or a list of either.
  Status read_prompts(const Json& body) {
    const Json& prompt = value_or_null(body, "prompt");
    if (prompt.is_null()) return invalid_argument("\"prompt\" is missing: the text to go on with");
    const bool is_list = prompt.is_array() && !prompt.empty() && !prompt.front().is_number();
    if (!is_list) return add_prompt(prompt, "");
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
    for (size_t i = 0; i < prompt.size(); ++i) BASS_RETURN_IF_ERROR(add_prompt(prompt[i], fmt::format("[{}]", i)));
    return ok_status();
  }

  /// which: its place in the list, for messages.
  Status add_prompt(const Json& prompt, const std::string& which) {
    Request request = options_.request;
    if (request.seed) *request.seed += call_.requests.size();  // as the prompts of a file
    if (prompt.is_string()) {
      request.prompt = prompt.get<std::string>();
      if (request.prompt.empty()) {
        return invalid_argument(fmt::format("\"prompt\"{} is empty; give at least one character", which));
      }
    } else {
      BASS_RETURN_IF_ERROR(read_tokens(prompt, &request.prompt_tokens));
    }
    if (call_.shape.has_echo) BASS_RETURN_IF_ERROR(note_echo(request));
    call_.requests.push_back(std::move(request));
    return ok_status();
  }

  /// A prompt is echoed once for each sample, and with each token's alternatives where they are wanted.
  Status note_echo(const Request& request) {
    const ApiShape& shape = call_.shape;
    const size_t n_entries = shape.has_logprobs ? 1 + static_cast<size_t>(shape.n_top) : 1;
    n_echoed_ +=
        (request.prompt.size() + request.prompt_tokens.size()) * n_entries * static_cast<size_t>(shape.n_samples);
    if (n_echoed_ > kMaxEchoed) {
      return invalid_argument(fmt::format(
          "\"echo\": the prompts, once for each sample and log-probability, are more than {} characters; ask "
          "for fewer samples or in several calls",
          kMaxEchoed));
    }
    call_.shape.echoed.push_back(request.prompt);
    return ok_status();
  }

  static Status read_tokens(const Json& ids, std::vector<TokenId>* tokens) {
    if (!ids.is_array() || ids.empty())
      return invalid_argument("\"prompt\": must be a string, a list of token ids, or a list of these");
    for (const Json& id : ids) {
      TokenId token = 0;
      BASS_RETURN_IF_ERROR(set(as_whole("prompt", written_whole(id), 0, std::numeric_limits<TokenId>::max()), &token));
      tokens->push_back(token);
    }
    return ok_status();
  }

  GenerateOptions options_;
  ApiCall call_;
  std::string tool_choice_ = "auto";
  bool may_call_several_ = true;
  bool parts_reasoning_ = true;
  std::optional<bool> thinks_first_;
  std::optional<bool> begins_answer_;
  std::optional<std::string> called_;                // the tool that the caller has named
  std::optional<std::vector<std::string>> allowed_;  // those that may be called; none: all
  std::optional<int> n_best_of_;
  std::optional<int> max_tokens_;
  std::optional<int> max_new_;  // "max_completion_tokens", which goes first
  bool is_greedy_ = false;
  size_t n_echoed_ = 0;  // characters of prompts, once for each time that they are answered
};

Result<ApiCall> read_response(const Json& body, const GenerateOptions& defaults) {
  BASS_ASSIGN_OR_RETURN(ResponseCall response, read_response_call(body));
  Result<ApiCall> call = CallReader(ApiEndpoint::kChat, defaults).read(response.chat);
  if (!call.ok()) return by_response_key(call.status());
  ApiShape& shape = call.value().shape;
  shape.endpoint = ApiEndpoint::kResponse;
  if (shape.schema_key == "response_format") shape.schema_key = "text.format";
  GenerateOptions taken;
  taken.request.sampling = call.value().requests.front().sampling;
  for (const char* name : {"temperature", "top_p"}) {
    Json& repeated = response.repeated[name];
    if (repeated.is_null()) repeated = Json::parse(option_value(*find_option(name), taken));  // as it is written
  }
  shape.repeated = std::make_shared<const Json>(std::move(response.repeated));
  return call;
}

}  // namespace

Status by_callers_key(const ApiShape& shape, const Status& status) {
  constexpr std::string_view kSchema = "json_schema: ";
  if (!status.message().starts_with(kSchema)) return status;
  return {status.code(), fmt::format("\"{}\": {}", shape.schema_key, status.message().substr(kSchema.size()))};
}

Result<ApiCall> read_api_call(ApiEndpoint endpoint, std::string_view body, const GenerateOptions& defaults) {
  if (const std::optional<size_t> at = find_invalid_utf8(body))
    return invalid_argument(fmt::format("the body is not valid UTF-8 (at byte {})", *at));
  if (body.find_first_not_of(" \t\r\n") == body.npos) return invalid_argument("the body is empty; send a JSON object");
  Result<Json> json = parse_user_json(body);
  if (!json.ok()) return Status(json.status().code(), fmt::format("the body: {}", json.status().message()));
  return read_parsed_call(endpoint, json.value(), defaults);
}

Result<ApiCall> read_parsed_call(ApiEndpoint endpoint, const Json& body, const GenerateOptions& defaults) {
  if (endpoint == ApiEndpoint::kResponse) return read_response(body, defaults);
  return CallReader(endpoint, defaults).read(body);
}

}  // namespace bass
