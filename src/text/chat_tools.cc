#include "text/chat_tools.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool mentions(std::string_view chat_template, std::string_view name) {
  return chat_template.find(name) != chat_template.npos;
}

/// Of an assistant's message: a list, empty where it called nothing.
Json calls_of(const ChatMessage& message) {
  if (message.tool_calls.empty()) return Json::array();
  Json calls = Json::parse(message.tool_calls, nullptr, /*allow_exceptions=*/false);
  return calls.is_array() ? std::move(calls) : Json::array();
}

/// {"name": ..., "arguments": ...}
std::string call_text(const Json& call) {
  const Json function = call.is_object() ? call.value("function", Json()) : Json();
  if (!function.is_object()) return "";
  return dump({{"name", function.value("name", Json())}, {"arguments", function.value("arguments", Json())}});
}

std::string with_calls(std::string said, const Json& calls) {
  for (const Json& call : calls) {
    if (!said.empty() && !said.ends_with('\n')) said += '\n';
    said += fmt::format("{}\n{}\n{}", kCallBegin, call_text(call), kCallEnd);
  }
  return said;
}

Json message_json(const ChatMessage& message, bool knows_calls) {
  Json json{{"role", message.role}, {"content", message.content}};
  if (Json calls = calls_of(message); !calls.empty()) {
    if (knows_calls) {
      json["tool_calls"] = std::move(calls);
    } else {
      json["content"] = with_calls(message.content, calls);
    }
  }
  if (!message.tool_call_id.empty()) json["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) json["name"] = message.name;
  return json;
}

std::string tools_text(const Json& tools) {
  std::string text = "You may call functions. These are there, each with a JSON schema of its arguments:\n<tools>\n";
  for (const Json& tool : tools) text += dump(tool.value("function", tool)) + "\n";
  return text + fmt::format(
                    "</tools>\nTo call one, write its name and its arguments as JSON between these marks, and wait for "
                    "the result:\n{}\n{{\"name\": \"NAME\", \"arguments\": {{...}}}}\n{}",
                    kCallBegin, kCallEnd);
}

void add_tools_text(const Json& tools, Json* messages) {
  const std::string text = tools_text(tools);
  if (messages->empty() || messages->front()["role"] != "system") {
    messages->insert(messages->begin(), Json{{"role", "system"}, {"content", text}});
    return;
  }
  auto& content = messages->front()["content"].get_ref<std::string&>();
  content += (content.empty() ? "" : "\n\n") + text;
}

}  // namespace

Json template_messages(std::string_view chat_template, std::span<const ChatMessage> messages, const Json& tools) {
  Json list = Json::array();
  const bool knows_calls = mentions(chat_template, "tool_calls");
  for (const ChatMessage& message : messages) list.push_back(message_json(message, knows_calls));
  if (!tools.is_null() && !mentions(chat_template, "tools")) add_tools_text(tools, &list);
  return list;
}

}  // namespace bass
