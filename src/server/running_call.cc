#include "server/running_call.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/caught_status.h"

namespace bass {
namespace {

std::variant<WholeAnswer, StreamedAnswer> make_answer(const ApiShape& shape, ApiHead head, const TokenTextOf& texts) {
  if (shape.is_streamed) return StreamedAnswer(shape, std::move(head), texts);
  return WholeAnswer(shape, std::move(head), texts);
}

}  // namespace

RunningCall::RunningCall(const net::any_io_executor& executor, Clock::time_point arrived, const ApiShape& shape,
                         ApiHead head, const TokenTextOf& texts)
    : arrived_(arrived),
      answer_(make_answer(shape, std::move(head), texts)),
      n_left_(shape.n_prompts),
      news_(executor) {}

void RunningCall::take(size_t prompt_idx, const Event& event) {
  if (event.kind == Event::Kind::kDone) --n_left_;
  if (auto* whole = std::get_if<WholeAnswer>(&answer_)) {
    whole->take(prompt_idx, event);
  } else if (status_.ok()) {
    const Result<std::string> piece = std::get<StreamedAnswer>(answer_).take(prompt_idx, event);
    if (!piece.ok()) return fail(piece.status());
    pieces_ += piece.value();
  }
  if (has_news()) news_.cancel();
}

void RunningCall::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  news_.cancel();
}

net::awaitable<void> RunningCall::wait() {
  constexpr Clock::duration kLong = std::chrono::hours(1);
  bool has_come = false;
  while (!has_come) has_come = co_await wait_for(kLong);
}

net::awaitable<bool> RunningCall::wait_for(Clock::duration longest) {
  news_.expires_after(longest);
  while (!has_news()) {
    ErrorCode woken;
    co_await news_.async_wait(net::redirect_error(net::use_awaitable, woken));
    if (!woken) co_return has_news();
  }
  co_return true;
}

std::string RunningCall::take_pieces() {
  if (is_done() && status_.ok() && !has_end_) {
    pieces_ += std::get<StreamedAnswer>(answer_).end();
    has_end_ = true;
  }
  return std::exchange(pieces_, {});
}

Result<std::string> RunningCall::whole() {
  if (!status_.ok()) return status_;
  return std::get<WholeAnswer>(answer_).finish();
}

void CallTable::add(const std::shared_ptr<RunningCall>& call, const std::vector<RequestId>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    places_[ids[i]] = {call, i, {}};
    const auto found = early_.find(ids[i]);
    if (found == early_.end()) continue;
    const std::vector<Event> events = std::move(found->second);
    early_.erase(found);
    take(events);
  }
}

void CallTable::drop(const std::vector<RequestId>& ids) noexcept {
  for (const RequestId id : ids) {
    engine_->cancel(id);
    const auto found = places_.find(id);
    if (found != places_.end()) found->second.call.reset();
  }
}

void CallTable::take(const std::vector<Event>& events) {
  for (const Event& event : events) {
    const auto found = places_.find(event.request_id);
    if (found == places_.end()) {
      early_[event.request_id].push_back(event);
      continue;
    }
    const std::shared_ptr<RunningCall> call = found->second.call;
    const size_t prompt_idx = found->second.prompt_idx;
    try {
      measure(event, &found->second);
    } catch (const std::bad_alloc&) {  // then it is not counted
    }
    if (event.kind == Event::Kind::kDone) places_.erase(found);
    if (!call) continue;
    try {
      call->take(prompt_idx, event);
    } catch (...) {
      call->fail(caught_status("answering a call"));
    }
  }
}

void CallTable::measure(const Event& event, Place* place) {
  const auto choice_idx = static_cast<size_t>(event.choice_idx);
  if (event.kind == Event::Kind::kTokens && !event.tokens.empty()) {
    if (place->n_tokens.empty() && place->call) times_->first_token.add(place->call->seconds());
    if (choice_idx >= place->n_tokens.size()) place->n_tokens.resize(choice_idx + 1);
    place->n_tokens[choice_idx] += static_cast<int64_t>(event.tokens.size());
  } else if (event.kind == Event::Kind::kFinished && place->call && choice_idx < place->n_tokens.size()) {
    const int64_t n_tokens = place->n_tokens[choice_idx];
    if (n_tokens > 0) times_->token.add(event.stats.decode_s / static_cast<double>(n_tokens));
  }
}

PromptCounts CallTable::prompts() const {
  const auto has_begun = [](const auto& entry) { return !entry.second.n_tokens.empty(); };
  const auto n_running = std::ranges::count_if(places_, has_begun);
  return {static_cast<int64_t>(places_.size()) - n_running, n_running};
}

void CallTable::cancel_all() {
  for (const auto& [id, place] : places_) engine_->cancel(id);
}

}  // namespace bass
