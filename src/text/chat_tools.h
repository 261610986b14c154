// What a chat template is told of functions that an assistant may call; and, where it knows none, of that in words.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "bass/request.h"

namespace bass {

inline constexpr std::string_view kCallBegin = "<tool_call>", kCallEnd = "</tool_call>";

/// How an assistant's message with calls is told. Templates print arguments as JSON, or put them together with texts;
/// they look whether the content is null, or expect a text: whatever their author's programs pass.
struct CallStyle {
  bool has_texts = false;  ///< arguments are texts, not objects
  bool has_null = false;   ///< a content that is empty is null
};

/// How many calls there are whose function's name is not in the text.
int64_t n_calls_missing(std::string_view text, std::span<const ChatMessage> messages);

/// The template's variable "messages". One that knows "tool_calls" gets them as transformers hands them over. For
/// another they are text behind what was said, each call a JSON object of "name" and "arguments" between kCallBegin and
/// kCallEnd; and what tools have answered is said by the user, between <tool_response> and </tool_response>, together
/// with what the user says before and after it, as many such templates want turns to alternate. Messages of the role
/// "developer" are system messages to a template that does not know it.
nlohmann::ordered_json template_messages(std::string_view chat_template, std::span<const ChatMessage> messages,
                                         CallStyle style);

/// Adds to such messages what there is to call, and how, in words: in the system message, or, where a template takes
/// none, in front of what the user says first.
enum class ToolsPlace : uint8_t { kSystem, kUser };
nlohmann::ordered_json with_tools_told(nlohmann::ordered_json messages, const nlohmann::ordered_json& tools,
                                       ToolsPlace place);

}  // namespace bass
