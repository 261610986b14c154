// From a call of the API to requests of the engine; the part that does not depend on where calls come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bass/engine.h"
#include "server/api_call.h"
#include "server/api_error.h"

namespace bass {

/// A call of one model's server as read_api_call or read_parsed_call gives it. model: what the model is called. Error:
/// what is wrong with the call.
std::optional<ApiError> take_served_call(Result<ApiCall> read, const std::string& model, ApiCall* call);

/// Submits the call's requests, which it moves from. job: Request::job. ids: gets those that were submitted, in order.
/// Error: the engine's about one of them, by the caller's key; those in front of it run.
std::optional<ApiError> submit_requests(Engine* engine, ApiCall* call, const std::shared_ptr<EventQueue>& events,
                                        uint64_t job, std::vector<RequestId>* ids);

}  // namespace bass
