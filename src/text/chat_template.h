// Chat formatting. BASS runs no Jinja: it recognises the template's kind.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", ...
  std::string content;
};

/// The messages as the model's template writes them; `add_generation_prompt` begins the assistant's answer. The only
/// kind known is ChatML (<|im_start|>ROLE, the content, <|im_end|>). If the template has a default system message, and
/// the first message is of another role, it is put in front.
/// Errors (kInvalidArgument): no template, another kind, no messages, a role that is no word.
Result<std::string> format_chat(std::string_view chat_template, std::span<const ChatMessage> messages,
                                bool add_generation_prompt);

}  // namespace bass
