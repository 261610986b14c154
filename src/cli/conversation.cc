#include "cli/conversation.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/check.h"
#include "cli/interrupt.h"

namespace bass {

void Conversation::set_system(const std::string& text) {
  request_.system = text.empty() ? std::nullopt : std::optional(text);
}

Request Conversation::make_request() const {
  Request request = request_;
  if (request.system) request.messages.push_back({"system", *request.system});
  request.messages.insert(request.messages.end(), turns_.begin(), turns_.end());
  if (request.seed) *request.seed += n_answers_;
  return request;
}

Status Conversation::check() const {
  Request request = make_request();
  request.messages.push_back({"user", "Hello"});
  return engine_->check(request);
}

Conversation::Followed Conversation::follow(RequestId id, EventQueue* events, const Show& show) {
  Followed answer;
  bool is_done = false, is_cancelled = false;
  while (!is_done) {
    Event event;
    const bool has_event = events->wait(&event, kPollInterval);
    if (is_interrupted()) event.text.clear();  // not a word after Ctrl-C; what is kept is what was shown
    const bool is_unread = has_event && !event.text.empty() && !show(event.text);
    if ((is_unread || is_interrupted()) && !is_cancelled) {
      engine_->cancel(id);
      is_cancelled = true;
    }
    if (!has_event) continue;
    answer.text += event.text;
    answer.n_tokens += static_cast<int>(event.tokens.size());
    is_done = event.kind == Event::Kind::kDone;
    const bool is_untold = is_done && !event.error.ok();  // there was no memory to tell of the choice
    if (is_untold) event.finish_reason = FinishReason::kError;
    if (event.kind == Event::Kind::kFinished || is_untold) answer.finished = std::move(event);
  }
  return answer;
}

Result<int> Conversation::make_room() {
  const int64_t context_len = *engine_->options().context_len;
  // An answer may be allowed to be as long as the context.
  int64_t most = context_len - std::min<int64_t>(request_.max_tokens, context_len / 4);
  int n_forgotten = 0;
  while (turns_.size() > 1) {
    BASS_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, engine_->prompt_tokens(make_request()));
    if (static_cast<int64_t>(prompt.size()) <= most) break;
    most = std::min(most, context_len / 2);
    turns_.erase(turns_.begin(), turns_.begin() + 2);
    n_forgotten += 2;
  }
  return n_forgotten;
}

Result<Answer> Conversation::answer(const std::string& message, const Show& show) {
  const std::vector<ChatMessage> before = turns_;
  turns_.push_back({"user", message});
  const auto events = std::make_shared<EventQueue>();
  const Result<int> n_forgotten = make_room();
  const Result<RequestId> id = n_forgotten.ok() ? engine_->submit(make_request(), events) : n_forgotten.status();
  if (!id.ok()) {
    turns_ = before;
    return id.status();
  }
  ++n_answers_;
  Followed answer = follow(id.value(), events.get(), show);
  const FinishReason reason = answer.finished.finish_reason;
  if (answer.text.empty() && (reason == FinishReason::kCancelled || reason == FinishReason::kError)) {
    turns_.pop_back();
  } else {
    turns_.push_back({"assistant", std::move(answer.text)});
  }
  if (reason == FinishReason::kError) return answer.finished.error;
  const bool is_context_full = reason == FinishReason::kLength && answer.n_tokens < request_.max_tokens;
  return Answer{.reason = reason, .is_context_full = is_context_full, .n_forgotten = n_forgotten.value()};
}

}  // namespace bass
