// What a chat template is told of functions that an assistant may call; and, where it knows none, of that in words.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "bass/request.h"
#include "bass/status.h"

namespace bass {

inline constexpr std::string_view kCallBegin = "<tool_call>", kCallEnd = "</tool_call>";

/// The template's variable "messages". A template that knows "tool_calls" gets them as transformers hands them over,
/// with arguments that are objects; for another they are text behind what was said: each call a JSON object of "name"
/// and "arguments", between kCallBegin and kCallEnd. So are `tools` (null: none) part of the system message where the
/// template does not know them.
nlohmann::ordered_json template_messages(std::string_view chat_template, std::span<const ChatMessage> messages,
                                         const nlohmann::ordered_json& tools);

}  // namespace bass
