#include "text/chat_template.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/jinja/template.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Json variables_of(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Json list = Json::array();
  for (const ChatMessage& message : messages) list.push_back({{"role", message.role}, {"content", message.content}});
  Json variables = {{"messages", std::move(list)},
                    {"tools", nullptr},
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
    if (is_valid_utf8(message.role) && is_valid_utf8(message.content)) continue;
    return invalid_argument("a message is not valid UTF-8; convert it first");
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
