#include "server/api_endpoint.h"

#include <algorithm>
#include <array>

namespace bass {
namespace {

constexpr std::array<EndpointWords, 3> kEndpoints{
    {{ApiEndpoint::kChat, "chat", "/v1/chat/completions", "messages", "chatcmpl-"},
     {ApiEndpoint::kCompletion, "completion", "/v1/completions", "prompt", "cmpl-"},
     {ApiEndpoint::kResponse, "response", "/v1/responses", "input", "resp_"}}};

}  // namespace

const EndpointWords& words_of(ApiEndpoint endpoint) {
  return *std::ranges::find(kEndpoints, endpoint, &EndpointWords::endpoint);
}

const EndpointWords* find_endpoint(std::string_view path) {
  const auto* found = std::ranges::find(kEndpoints, path, &EndpointWords::path);
  return found == kEndpoints.end() ? nullptr : found;
}

}  // namespace bass
