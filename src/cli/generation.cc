#include "cli/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <unordered_map>

#include "base/check.h"
#include "cli/bad_lines.h"
#include "cli/interrupt.h"

namespace bass {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kJob = 1;  // all prompts of a run are wanted together

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Collector {
 public:
  Collector(Engine* engine, const GenerationSettings& settings)
      : engine_(engine), settings_(settings), events_(std::make_shared<EventQueue>()) {}

  Status submit(std::vector<PromptSpec> prompts) {
    BadLines bad;
    for (const PromptSpec& spec : prompts) {  // a bad line behind many good ones need not wait for their tokens
      BASS_RETURN_IF_ERROR(check_interrupted());
      bad.add(with_origin(engine_->check(spec.request), spec), spec.origin);
    }
    BASS_RETURN_IF_ERROR(bad.status());
    for (const PromptSpec& spec : prompts) result_.prompts.push_back(result_before(spec));
    start_ = Clock::now();
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (is_interrupted() || is_stopped_) {  // what was submitted keeps what it has
        end_untold(FinishReason::kCancelled, {}, &result_.prompts[i]);
        continue;
      }
      if (!take_from_budget(seconds_since(start_), &prompts[i].request)) {
        end_untold(FinishReason::kDeadline, {}, &result_.prompts[i]);
        continue;
      }
      prompts[i].request.job = kJob;
      result_.prompts[i].submitted_s = seconds_since(start_);
      const Result<RequestId> id = engine_->submit(std::move(prompts[i].request), events_);
      if (!id.ok()) {
        if (prompt_idx_.empty()) return with_origin(id.status(), prompts[i]);
        fail(with_origin(id.status(), prompts[i]));  // those before it may have ended already
        return ok_status();
      }
      prompt_idx_[id.value()] = i;
      result_.prompts[i].request_id = id.value();
      ++n_running_;
      take_what_is_there();
    }
    return ok_status();
  }

  void run() {
    obey_interrupt();
    while (n_running_ > 0) {
      Event event;
      const bool has_event = events_->wait(&event, kPollInterval);
      if (has_event) take(std::move(event));
      if (has_event) heard_at_ = Clock::now();
      obey_interrupt();
      result_.has_hung = n_running_ > 0 && is_stopped_ && Clock::now() - heard_at_ > kMaxCancelling;
      if (result_.has_hung) break;
      show();
    }
    result_.stats = engine_->stats();
    for (PromptResult& prompt : result_.prompts) {  // that were not submitted, or are not waited for
      if (prompt.choices.front().rank == 0) rank_choices(&prompt);
    }
  }

  GenerationResult take_result() { return std::move(result_); }

 private:
  /// While others are still submitted.
  void take_what_is_there() {
    constexpr std::chrono::duration<double> kNow{0};
    for (Event event; events_->wait(&event, kNow);) take(std::move(event));
    show();
  }

  void show() {
    result_.total_s = seconds_since(start_);
    if (!settings_.on_progress) return;
    if (Clock::now() - refreshed_at_ >= kPollInterval) {  // of speculation, before the choices' own counters arrive
      refreshed_at_ = Clock::now();
      result_.stats = engine_->stats();
    }
    settings_.on_progress(result_);
  }

  void fail(Status status) {
    result_.on_ended_status = std::move(status);
    stop();
  }

  void obey_interrupt() {
    if (!is_interrupted() || result_.was_interrupted) return;
    result_.was_interrupted = true;
    stop();
  }

  void stop() {
    is_stopped_ = true;
    heard_at_ = Clock::now();
    cancel_all();
  }

  void cancel_all() {
    for (const auto& [id, idx] : prompt_idx_) engine_->cancel(id);
  }

  void take(Event event) {
    PromptResult& prompt = result_.prompts[prompt_idx_.at(event.request_id)];
    const bool is_done = event.kind == Event::Kind::kDone;
    if (settings_.wants_origins) note_origins(event, &prompt);
    take_event(std::move(event), &prompt);
    if (!is_done) return;
    --n_running_;
    end(&prompt);
  }

  void end(PromptResult* prompt) {
    if (!settings_.on_ended || !result_.on_ended_status.ok()) return;
    if (Status status = settings_.on_ended(prompt); !status.ok()) fail(std::move(status));
  }

  /// What follows a prompt of special tokens alone begins a text.
  void note_start(const Event& event, PromptResult* prompt) const {
    const bool at_start = std::ranges::all_of(event.prompt_tokens, [&](TokenId id) {
      const Result<TokenText> text = engine_->token_text(id, /*at_start=*/true);
      return text.ok() && text->is_special;
    });
    for (ChoiceResult& choice : prompt->choices) choice.at_start = at_start;
  }

  /// Where the tokens of a choice end.
  void note_ends(const Event& event, ChoiceResult* choice) const {
    for (const TokenInfo& token : event.tokens) {
      const size_t begin = choice->token_ends.empty() ? 0 : choice->token_ends.back();
      const Result<TokenText> text = engine_->token_text(token.id, choice->at_start);
      const bool is_shown = text.ok() && !text->is_special;
      choice->token_ends.push_back(begin + (is_shown ? text->bytes.size() : 0));
      if (is_shown) choice->at_start = text->at_start;
    }
  }

  void note_origins(const Event& event, PromptResult* prompt) const {
    if (event.kind == Event::Kind::kPrompt) return note_start(event, prompt);
    if (event.kind == Event::Kind::kDone) return;
    note_ends(event, &prompt->choices.at(static_cast<size_t>(event.choice_idx)));
  }

  Engine* engine_;
  const GenerationSettings& settings_;
  std::shared_ptr<EventQueue> events_;
  std::unordered_map<RequestId, size_t> prompt_idx_;
  size_t n_running_ = 0;
  Clock::time_point start_;
  bool is_stopped_ = false;
  Clock::time_point heard_at_;  // when the engine last said something, or was stopped
  Clock::time_point refreshed_at_;
  GenerationResult result_;
};

}  // namespace

bool take_from_budget(double elapsed_s, Request* request) {
  constexpr double kLeast = 1e-9;
  if (!request->time_budget_s) return true;
  const double left_s = *request->time_budget_s - elapsed_s;
  request->time_budget_s = std::max(left_s, kLeast);
  return left_s > 0;
}

PromptResult result_before(const PromptSpec& spec) {
  PromptResult prompt;
  prompt.index = spec.index;
  prompt.origin = spec.origin;
  prompt.id = spec.id;
  prompt.choices.resize(static_cast<size_t>(spec.request.n));
  for (size_t i = 0; i < prompt.choices.size(); ++i) prompt.choices[i].index = static_cast<int>(i);
  return prompt;
}

Result<GenerationResult> run_generation(Engine* engine, std::vector<PromptSpec> prompts,
                                        const GenerationSettings& settings) {
  Collector collector(engine, settings);
  if (Status status = collector.submit(std::move(prompts)); !status.ok()) return status;
  if (settings.on_submitted) settings.on_submitted();
  collector.run();
  return collector.take_result();
}

}  // namespace bass
