// Calls of OpenAI's Responses API, which are calls of a chat in other words (docs/server.md).
#pragma once

#include <nlohmann/json.hpp>

#include "bass/status.h"

namespace bass {

/// A call of /v1/responses.
struct ResponseCall {
  nlohmann::ordered_json chat;      ///< the body of the chat's call that asks for the same
  nlohmann::ordered_json repeated;  ///< what the answer repeats of the call
};

/// From a body, an object. Keys that the chat has as well are passed on unread. Error (kInvalidArgument): a sentence
/// that names the key.
Result<ResponseCall> read_response_call(const nlohmann::ordered_json& body);

/// What is wrong with the chat's call, by the keys of the response's.
Status by_response_key(const Status& status);

}  // namespace bass
