#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/chat_tools.h"
#include "text/jinja/template.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Json variables_of(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Json tools;
  if (!format.tools.empty()) tools = Json::parse(format.tools, nullptr, /*allow_exceptions=*/false);
  Json variables = {{"messages", template_messages(format.chat_template, messages, tools)},
                    {"tools", tools},
                    {"documents", nullptr},
                    {"add_generation_prompt", format.add_generation_prompt}};
  if (format.bos_token.has_value()) variables["bos_token"] = *format.bos_token;
  if (format.eos_token.has_value()) variables["eos_token"] = *format.eos_token;
  return variables;
}

Result<std::string> render(const ChatFormat& format, std::span<const ChatMessage> messages) {
  BASS_ASSIGN_OR_RETURN(const jinja::Template chat_template, jinja::Template::parse(format.chat_template));
  return chat_template.render(variables_of(format, messages), std::time(nullptr));
}

}  // namespace

ChatFormat chat_format(const Tokenizer& tokenizer) {
  ChatFormat format{.chat_template = tokenizer.chat_template()};
  if (tokenizer.bos_id()) format.bos_token = tokenizer.token_bytes(*tokenizer.bos_id());
  if (tokenizer.eos_id()) format.eos_token = tokenizer.token_bytes(*tokenizer.eos_id());
  return format;
}

std::vector<ChatMessage> conversation_of(const std::optional<std::string>& system, std::string message) {
  std::vector<ChatMessage> messages;
  if (system) messages.push_back({"system", *system});
  messages.push_back({"user", std::move(message)});
  return messages;
}

Status check_messages(std::span<const ChatMessage> messages) {
  for (const ChatMessage& message : messages) {
    const std::string_view texts[] = {message.role, message.content, message.tool_calls, message.tool_call_id,
                                      message.name};
    if (!std::ranges::all_of(texts, is_valid_utf8))
      return invalid_argument("a message is not valid UTF-8; convert it first");
    if (!message.tool_calls.empty() && !Json::parse(message.tool_calls, nullptr, /*allow_exceptions=*/false).is_array())
      return invalid_argument("a message's tool_calls are no JSON list; give OpenAI's, or nothing");
  }
  return ok_status();
}

Result<std::string> format_chat(const ChatFormat& format, std::span<const ChatMessage> messages) {
  if (format.chat_template.empty()) {
    return invalid_argument("the model has no chat template; `bass generate --no-chat` continues a text as it is");
  }
  if (messages.empty()) return invalid_argument("a chat needs at least one message");
  Result<std::string> text = render(format, messages);
  if (text.ok()) return text;
  return invalid_argument(fmt::format("the model's chat template refuses the messages: {}", text.status().message()));
}

}  // namespace bass
