#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace bass {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

/// A Jinja string literal that begins with the quote at `at`, without its quotes and escapes.
std::optional<std::string> read_literal(std::string_view text, size_t at) {
  const char quote = text[at];
  std::string out;
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == quote) return out;
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char escaped = text[++i];
    out += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  return std::nullopt;
}

/// ChatML templates spell their default system message as one literal, from <|im_start|>system to <|im_end|>; where
/// they write the conversation's own system message, its content stands between two literals.
std::optional<std::string> find_default_system(std::string_view chat_template) {
  const std::string head = fmt::format("{}system\n", kStart);
  for (size_t at = chat_template.find(kStart); at != std::string_view::npos; at = chat_template.find(kStart, at + 1)) {
    if (at == 0 || (chat_template[at - 1] != '\'' && chat_template[at - 1] != '"')) continue;
    const std::optional<std::string> literal = read_literal(chat_template, at - 1);
    if (!literal.has_value() || !literal->starts_with(head)) continue;
    const size_t end = literal->find(kEnd);
    if (end != std::string::npos) return literal->substr(head.size(), end - head.size());
  }
  return std::nullopt;
}

bool is_word(std::string_view role) {
  return !role.empty() && std::ranges::all_of(role, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

void append_message(std::string_view role, std::string_view content, std::string& out) {
  out += fmt::format("{}{}\n{}{}\n", kStart, role, content, kEnd);
}

Status check_template(std::string_view chat_template) {
  if (chat_template.empty()) {
    return invalid_argument("the model has no chat template; use --no-chat to continue the text as it is");
  }
  if (chat_template.find(kStart) == std::string_view::npos || chat_template.find(kEnd) == std::string_view::npos) {
    return invalid_argument(
        "the model's chat template is not ChatML, the only kind that BASS knows; use --no-chat and format the prompt "
        "yourself");
  }
  return ok_status();
}

}  // namespace

Result<std::string> format_chat(std::string_view chat_template, std::span<const ChatMessage> messages,
                                bool add_generation_prompt) {
  BASS_RETURN_IF_ERROR(check_template(chat_template));
  if (messages.empty()) return invalid_argument("a chat needs at least one message");
  std::string out;
  if (messages[0].role != "system") {
    const std::optional<std::string> system = find_default_system(chat_template);
    if (system.has_value()) append_message("system", *system, out);
  }
  for (const ChatMessage& message : messages) {
    if (!is_word(message.role)) {
      return invalid_argument(fmt::format("the role '{}' is no word; use system, user or assistant", message.role));
    }
    append_message(message.role, message.content, out);
  }
  if (add_generation_prompt) out += fmt::format("{}assistant\n", kStart);
  return out;
}

}  // namespace bass
