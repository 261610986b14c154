// What calls of the OpenAI-compatible API may be sent to.
#pragma once

#include <cstdint>
#include <string_view>

namespace bass {

enum class ApiEndpoint : uint8_t {
  kChat,        ///< Chat Completions
  kCompletion,  ///< (legacy) Completions
  kResponse,    ///< Responses
};

/// Words of the protocol that differ from one to the other.
struct EndpointWords {
  ApiEndpoint endpoint;
  std::string_view name;       ///< "chat"
  std::string_view path;       ///< "/v1/chat/completions"
  std::string_view text_key;   ///< of a call: what is answered
  std::string_view id_prefix;  ///< of answers
};

const EndpointWords& words_of(ApiEndpoint endpoint);
/// nullptr: there is none with this path.
const EndpointWords* find_endpoint(std::string_view path);

}  // namespace bass
