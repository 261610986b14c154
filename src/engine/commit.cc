#include "engine/commit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace bass {
namespace {

// Room for a step's tokens and their text in most events: events are used again, so it is made once.
constexpr size_t kEventTokens = kMaxDraftLen + 1;
constexpr size_t kEventTextBytes = 256;

// What a step emitted becomes part of the sequence and goes into `event`. Returns why the sequence ends, if it does: an
// error only where a constraint has lost its way.
std::optional<FinishReason> append_tokens(const CommitContext& context, Sequence* sequence, const SegmentResult& result,
                                          size_t n_tokens, Event* event) {
  RequestState* request = sequence->request;
  const int n_top = request->request.top_logprobs;
  auto top = result.top_logprobs.begin();
  event->tokens.reserve(kEventTokens);
  event->text.reserve(kEventTextBytes);
  for (const TokenInfo& token : std::span(result.tokens).first(n_tokens)) {
    if (context.tokenizer->is_end(token.id) || std::ranges::count(request->request.stop_token_ids, token.id) > 0) {
      return FinishReason::kStop;
    }
    const bool is_early = request->n_early(*sequence) > 0;
    sequence->output.push_back(token.id);
    if (request->ngrams != nullptr) request->ngrams->append(sequence->choice_idx, token.id);
    event->tokens.push_back(token);
    event->top_logprobs.insert(event->top_logprobs.end(), top, top + n_top);
    top += n_top;
    const std::string_view text = sequence->detokenizer.push(token.id);
    if (is_early) {
      event->text += text;
    } else if (sequence->stop_matcher.push(text, &event->text)) {
      return FinishReason::kStop;
    }
    if (sequence->place.constraint() != nullptr) {
      sequence->place.advance(token.id);
      if (sequence->place.is_complete()) return FinishReason::kStop;
      if (sequence->place.is_lost()) return FinishReason::kError;
    }
    if (request->text_len(*sequence) >= request->max_text_len) return FinishReason::kLength;
  }
  return std::nullopt;
}

// Of accepted tokens only those that were emitted: an end token or a stop string among them throws away the rest.
void count(SpeculationStats* stats, const SegmentResult& result, int n_emitted) {
  ++stats->draft_length_histogram[static_cast<size_t>(result.n_drafted)];
  if (result.n_drafted == 0) return;
  ++stats->rounds;
  stats->drafted += result.n_drafted;
  stats->accepted += std::min(result.n_accepted, n_emitted);
}

// Both caches hold what is part of the text now, and nothing of rejected drafts.
void roll_back(Sequence* sequence, const SegmentPlan& plan, const SegmentResult& result) {
  const int n_valid = plan.start + 1 + result.n_accepted;
  sequence->main_pages.commit(n_valid);
  if (plan.draft_tokens.empty()) return;
  const int n_seen = plan.draft_start + static_cast<int>(plan.draft_tokens.size()) + result.n_draft_cached;
  sequence->draft_pages.commit(std::min(n_seen, n_valid));
}

std::list<Event> make_event(const Sequence& sequence, Event::Kind kind) {
  std::list<Event> event = sequence.request->events->blank();
  event.front().kind = kind;
  event.front().request_id = sequence.request->id;
  event.front().choice_idx = sequence.choice_idx;
  return event;
}

// Where a constraint allows nothing, the last token of a result is none. Empty: that is not what has failed.
std::string why_stuck(const Sequence& sequence, const SegmentResult& result) {
  TokenConstraint* constraint = sequence.place.constraint();
  if (!result.failed || !result.error.ok() || constraint == nullptr || result.tokens.empty()) return {};
  TokenConstraint::State state = sequence.place.state();
  for (size_t i = 0; i + 1 < result.tokens.size() && state != TokenConstraint::kDead; ++i) {
    state = constraint->next(state, result.tokens[i].id);
  }
  const std::string why = constraint->why_stuck(state, /*may_end=*/!sequence.request->request.sampling.ignore_eos);
  const bool bans_more = !sequence.request->request.stop_token_ids.empty() &&
                         sequence.request->n_early(sequence) >= static_cast<int>(result.tokens.size());
  if (!why.empty() || !bans_more) return why;
  return "min_tokens: only tokens of stop_token_ids can go on with the schema or pattern before so many tokens; lower "
         "it";
}

Status why_failed(const SegmentResult& result) {
  if (!result.error.ok()) return result.error;
  return internal_error("the model's output is not a number; the file may be damaged");
}

}  // namespace

void commit_prefill(const CommitContext& context, RequestState* request, const SegmentPlan& plan,
                    const SegmentResult& result) {
  const int end = plan.start + static_cast<int>(plan.tokens.size());
  request->main_prefix.set_len(end);
  if (!plan.draft_tokens.empty()) request->draft_prefix.set_len(end);
  context.stats->prefill_tokens += static_cast<int64_t>(plan.tokens.size());
  auto& logprobs = request->prompt_logprobs;
  logprobs.insert(logprobs.end(), result.target_logprobs.begin(), result.target_logprobs.end());
  auto& argmax = request->prompt_argmax;
  argmax.insert(argmax.end(), result.target_argmax.begin(), result.target_argmax.end());
  auto& top = request->prompt_top;
  top.insert(top.end(), result.top_logprobs.begin(), result.top_logprobs.end());
  if (plan.wants_top5) request->last_top5 = result.top5;
  if (result.failed) {
    finish_request(context, request, FinishReason::kError, why_failed(result));
    return;
  }
  context.scheduler->share_prefix(request);
  if (!request->is_prefilled()) return;
  send_prompt_event(context, request);
  if (request->request.max_tokens == 0) finish_request(context, request, FinishReason::kLength);
}

void send_prompt_event(const CommitContext& context, RequestState* request) {
  if (std::exchange(request->has_sent_prompt, true)) return;
  Event event;
  event.kind = Event::Kind::kPrompt;
  event.request_id = request->id;
  event.n_prompt_tokens = static_cast<int>(request->prompt.size());
  event.n_cached_tokens = request->done.front().n_cached_tokens = request->n_cached_tokens;
  context.stats->cached_tokens += request->n_cached_tokens;
  event.prompt_tokens = request->prompt;
  event.prompt_logprobs = std::move(request->prompt_logprobs);
  event.prompt_argmax = std::move(request->prompt_argmax);
  event.top_logprobs = std::move(request->prompt_top);
  event.last_top5 = std::move(request->last_top5);
  context.outbox->add(*request, std::move(event));
}

int commit_decode(const CommitContext& context, Sequence* sequence, const SegmentPlan& plan,
                  const SegmentResult& result) {
  const std::string stuck = why_stuck(*sequence, result);
  if (result.failed && stuck.empty()) {
    finish_sequence(context, sequence, FinishReason::kError, why_failed(result));
    return 0;
  }
  send_prompt_event(context, sequence->request);  // a prompt of one token has no prefill
  roll_back(sequence, plan, result);
  std::list<Event> event = make_event(*sequence, Event::Kind::kTokens);
  const std::optional<FinishReason> end =
      append_tokens(context, sequence, result, result.tokens.size() - (stuck.empty() ? 0 : 1), &event.front());
  const auto n_tokens = static_cast<int>(event.front().tokens.size());
  count(&sequence->stats.speculation, result, n_tokens);
  count(&context.stats->speculation, result, n_tokens);
  if (n_tokens > 0) context.outbox->add(*sequence->request, std::move(event));
  if (end == FinishReason::kError) {
    finish_sequence(context, sequence, *end,
                    resource_exhausted("there is no room left to follow the grammar: it leaves too many possibilities "
                                       "for so many samples at once"));
  } else if (end) {
    finish_sequence(context, sequence, *end);
  } else if (!stuck.empty()) {
    finish_sequence(context, sequence, FinishReason::kError, invalid_argument(stuck));
  }
  return n_tokens;
}

void finish_sequence(const CommitContext& context, Sequence* sequence, FinishReason reason, Status error) {
  if (sequence->is_finished) return;
  RequestState* request = sequence->request;
  // What may fail comes first, so that nothing is half done.
  context.outbox->reserve_for(2);
  const Clock::time_point now = Clock::now();
  std::list<Event> node = make_event(*sequence, Event::Kind::kFinished);
  Event& event = node.front();
  // Text that was held back because it might have become a stop string or a longer character.
  sequence->stop_matcher.push(sequence->detokenizer.flush(), &event.text);
  sequence->stop_matcher.flush(&event.text);  // nothing behind a stop string
  event.finish_reason = reason;
  event.error = std::move(error);
  event.stats = sequence->stats;
  event.stats.decode_s = sequence->is_started ? seconds_between(sequence->decode_start, now) : 0;
  event.stats.finished_at_s = seconds_between(request->submitted, now);
  context.scheduler->finish(sequence, /*keeps_text=*/reason != FinishReason::kError);
  context.outbox->add(*request, std::move(node));
  if (request->n_finished < static_cast<int>(request->choices.size())) return;
  context.outbox->add(*request, std::move(request->done));
}

void finish_request(const CommitContext& context, RequestState* request, FinishReason reason, const Status& error) {
  for (const auto& choice : request->choices) finish_sequence(context, choice.get(), reason, error);
}

}  // namespace bass
