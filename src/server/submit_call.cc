#include "server/submit_call.h"

#include <utility>

namespace bass {

std::optional<ApiError> take_served_call(Result<ApiCall> read, const std::string& model, ApiCall* call) {
  if (!read.ok()) return api_error(read.status());
  if (!read->model.empty() && read->model != model) return unknown_model_error(read->model, model);
  *call = std::move(read).value();
  return std::nullopt;
}

std::optional<ApiError> submit_requests(Engine* engine, ApiCall* call, const std::shared_ptr<EventQueue>& events,
                                        uint64_t job, std::vector<RequestId>* ids) {
  ids->reserve(call->requests.size());  // a request that is not in it would run for nobody
  for (Request& request : call->requests) {
    request.job = job;
    const Result<RequestId> id = engine->submit(std::move(request), events);
    if (!id.ok()) {
      const std::string text_key(words_of(call->shape.endpoint).text_key);
      return api_error(by_callers_key(call->shape, id.status()), text_key);
    }
    ids->push_back(id.value());
  }
  return std::nullopt;
}

}  // namespace bass
