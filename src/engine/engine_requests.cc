// The engine's side that any thread may call: requests come in, events go out.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/caught_status.h"
#include "base/check.h"
#include "engine/context_error.h"
#include "engine/engine_core.h"
#include "engine/validation.h"
#include "text/chat_template.h"

namespace bass {
namespace {

constexpr double kForeverS = 1e8;         // a clock's nanoseconds end at 9e9
constexpr size_t kMaxSpareEvents = 1024;  // of a queue: about a MiB

uint64_t random_seed() {
  uint64_t seed = 0;
  if (getentropy(&seed, sizeof seed) == 0) return seed;
  std::random_device device;  // the kernel is older than the call
  return static_cast<uint64_t>(device()) << 32 | device();
}

bool is_chat(const Request& request) { return request.chat || !request.messages.empty(); }

}  // namespace

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "error";
}

void EventQueue::push(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  ready_.notify_one();
}

void EventQueue::push(std::list<Event> events) noexcept {
  {
    const std::lock_guard lock(mutex_);
    events_.splice(events_.end(), events);
  }
  ready_.notify_all();
}

bool EventQueue::wait(Event* event, std::optional<std::chrono::duration<double>> timeout) {
  std::unique_lock lock(mutex_);
  const auto has_event = [this] { return !events_.empty(); };
  if (!timeout || timeout->count() > kForeverS) {
    ready_.wait(lock, has_event);
  } else if (!ready_.wait_for(lock, *timeout, has_event)) {
    return false;
  }
  std::swap(*event, events_.front());
  if (events_.front().kind == Event::Kind::kTokens && spare_.size() < kMaxSpareEvents) {
    spare_.splice(spare_.begin(), events_, events_.begin());
  } else {
    events_.pop_front();
  }
  return true;
}

std::list<Event> EventQueue::blank() {
  std::list<Event> event;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) event.splice(event.begin(), spare_, spare_.begin());
  }
  if (event.empty()) event.emplace_back();
  Event fresh;
  fresh.tokens.swap(event.front().tokens);
  fresh.text.swap(event.front().text);
  fresh.tokens.clear();
  fresh.text.clear();
  event.front() = std::move(fresh);
  return event;
}

Result<RequestId> EngineCore::submit(Request request, std::shared_ptr<EventQueue> events) try {
  if (events == nullptr) return invalid_argument("submit needs an event queue");
  std::list<std::unique_ptr<RequestState>> arriving;
  {
    BASS_ASSIGN_OR_RETURN(std::unique_ptr<RequestState> state, make_request(std::move(request), std::move(events)));
    arriving.push_back(std::move(state));
  }
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return unavailable("the engine is shutting down");
  const RequestId id = next_id_;
  live_.insert(id);
  ++next_id_;  // from here on nothing can fail
  arriving.front()->id = arriving.front()->done.front().request_id = id;
  arrived_.splice(arrived_.end(), arriving);
  wake_.notify_all();
  return id;
} catch (...) {
  return caught_status("the request could not be taken");
}

// Moves the id between the sets, and so needs no memory.
void EngineCore::cancel(RequestId id) noexcept {
  const std::lock_guard lock(mutex_);
  cancelled_.insert(live_.extract(id));
  wake_.notify_all();
}

EngineStats EngineCore::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void EngineCore::reset_stats() {
  const std::lock_guard lock(mutex_);
  wants_stats_reset_ = true;
  stats_ = {};
  wake_.notify_all();
}

Result<std::vector<TokenId>> EngineCore::tokenize(std::string_view text, bool add_special, bool parse_special) const
    try {
  return tokenizer_->encode(text, {.add_special = add_special, .parse_special = parse_special});
} catch (...) {
  return caught_status("the text could not be tokenised");
}

Result<std::string> EngineCore::detokenize(std::span<const TokenId> tokens) const try {
  return tokenizer_->decode(tokens, /*with_special=*/true);
} catch (...) {
  return caught_status("the tokens could not be decoded");
}

Result<TokenText> EngineCore::token_text(TokenId token, bool at_start) const try {
  BASS_RETURN_IF_ERROR(tokenizer_->check_id(token));
  TokenText text{.is_special = tokenizer_->is_control(token), .at_start = at_start};
  tokenizer_->append_text(token, /*with_special=*/true, text.at_start, text.bytes);
  return text;
} catch (...) {
  return caught_status("the token could not be decoded");
}

Result<std::string> EngineCore::prompt_text(const Request& request) const {
  if (!is_chat(request)) return request.prompt;
  ChatFormat format = chat_format(*tokenizer_);
  if (request.tools) format.tools = *request.tools;
  format.continues_last = request.continue_final_message;
  if (request.chat_template_kwargs) format.variables = *request.chat_template_kwargs;
  if (!request.messages.empty()) return format_chat(format, request.messages);
  return format_chat(format, conversation_of(request.system, request.prompt));
}

Result<std::vector<TokenId>> EngineCore::prompt_tokens(const Request& request) const try {
  BASS_RETURN_IF_ERROR(validate_request(request, draft_ != nullptr, static_cast<int>(main_->vocab.tokens.size())));
  return read_prompt(request, /*is_bounded=*/false);
} catch (...) {
  return caught_status("the prompt could not be made tokens");
}

Status EngineCore::check(const Request& request) const try {
  RequestState state;
  return size_request(request, &state);
} catch (...) {
  return caught_status("the request could not be looked at");
}

// A text that is too long whatever its tokens are is not made tokens, which would take long: none has more bytes than
// the longest one. A chat template prints the tokens that begin a text.
Result<std::vector<TokenId>> EngineCore::read_prompt(const Request& request, bool is_bounded) const {
  if (!request.prompt_tokens.empty()) return request.prompt_tokens;
  if (is_bounded) BASS_RETURN_IF_ERROR(check_conversation(request));
  BASS_ASSIGN_OR_RETURN(const std::string text, prompt_text(request));
  if (is_bounded) {
    const auto n_bytes = static_cast<int64_t>(tokenizer_->least_token_bytes(text));
    BASS_RETURN_IF_ERROR(
        check_context((n_bytes + max_token_bytes_ - 1) / max_token_bytes_, request.max_tokens, "at least "));
  }
  return tokenize(text, /*add_special=*/!is_chat(request), /*parse_special=*/true);
}

// What no template can print is told as what it is: too long.
Status EngineCore::check_conversation(const Request& request) const {
  constexpr int64_t kMostBytes = 16 << 20;
  int64_t n_bytes = 0;
  for (const ChatMessage& message : request.messages)
    n_bytes += static_cast<int64_t>(message.content.size() + message.tool_calls.size());
  if (n_bytes < kMostBytes) return ok_status();
  return check_context((n_bytes + max_token_bytes_ - 1) / max_token_bytes_, request.max_tokens, "at least ");
}

Status EngineCore::size_request(const Request& request, RequestState* state) const {
  const auto n_tokens = static_cast<int>(main_->vocab.tokens.size());
  BASS_RETURN_IF_ERROR(validate_request(request, draft_ != nullptr, n_tokens));
  if (request.top_logprobs > 0 && options_.trace != nullptr)
    return invalid_argument("top_logprobs: an engine that traces drafts tells none; leave them out");
  BASS_ASSIGN_OR_RETURN(state->draft_length, parse_draft_length(request.speculation.draft_length));
  BASS_ASSIGN_OR_RETURN(state->prompt, read_prompt(request, /*is_bounded=*/true));
  if (state->prompt.empty()) return invalid_argument("the prompt has no tokens");
  BASS_RETURN_IF_ERROR(set_constraint(request, state));
  const auto prompt_len = static_cast<int64_t>(state->prompt.size());
  BASS_RETURN_IF_ERROR(check_context(prompt_len, request.max_tokens, ""));
  state->max_text_len = static_cast<int>(std::min<int64_t>(prompt_len + request.max_tokens, *options_.context_len));
  state->prefix_len = request.prompt_logprobs ? static_cast<int>(prompt_len) : state->shared_len();
  return check_pages(*state);
}

Status EngineCore::set_constraint(const Request& request, RequestState* state) const {
  if (!has_grammar(request) && !request.thinking_budget) return ok_status();
  BASS_ASSIGN_OR_RETURN(const ThoughtsAhead thoughts, thoughts_of(request, state->prompt));
  if (!has_grammar(request) && thoughts == ThoughtsAhead::kNone) return ok_status();
  BASS_ASSIGN_OR_RETURN(state->constraint, constraints_->get(request, thoughts));
  return ok_status();
}

// What the template prints of a last message that is gone on with ends as that does.
Result<ThoughtsAhead> EngineCore::thoughts_of(const Request& request, std::span<const TokenId> prompt) const {
  constexpr size_t kMostTokens = 16;  // of a mark and the blanks behind it
  if (has_grammar(request) && !request.think_first) return ThoughtsAhead::kNone;
  if (request.continue_final_message) {
    const bool is_inside = !request.messages.empty() && is_in_thoughts(request.messages.back().content);
    return is_inside ? ThoughtsAhead::kBegun : ThoughtsAhead::kNone;
  }
  BASS_ASSIGN_OR_RETURN(const std::string end, detokenize(prompt.last(std::min(prompt.size(), kMostTokens))));
  return thoughts_ahead(end, chat_format(*tokenizer_).chat_template);
}

// The mend depends on what bounds the context: the model, the option, or the memory of the KV caches.
Status EngineCore::check_context(int64_t prompt_len, int64_t max_tokens, std::string_view at_least) const {
  const int64_t context_len = *options_.context_len, trained_len = main_->config.context_len;
  const int64_t min_len = prompt_len + (max_tokens > 0 ? 1 : 0);
  if (min_len <= context_len) return ok_status();
  const std::string_view what = max_tokens > 0 ? "prompt" : "text";
  std::string mend = fmt::format("shorten the {}", what);
  if (is_context_bounded_by_memory_ && min_len <= trained_len) {
    const int64_t n_pages = pages_for(std::min(prompt_len + max_tokens, trained_len)) + 1;
    mend +=
        fmt::format(" or raise --kv-memory to {}, as {} MiB hold no more", mib_for(n_pages), kv_budget_bytes_ >> 20);
  } else if (min_len <= trained_len) {
    mend += " or raise --context";
  }
  return invalid_argument(fmt::format("the {} has {}{} tokens, {} {}{}; {} (the model was trained for {})", what,
                                      at_least, prompt_len, kContextHolds, context_len,
                                      max_tokens > 0 ? " (the answer included)" : "", mend, trained_len));
}

Status EngineCore::check_pages(const RequestState& state) const {
  const int n_pages = scheduler_->min_pages(state);
  if (n_pages <= scheduler_->n_pages()) return ok_status();
  const auto prompt_len = static_cast<int64_t>(state.prompt.size());
  const bool prompt_fits = pages_for(prompt_len + 1) < scheduler_->n_pages();
  return invalid_argument(fmt::format(
      "the request can never fit the KV budget: {} prompt tokens and up to {} new ones need {} pages of {:g} KiB, "
      "and {} MiB hold {}; raise --kv-memory to {} or {}",
      prompt_len, state.max_text_len - prompt_len, n_pages, static_cast<double>(page_bytes()) / 1024,
      kv_budget_bytes_ >> 20, scheduler_->n_pages(), mib_for(n_pages),
      prompt_fits ? "lower --max-tokens" : "shorten the prompt"));
}

Status EngineCore::populate_kv(std::span<const Request> requests) try {
  struct Pages {
    int of_sample = 0;
    int of_prompt = 0;  // for the first of its samples
  };
  std::vector<Pages> samples;
  for (const Request& request : requests) {
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<RequestState> state, make_request(request, nullptr));
    const int n_of_sample = scheduler_->own_pages(*state);
    samples.push_back({n_of_sample, scheduler_->prefix_pages(*state)});
    samples.resize(samples.size() + static_cast<size_t>(std::min(request.n, options_.max_batch) - 1), {n_of_sample, 0});
  }
  std::ranges::sort(samples, std::greater<>(), [](const Pages& pages) { return pages.of_sample + pages.of_prompt; });
  int64_t n_pages = 0;
  samples.resize(std::min(samples.size(), static_cast<size_t>(options_.max_batch)));
  for (const Pages& pages : samples) {
    n_pages += pages.of_sample + pages.of_prompt;
  }
  return executor_->populate_kv(static_cast<int>(std::min<int64_t>(n_pages, scheduler_->n_pages())));
} catch (...) {
  return caught_status("the requests could not be looked at");
}

int64_t EngineCore::page_bytes() const { return executor_->main_page_bytes() + executor_->draft_page_bytes(); }

int64_t EngineCore::pages_for(int64_t n_tokens) const {
  return (n_tokens + executor_->page_len() - 1) / executor_->page_len();
}

int64_t EngineCore::mib_for(int64_t n_pages) const {
  constexpr int64_t kMib = 1 << 20;
  return (n_pages * page_bytes() + kMib - 1) / kMib;
}

Result<std::unique_ptr<RequestState>> EngineCore::make_request(Request request,
                                                               std::shared_ptr<EventQueue> events) const {
  auto state = std::make_unique<RequestState>();
  state->submitted = Clock::now();
  BASS_RETURN_IF_ERROR(size_request(request, state.get()));
  if (request.time_budget_s) {
    state->deadline = state->submitted + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(*request.time_budget_s));
  }
  state->events = std::move(events);
  state->request = std::move(request);
  set_sampling(state.get());
  set_drafting(state.get());
  BASS_ASSIGN_OR_RETURN(const StopMatcher stops, StopMatcher::create(state->request.stop));
  // What is generated continues the prompt's text, if there is any.
  const bool at_start = std::ranges::all_of(state->prompt, [&](TokenId id) { return tokenizer_->is_control(id); });
  const StreamDetokenizer detokenizer(*tokenizer_, /*with_special=*/false, at_start);
  for (int i = 0; i < state->request.n; ++i) {
    state->choices.push_back(std::make_unique<Sequence>(state.get(), i, detokenizer, stops));
    if (state->constraint != nullptr) state->choices.back()->place = ConstraintPlace(state->constraint);
  }
  Event& done = state->done.emplace_back();
  done.n_prompt_tokens = static_cast<int>(state->prompt.size());
  return state;
}

void EngineCore::set_sampling(RequestState* state) const {
  const Request& request = state->request;
  const SamplingOptions& options = request.sampling;
  for (const auto& [id, bias] : options.logit_bias) state->bias.push_back({id, bias});
  set_banned(state);
  SamplingParams& sampling = state->sampling;
  sampling.temperature = options.temperature;
  sampling.top_p = options.top_p;
  sampling.top_k = options.top_k;
  sampling.min_p = options.min_p;
  sampling.repetition_penalty = options.repetition_penalty;
  sampling.presence_penalty = options.presence_penalty;
  sampling.frequency_penalty = options.frequency_penalty;
  sampling.bias = state->bias.data();
  sampling.n_bias = static_cast<int32_t>(state->bias.size());
  sampling.seed = request.seed ? *request.seed : random_seed();
  sampling.rule = used_verify_rule(options.temperature, request.speculation.verify, request.seed.has_value());
}

// First those that are banned everywhere, then those that are until min_tokens are there. A stop token is one where
// other end tokens are ignored, too.
void EngineCore::set_banned(RequestState* state) const {
  const Request& request = state->request;
  std::vector<TokenId>& banned = state->banned;
  banned.assign(tokenizer_->end_ids().begin(), tokenizer_->end_ids().end());
  std::erase_if(banned, [&](TokenId id) { return std::ranges::count(request.stop_token_ids, id) > 0; });
  SamplingParams& sampling = state->sampling;
  const size_t n_always = request.sampling.ignore_eos ? banned.size() : 0;
  if (request.min_tokens > 0) {
    banned.insert(banned.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  } else {
    banned.resize(n_always);
  }
  sampling.banned = banned.data();
  sampling.n_banned = static_cast<int32_t>(banned.size());
  sampling.n_banned_early = static_cast<int32_t>(banned.size() - n_always);
}

void EngineCore::set_drafting(RequestState* state) const {
  const DrafterChoice drafter = state->request.speculation.drafter;
  const bool never_drafts = state->draft_length.policy->start(state->draft_length).len == 0;  // off, fixed:0
  if (drafter == DrafterChoice::kOff || never_drafts) return;
  state->uses_draft_model = draft_ != nullptr && drafter != DrafterChoice::kNgram;
  if (drafter == DrafterChoice::kModel) return;
  state->ngram_options.emplace();
  state->ngram_options->min_order = min_ngram_order(state->uses_draft_model);
}

}  // namespace bass
