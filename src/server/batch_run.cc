#include "server/batch_run.h"

#include <ctime>
#include <utility>

#include "server/submit_call.h"

namespace bass {
namespace {

constexpr uint64_t kJob = 1;          // all calls are wanted together
constexpr int64_t kBatchesAhead = 3;  // so many batches' samples wait behind those that run

BatchAnswer refusal(size_t call_idx, const ApiError& error) { return {call_idx, error.http_status, error.body()}; }

}  // namespace

bool BatchRun::has_room(bool is_timed) const {
  return n_samples_ < (is_timed ? 1 : 1 + kBatchesAhead) * engine_->options().max_batch;
}

std::optional<BatchAnswer> BatchRun::begin(size_t call_idx, ApiEndpoint endpoint, std::string_view body,
                                           std::string id) {
  ApiCall call;
  if (const auto error = take_served_call(read_api_call(endpoint, body, defaults_), model_, &call))
    return refusal(call_idx, *error);
  const ApiShape& shape = call.shape;
  if (shape.is_streamed) {
    return refusal(call_idx, api_error(invalid_argument("\"stream\": a call of a batch has one answer; leave it out")));
  }
  const auto n_samples = static_cast<int64_t>(shape.n_prompts) * shape.n_samples;
  if (n_samples > kMaxSamples) return refusal(call_idx, too_many_samples_error(kMaxSamples));
  Running running{WholeAnswer(shape, {std::move(id), std::time(nullptr), model_}, token_texts(engine_)), n_samples,
                  call.requests.size()};
  const auto error = submit_requests(engine_, &call, events_, kJob, &running.ids);
  for (size_t i = 0; i < running.ids.size(); ++i) {
    if (error) engine_->cancel(running.ids[i]);  // its events are nobody's
    if (!error) places_[running.ids[i]] = {call_idx, i};
  }
  if (error) return refusal(call_idx, *error);
  n_samples_ += n_samples;
  running_.emplace(call_idx, std::move(running));
  return std::nullopt;
}

std::vector<BatchAnswer> BatchRun::wait(std::chrono::duration<double> timeout) {
  constexpr std::chrono::duration<double> kNow{0};
  std::vector<BatchAnswer> ended;
  for (Event event; events_->wait(&event, ended.empty() ? timeout : kNow);) {
    take(event, &ended);
    timeout = kNow;
  }
  return ended;
}

void BatchRun::take(const Event& event, std::vector<BatchAnswer>* ended) {
  const auto place = places_.find(event.request_id);
  if (place == places_.end()) return;
  const auto [call_idx, prompt_idx] = place->second;
  const auto found = running_.find(call_idx);
  Running& running = found->second;
  running.answer.take(prompt_idx, event);
  n_tokens_ += static_cast<int64_t>(event.tokens.size());
  if (event.kind == Event::Kind::kFinished) {
    --running.n_samples;
    --n_samples_;
  }
  if (event.kind != Event::Kind::kDone) return;
  places_.erase(place);
  if (--running.n_left > 0) return;
  Result<std::string> body = running.answer.finish();
  if (running.answer.lacks_time()) body = unavailable("\"time_budget\": was used up before a sample had a token");
  n_samples_ -= running.n_samples;
  running_.erase(found);
  if (body.ok()) {
    ended->push_back({call_idx, 200, std::move(body).value()});
  } else {
    ended->push_back(refusal(call_idx, api_error(body.status())));
  }
}

void BatchRun::cancel() noexcept {
  for (const auto& [id, place] : places_) engine_->cancel(id);
}

}  // namespace bass
