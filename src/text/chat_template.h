// A conversation as the model's own template writes it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bass/request.h"
#include "bass/status.h"
#include "text/tokenizer.h"

namespace bass {

struct ChatFormat {
  std::string_view chat_template;             ///< Jinja; empty: the model has none
  std::optional<std::string_view> bos_token;  ///< texts of the vocabulary's tokens, for the template
  std::optional<std::string_view> eos_token;
  bool add_generation_prompt = true;  ///< begin the assistant's answer
  bool continues_last = false;        ///< end with the last message's text (Request::continue_final_message)
  std::string_view tools;             ///< functions that may be called (Request::tools); empty: none
  std::string_view variables;         ///< more of them (Request::chat_template_kwargs); empty: none
};

/// The template of a model, whose tokenizer outlives it.
ChatFormat chat_format(const Tokenizer& tokenizer);

/// A user's message, behind a system message if there is one.
std::vector<ChatMessage> conversation_of(const std::optional<std::string>& system, std::string message);

/// Error (kInvalidArgument): one of them is no UTF-8, or its tool_calls no JSON list.
Status check_messages(std::span<const ChatMessage> messages);

/// Templates look their variables up one after the other.
inline constexpr size_t kMaxTemplateVariables = 256;

/// Error (kInvalidArgument): ChatFormat::variables is no JSON object, has more than kMaxTemplateVariables, or names
/// what the request itself says.
Status check_template_variables(std::string_view json);

/// What the template prints when it gets the messages as transformers hands them over: `messages`, `tools`,
/// `add_generation_prompt`, `bos_token` and `eos_token` where there are such tokens, `documents` none, and over these
/// the format's own variables; for templates that do not know tools chat_tools.h has words. The special tokens in it
/// are to be parsed and none to be added: a template prints its own begin token. That holds for the messages' contents
/// too, as in transformers: a content that spells a special token becomes that token. Errors (kInvalidArgument): no
/// template, no messages, what the template refuses, with its line, or a last message that nothing can go on with.
Result<std::string> format_chat(const ChatFormat& format, std::span<const ChatMessage> messages);

}  // namespace bass
