#include "server/response_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "server/api_keys.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxKeys = 256;                  // what is passed on looks for each of its keys
constexpr size_t kMaxRepeated = size_t{1} << 20;  // bytes of what an answer, or a stream thrice, says of its call

// What a chat calls what is something else here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kChatsKeys{
    {{"messages", "\"input\""},
     {"max_tokens", "\"max_output_tokens\""},
     {"max_completion_tokens", "\"max_output_tokens\""},
     {"response_format", R"("text": {"format": ...})"},
     {"logprobs", R"("top_logprobs", or "include": ["message.output_text.logprobs"])"},
     {"reasoning_effort", R"("reasoning": {"effort": ...})"}}};

/// What is only understood where it asks for nothing.
struct Unanswerable {
  std::string_view key;
  std::string_view harmless;  // besides null, as JSON
  std::string_view what;
};
constexpr std::array<Unanswerable, 7> kUnanswerable{
    {{"previous_response_id", "null", "answers are not kept here; send the conversation so far in \"input\""},
     {"conversation", "null", "conversations are not kept here; send what was said so far in \"input\""},
     {"prompt", "null", "prompts are not kept here; send the text in \"input\""},
     {"background", "false", "answers are not kept here for later"},
     {"truncation", "\"disabled\"", "of a conversation that is too long nothing is left out here"},
     {"n", "1", "a response is one answer; /v1/chat/completions gives several"},
     {"context_management", "[]", "conversations are not shortened here"}}};

std::string string_of(const Json& object, const char* key) {
  const Json value = object.is_object() ? object.value(key, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// "input", a text or a list of items, as the messages of a chat. What an assistant thinks, says and calls are items
/// each, and one message.
class InputReader {
 public:
  Status read_instructions(const Json& instructions) {
    if (instructions.is_null()) return ok_status();
    if (!instructions.is_string()) return invalid_argument("\"instructions\": must be a string");
    messages_.push_back({{"role", "system"}, {"content", instructions}});
    return ok_status();
  }

  Status read(const Json& input) {
    if (input.is_null()) return invalid_argument("\"input\" is missing: the text or conversation to answer");
    if (input.is_string()) {
      messages_.push_back({{"role", "user"}, {"content", input}});
      return ok_status();
    }
    if (!input.is_array() || input.empty())
      return invalid_argument(
          "\"input\": must be a string, or a list of items like {\"role\": \"user\", \"content\": \"...\"}");
    for (size_t i = 0; i < input.size(); ++i) {
      const Status status = read_item(input[i]);
      if (!status.ok()) return Status(status.code(), fmt::format("\"input\"[{}]: {}", i, status.message()));
    }
    return messages_.empty() ? invalid_argument("\"input\": has nothing to answer") : ok_status();
  }

  Json take() { return std::move(messages_); }

 private:
  Status read_item(const Json& item) {
    if (!item.is_object()) return invalid_argument("must be an object like {\"role\": \"user\", \"content\": \"...\"}");
    const Json type = item.value("type", Json());
    if (type == "message" || (type.is_null() && item.contains("role"))) return read_message(item);
    if (type == "function_call") return read_call(item);
    if (type == "function_call_output") return read_output(item);
    if (type == "reasoning") return read_thoughts(item);
    if (type == "item_reference") return invalid_argument("\"item_reference\": items are not kept here; send it whole");
    return invalid_argument(
        fmt::format("\"type\" {}: must be \"message\", \"function_call\", \"function_call_output\" or \"reasoning\"",
                    type.is_null() ? "is missing" : shown(type)));
  }

  Status read_message(const Json& item) {
    const Json role = item.value("role", Json());
    constexpr std::array kRoles{"user", "assistant", "system", "developer"};
    if (std::ranges::find(kRoles, role) == kRoles.end())
      return invalid_argument(fmt::format("\"role\" {}: must be \"user\", \"assistant\", \"system\" or \"developer\"",
                                          role.is_null() ? "is missing" : shown(role)));
    BASS_ASSIGN_OR_RETURN(Json content, read_content(item, "content"));
    if (role == "assistant") {
      assistant(/*is_fresh=*/has_said_)["content"] = std::move(content);
      has_said_ = true;
      return ok_status();
    }
    add({{"role", role}, {"content", std::move(content)}});
    return ok_status();
  }

  /// A text, or parts of one as a chat has them.
  static Result<Json> read_content(const Json& item, const char* key) {
    const Json content = item.value(key, Json());
    if (content.is_string()) return content;
    if (!content.is_array()) return invalid_argument(fmt::format("\"{}\": must be a string, or a list of texts", key));
    Json parts = Json::array();
    for (const Json& part : content) {
      const std::string type = string_of(part, "type");
      const bool is_text = type == "input_text" || type == "output_text" || type == "text";
      const char* const text_key = type == "refusal" ? "refusal" : "text";
      const Json text = part.is_object() ? part.value(text_key, Json()) : Json();
      if ((!is_text && type != "refusal") || !text.is_string())
        return invalid_argument(fmt::format(
            R"("{}": its parts must be like {{"type": "input_text", "text": "..."}}; images and files are not supported)",
            key));
      parts.push_back({{"type", "text"}, {"text", text}});
    }
    return parts;
  }

  Status read_call(const Json& item) {
    for (const char* key : {"call_id", "name", "arguments"}) {
      const Json value = item.value(key, Json());
      if (!value.is_string()) return invalid_argument(fmt::format("\"{}\": must be a string", key));
    }
    Json& message = assistant(/*is_fresh=*/false);
    message["tool_calls"].push_back({{"id", item["call_id"]},
                                     {"type", "function"},
                                     {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
    has_said_ = true;  // what is said behind a call is another message
    names_[string_of(item, "call_id")] = string_of(item, "name");
    return ok_status();
  }

  Status read_output(const Json& item) {
    const Json call_id = item.value("call_id", Json());
    if (!call_id.is_string()) return invalid_argument("\"call_id\": must be a string");
    BASS_ASSIGN_OR_RETURN(Json output, read_content(item, "output"));
    Json message{{"role", "tool"}, {"tool_call_id", call_id}, {"content", std::move(output)}};
    if (const auto name = names_.find(call_id.get<std::string>()); name != names_.end()) message["name"] = name->second;
    add(std::move(message));
    return ok_status();
  }

  Status read_thoughts(const Json& item) {
    std::string text;
    for (const char* key : {"content", "summary"}) {
      const Json parts = item.value(key, Json());
      if (!parts.is_null() && !parts.is_array()) return invalid_argument(fmt::format("\"{}\": must be a list", key));
      if (!text.empty()) continue;  // a summary where there is nothing else
      for (const Json& part : parts) text += (text.empty() ? "" : "\n") + string_of(part, "text");
    }
    thoughts_ = std::move(text);
    is_open_ = false;
    return ok_status();
  }

  /// The message to which an item of the assistant belongs.
  Json& assistant(bool is_fresh) {
    if (!is_open_ || is_fresh) {
      Json message{{"role", "assistant"}, {"content", nullptr}};
      if (!thoughts_.empty()) message["reasoning_content"] = std::move(thoughts_);
      add(std::move(message));
      is_open_ = true;
    }
    return messages_.back();
  }

  void add(Json message) {
    messages_.push_back(std::move(message));
    thoughts_.clear();
    is_open_ = false;
    has_said_ = false;
  }

  Json messages_ = Json::array();
  std::unordered_map<std::string, std::string> names_;  // of functions, by the ids of their calls
  std::string thoughts_;                                // in front of what the assistant says next
  bool is_open_ = false;                                // items of an assistant belong to the last message
  bool has_said_ = false;                               // which has a text or a call
};

class CallTranslator {
 public:
  Result<ResponseCall> read(const Json& body) {
    if (body.size() > kMaxKeys)
      return invalid_argument(fmt::format("the body has {} keys; at most {} are known", body.size(), kMaxKeys));
    for (const auto& [key, value] : body.items()) {
      if (!value.is_null()) BASS_RETURN_IF_ERROR(read_key(key, value));
    }
    InputReader input;
    BASS_RETURN_IF_ERROR(input.read_instructions(body.value("instructions", Json())));
    BASS_RETURN_IF_ERROR(input.read(value_or_null(body, "input")));
    call_.chat["messages"] = input.take();
    repeat(body);
    BASS_RETURN_IF_ERROR(check_repeated());
    return std::move(call_);
  }

 private:
  Status read_key(const std::string& key, const Json& value) {
    constexpr std::array kElsewhere{"input", "instructions"};                          // read behind this
    constexpr std::array kIgnored{"max_tool_calls", "moderation", "client_metadata"};  // of tools that are not here
    if (std::ranges::find(kElsewhere, key) != kElsewhere.end()) return ok_status();
    if (std::ranges::find(kIgnored, key) != kIgnored.end()) return ok_status();
    for (const auto& [other, here] : kChatsKeys) {
      if (key == other) return invalid_argument(fmt::format("\"{}\": it is {} of a response", key, here));
    }
    const auto* unsupported = std::ranges::find(kUnanswerable, key, &Unanswerable::key);
    if (unsupported != kUnanswerable.end()) return check_harmless(*unsupported, value);
    if (key == "max_output_tokens") return pass("max_completion_tokens", value);
    if (key == "text") return read_text(value);
    if (key == "reasoning")
      return value.is_object() ? ok_status() : invalid_argument("\"reasoning\": must be an object");
    if (key == "include") return read_include(value);
    if (key == "top_logprobs") return read_top_logprobs(value);
    if (key == "tools") return read_tools(value);
    if (key == "tool_choice") return read_tool_choice(value);
    return pass(key, value);
  }

  static Status check_harmless(const Unanswerable& key, const Json& value) {
    if (value == Json::parse(key.harmless)) return ok_status();
    return invalid_argument(fmt::format("\"{}\" {}: {}; leave it out", key.key, shown(value), key.what));
  }

  Status pass(const std::string& key, const Json& value) {
    call_.chat[key] = value;
    return ok_status();
  }

  // {"format": {"type": "json_schema", "name": ..., "schema": ...}}, or of type "json_object" or "text".
  Status read_text(const Json& value) {
    if (!value.is_object()) return invalid_argument("\"text\": must be an object");
    const Json format = value.value("format", Json());
    if (format.is_null()) return ok_status();
    const std::string type = string_of(format, "type");
    if (type == "text" || type == "json_object") return pass("response_format", format);
    if (type != "json_schema" || !format.value("schema", Json()).is_object())
      return invalid_argument(
          fmt::format(R"("text": its "format" {}: must be {{"type": "text"}}, {{"type": "json_object"}} or )"
                      R"({{"type": "json_schema", "name": "...", "schema": {{...}}}})",
                      shown(format)));
    return pass("response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", format["schema"]}}}});
  }

  /// What else may be told, of tools that are not here, has nothing to tell.
  Status read_include(const Json& value) {
    if (!value.is_array()) return invalid_argument("\"include\": must be a list");
    if (std::ranges::find(value, "message.output_text.logprobs") != value.end()) call_.chat["logprobs"] = true;
    return ok_status();
  }

  Status read_top_logprobs(const Json& value) {
    if (value != 0) call_.chat["logprobs"] = true;
    return pass("top_logprobs", value);
  }

  // {"type": "function", "name": ..., "parameters": ..., ...}
  Status read_tools(const Json& value) {
    if (!value.is_array()) return invalid_argument("\"tools\": must be a list");
    Json tools = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      const Json type = value[i].is_object() ? value[i].value("type", Json()) : Json();
      if (type != "function")
        return invalid_argument(
            fmt::format("\"tools\"[{}]: \"type\" {}: only functions of the caller's are supported, "
                        R"({{"type": "function", "name": "...", "parameters": {{...}}}})",
                        i, type.is_null() ? "is missing" : shown(type)));
      if (!value[i].value("name", Json()).is_string())
        return invalid_argument(fmt::format("\"tools\"[{}]: \"name\": must be a string", i));
      Json function = value[i];
      function.erase("type");
      tools.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    return pass("tools", tools);
  }

  // "none", "auto", "required", {"type": "function", "name": NAME}, or {"type": "allowed_tools", "mode": ..., "tools":
  // [{"type": "function", "name": NAME}, ...]}.
  Status read_tool_choice(const Json& value) {
    if (value.is_string()) return pass("tool_choice", value);
    const std::string type = string_of(value, "type");
    if (type == "function") return pass("tool_choice", named(value));
    if (type != "allowed_tools" || !value.value("tools", Json()).is_array())
      return invalid_argument(
          fmt::format("\"tool_choice\" {}: must be \"none\", \"auto\", \"required\" or {{\"type\": \"function\", "
                      "\"name\": \"...\"}}",
                      shown(value)));
    Json tools = Json::array();
    for (const Json& tool : value["tools"]) tools.push_back(named(tool));
    return pass("tool_choice",
                {{"type", "allowed_tools"},
                 {"allowed_tools", {{"mode", value.value("mode", Json())}, {"tools", std::move(tools)}}}});
  }

  static Json named(const Json& tool) {
    const Json name = tool.is_object() ? tool.value("name", Json()) : Json();
    return {{"type", "function"}, {"function", {{"name", name}}}};
  }

  // The error names what is largest.
  [[nodiscard]] Status check_repeated() const {
    size_t n_bytes = 0, n_largest = 0;
    std::string largest;
    for (const auto& [key, value] : call_.repeated.items()) {
      const size_t n = json_text(value).size();
      n_bytes += n;
      if (n <= n_largest) continue;
      largest = key;
      n_largest = n;
    }
    if (n_bytes <= kMaxRepeated) return ok_status();
    return invalid_argument(
        fmt::format("\"{}\": what an answer repeats of its call is more than {} bytes; {} of them are of this", largest,
                    kMaxRepeated, n_largest));
  }

  void repeat(const Json& body) {
    const auto said = [&](const char* key, Json otherwise) {
      const Json value = body.value(key, Json());
      call_.repeated[key] = value.is_null() ? std::move(otherwise) : value;
    };
    said("instructions", nullptr);
    said("max_output_tokens", nullptr);
    said("max_tool_calls", nullptr);
    said("metadata", Json::object());
    said("parallel_tool_calls", true);
    said("reasoning", {{"effort", nullptr}, {"summary", nullptr}});
    said("temperature", nullptr);
    said("text", Json::object());
    if (!call_.repeated["text"].contains("format")) call_.repeated["text"]["format"] = {{"type", "text"}};
    said("tool_choice", "auto");
    said("tools", Json::array());
    said("top_logprobs", 0);
    said("top_p", nullptr);
    said("user", nullptr);
    call_.repeated.update({{"background", false},
                           {"previous_response_id", nullptr},
                           {"service_tier", "default"},
                           {"store", false},
                           {"truncation", "disabled"}});
  }

  ResponseCall call_;
};

}  // namespace

Result<ResponseCall> read_response_call(const Json& body) {
  if (!body.is_object()) return invalid_argument("the body must be a JSON object");
  return CallTranslator().read(body);
}

Status by_response_key(const Status& status) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kKeys{
      {{"messages", "input"},
       {"max_completion_tokens", "max_output_tokens"},
       {"max_tokens", "max_output_tokens"},
       {"response_format", "text.format"}}};
  for (const auto& [of_chat, here] : kKeys) {
    const std::string begin = fmt::format("\"{}\"", of_chat);
    if (!status.message().starts_with(begin)) continue;
    return {status.code(), fmt::format("\"{}\"{}", here, status.message().substr(begin.size()))};
  }
  return status;
}

}  // namespace bass
