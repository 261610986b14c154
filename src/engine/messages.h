// Conversations in JSON: the "messages" of a prompts file and of the API.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bass/request.h"

namespace bass {

/// The turns of a conversation: a list of {"role": ..., "content": ...}, a content being a text or a list of
/// {"type": "text", "text": ...}, which become lines of one (null of an assistant: nothing was said). An assistant's
/// "tool_calls" (or "function_call") and "reasoning_content" and a tool's "tool_call_id" and "name" are kept for the
/// template. What clients send back of an answer beside these ("id", "refusal", ...) is left unread; other keys may be
/// null or empty lists. Error (kInvalidArgument): "\"messages\"[2]: \"content\" is missing".
Result<std::vector<ChatMessage>> read_messages(const nlohmann::ordered_json& messages);

}  // namespace bass
