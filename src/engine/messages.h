// Conversations in JSON: the "messages" of a prompts file and of the API.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bass/request.h"

namespace bass {

/// The turns of a conversation: a list of {"role": ..., "content": ...}, a content being a text or a list of
/// {"type": "text", "text": ...}, which are put together (null of an assistant: nothing was said). "name" and
/// "tool_call_id" may be there; other keys may be null or empty lists, as clients send them for what an answer did not
/// have. Error (kInvalidArgument): "\"messages\"[2]: \"content\" is missing".
Result<std::vector<ChatMessage>> read_messages(const nlohmann::ordered_json& messages);

}  // namespace bass
