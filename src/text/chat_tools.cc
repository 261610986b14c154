#include "text/chat_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

bool mentions(std::string_view chat_template, std::string_view name) {
  return chat_template.find(name) != chat_template.npos;
}

/// Whether it looks for messages of this role.
bool knows_role(std::string_view chat_template, std::string_view role) {
  return mentions(chat_template, fmt::format("'{}'", role)) || mentions(chat_template, fmt::format("\"{}\"", role));
}

/// A developer's messages are the system's, under the name that OpenAI's later models have for it. Most templates know
/// one system message alone, at the beginning, so one that follows it is joined with it.
std::vector<ChatMessage> with_system_role(std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> told;
  for (const ChatMessage& message : messages) {
    const bool is_developer = message.role == "developer";
    if (is_developer && told.size() == 1 && told.front().role == "system") {
      told.front().content += "\n\n" + message.content;
      continue;
    }
    told.push_back(message);
    if (is_developer) told.back().role = "system";
  }
  return told;
}

/// The object that a call's arguments are, also where they are a text that says it; else as they came.
Json arguments_of(const Json& function) {
  Json arguments = function.value("arguments", Json());
  if (!arguments.is_string()) return arguments;
  Result<Json> parsed = parse_user_json(arguments.get_ref<const std::string&>());
  return parsed.ok() && parsed.value().is_object() ? std::move(parsed).value() : std::move(arguments);
}

/// Of an assistant's message: a list, empty where it called nothing.
Json calls_of(const ChatMessage& message, bool has_texts) {
  if (message.tool_calls.empty()) return Json::array();
  Result<Json> calls = parse_user_json(message.tool_calls);
  if (!calls.ok() || !calls.value().is_array()) return Json::array();
  for (Json& call : calls.value()) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json arguments = arguments_of(call["function"]);
    if (has_texts && !arguments.is_string()) arguments = json_text(arguments);
    call["function"]["arguments"] = std::move(arguments);
  }
  return std::move(calls).value();
}

/// {"name": ..., "arguments": ...}
std::string call_text(const Json& call) {
  const Json function = call.is_object() ? call.value("function", Json()) : Json();
  if (!function.is_object()) return "";
  return json_text({{"name", function.value("name", Json())}, {"arguments", function.value("arguments", Json())}});
}

std::string with_calls(std::string said, const Json& calls) {
  for (const Json& call : calls) {
    if (!said.empty() && !said.ends_with('\n')) said += '\n';
    said += fmt::format("{}\n{}\n{}", kCallBegin, call_text(call), kCallEnd);
  }
  return said;
}

/// Of a tool's answer, or an assistant's.
void add_labels(const ChatMessage& message, Json* json) {
  if (!message.tool_call_id.empty()) (*json)["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) (*json)["name"] = message.name;
  if (!message.reasoning_content.empty()) (*json)["reasoning_content"] = message.reasoning_content;
}

Json told_message(const ChatMessage& message, CallStyle style) {
  Json json{{"role", message.role}, {"content", message.content}};
  if (Json calls = calls_of(message, style.has_texts); !calls.empty()) {
    if (style.has_null && message.content.empty()) json["content"] = nullptr;
    json["tool_calls"] = std::move(calls);
  }
  add_labels(message, &json);
  return json;
}

/// Calls, and what came of them, as text.
Json plain_messages(std::span<const ChatMessage> messages, bool knows_results) {
  Json list = Json::array();
  bool follows_result = false;
  for (const ChatMessage& message : messages) {
    const bool is_result = message.role == "tool" && !knows_results;
    std::string content = is_result ? fmt::format("<tool_response>\n{}\n</tool_response>", message.content)
                                    : with_calls(message.content, calls_of(message, /*has_texts=*/false));
    const std::string role = is_result ? "user" : message.role;
    const bool follows_user = !list.empty() && list.back()["role"] == "user" && role == "user";
    if (follows_user && (is_result || follows_result)) {
      list.back()["content"].get_ref<std::string&>() += "\n" + content;
    } else {
      list.push_back({{"role", role}, {"content", std::move(content)}});
      if (!is_result) add_labels(message, &list.back());
    }
    follows_result = is_result;
  }
  return list;
}

std::string tools_text(const Json& tools) {
  std::string text = "You may call functions. These are there, each with a JSON schema of its arguments:\n<tools>\n";
  for (const Json& tool : tools) text += json_text(tool.is_object() ? tool.value("function", tool) : tool) + "\n";
  return text + fmt::format(
                    "</tools>\nTo call one, write its name and its arguments as JSON between these marks, and wait for "
                    "the result:\n{}\n{{\"name\": \"NAME\", \"arguments\": {{...}}}}\n{}",
                    kCallBegin, kCallEnd);
}

}  // namespace

int64_t n_calls_missing(std::string_view text, std::span<const ChatMessage> messages) {
  const auto is_missing = [text](const Json& call) {
    const Json function = call.is_object() ? call.value("function", Json()) : Json();
    const Json name = function.is_object() ? function.value("name", Json()) : Json();
    return name.is_string() && text.find(name.get_ref<const std::string&>()) == text.npos;
  };
  int64_t n = 0;
  for (const ChatMessage& message : messages)
    n += std::ranges::count_if(calls_of(message, /*has_texts=*/true), is_missing);
  return n;
}

Json template_messages(std::string_view chat_template, std::span<const ChatMessage> given, CallStyle style) {
  std::vector<ChatMessage> renamed;
  const bool has_developer = std::ranges::find(given, "developer", &ChatMessage::role) != given.end();
  if (has_developer && !knows_role(chat_template, "developer")) renamed = with_system_role(given);
  const std::span<const ChatMessage> messages = renamed.empty() ? given : renamed;
  if (!mentions(chat_template, "tool_calls")) return plain_messages(messages, knows_role(chat_template, "tool"));
  Json list = Json::array();
  for (const ChatMessage& message : messages) list.push_back(told_message(message, style));
  return list;
}

Json with_tools_told(Json messages, const Json& tools, ToolsPlace place) {
  const char* const role = place == ToolsPlace::kSystem ? "system" : "user";
  const auto is_it = [&](const Json& message) { return message["role"] == role && message["content"].is_string(); };
  const auto first = place == ToolsPlace::kUser ? std::ranges::find_if(messages, is_it) : messages.begin();
  std::string text = tools_text(tools);
  if (first == messages.end() || !is_it(*first)) {
    messages.insert(messages.begin(), Json{{"role", role}, {"content", std::move(text)}});
    return messages;
  }
  auto& content = (*first)["content"].get_ref<std::string&>();
  const std::string_view between = content.empty() ? "" : "\n\n";
  content = place == ToolsPlace::kUser ? fmt::format("{}{}{}", text, between, content)
                                       : fmt::format("{}{}{}", content, between, text);
  return messages;
}

}  // namespace bass
