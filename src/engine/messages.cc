#include "engine/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kRoles{"system", "user", "assistant", "developer", "tool"};

// A part of what was said that a text does not have. What else clients know of a message, or send back of an answer,
// says nothing to the model: labels of many kinds, which differ from client to client.
constexpr std::array kNoText{"audio", "image", "images", "image_url", "video", "videos", "files"};

/// A part of a content that is a list: a text, or what an assistant has refused with.
Result<std::string> read_part(const Json& part) {
  const Json type = part.is_object() ? part.value("type", Json()) : Json();
  const char* const key = type == "refusal" ? "refusal" : "text";
  const bool is_text = (type == "text" || type == "refusal") && part.contains(key) && part[key].is_string();
  if (!is_text) {
    return invalid_argument(
        R"("content": its parts must be like {"type": "text", "text": "..."}; images and sounds are not supported)");
  }
  return part[key].get<std::string>();
}

Result<std::string> read_content(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return invalid_argument("\"content\": must be a string, or a list of text parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    BASS_ASSIGN_OR_RETURN(const std::string part, read_part(content[i]));
    text += i == 0 ? "" : "\n";
    text += part;
  }
  return text;
}

Status check_keys(const Json& message) {
  for (const auto& [key, value] : message.items()) {
    const bool says_nothing = value.is_null() || (value.is_structured() && value.empty());
    if (says_nothing || std::ranges::find(kNoText, key) == kNoText.end()) continue;
    return invalid_argument(fmt::format("\"{}\": messages are texts here; leave it out", key));
  }
  return ok_status();
}

Result<std::string> read_role(const Json& message) {
  const Json role = message.value("role", Json());
  if (role == "function") return std::string("tool");  // its older name
  if (role.is_string() && std::ranges::find(kRoles, role.get<std::string>()) != kRoles.end())
    return role.get<std::string>();
  return invalid_argument(
      fmt::format("\"role\" {}: must be \"system\", \"user\", \"assistant\", \"developer\" or \"tool\"",
                  role.is_null() ? "is missing" : role.dump()));
}

/// An entry of OpenAI's list.
Json call_json(const Json& function, const Json& id) {
  Json call = id.is_null() ? Json::object() : Json{{"id", id}};
  call["type"] = "function";
  call["function"] = {{"name", function.value("name", Json())}, {"arguments", function.value("arguments", Json())}};
  return call;
}

/// The tools that an assistant called, OpenAI's list.
Result<Json> read_calls(const Json& message) {
  Json list = Json::array();
  const Json& calls = value_or_null(message, "tool_calls");
  if (!calls.is_null() && !calls.is_array()) return invalid_argument("\"tool_calls\": must be a list");
  for (const Json& call : calls) {
    const Json function = call.is_object() ? call.value("function", Json()) : Json();
    if (!function.is_object())
      return invalid_argument(R"("tool_calls": must be like {"type": "function", "function": {"name": "...", ...}})");
    list.push_back(call_json(function, call.value("id", Json())));
  }
  if (const Json function = message.value("function_call", Json()); function.is_object())
    list.push_back(call_json(function, Json()));
  return list;
}

std::string text_or_none(const Json& message, const char* key) {
  const Json value = message.value(key, Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

Result<ChatMessage> read_said(const Json& message) {
  ChatMessage said{.role = "assistant"};
  if (message.contains("content") && !message["content"].is_null()) {
    BASS_ASSIGN_OR_RETURN(said.content, read_content(message["content"]));
  }
  BASS_ASSIGN_OR_RETURN(const Json calls, read_calls(message));
  if (!calls.empty()) said.tool_calls = json_text(calls);
  said.reasoning_content = text_or_none(message, "reasoning_content");
  return said;
}

Result<ChatMessage> read_message(const Json& message) {
  if (!message.is_object())
    return invalid_argument("must be an object like {\"role\": \"user\", \"content\": \"...\"}");
  BASS_RETURN_IF_ERROR(check_keys(message));
  BASS_ASSIGN_OR_RETURN(std::string role, read_role(message));
  const bool has_content = message.contains("content");
  const bool has_calls = message.contains("tool_calls") || message.contains("function_call");
  if (role == "assistant" && (has_content || has_calls)) return read_said(message);
  if (!has_content || message["content"].is_null()) return invalid_argument("\"content\" is missing");
  BASS_ASSIGN_OR_RETURN(std::string content, read_content(message["content"]));
  ChatMessage read{.role = std::move(role), .content = std::move(content)};
  if (read.role == "tool") {
    read.tool_call_id = text_or_none(message, "tool_call_id");
    read.name = text_or_none(message, "name");
  }
  return read;
}

}  // namespace

Result<std::vector<ChatMessage>> read_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    return invalid_argument("\"messages\": must be a list of objects like {\"role\": \"user\", \"content\": \"...\"}");
  std::vector<ChatMessage> turns;
  for (size_t i = 0; i < messages.size(); ++i) {
    Result<ChatMessage> message = read_message(messages[i]);
    if (!message.ok())
      return Status(message.status().code(), fmt::format("\"messages\"[{}]: {}", i, message.status().message()));
    turns.push_back(std::move(message).value());
  }
  return turns;
}

}  // namespace bass
