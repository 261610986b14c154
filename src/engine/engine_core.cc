#include "engine/engine_core.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "engine/measured_cost.h"
#include "engine/step_gate.h"
#include "executor/draft_trace.h"
#include "speculation/step_prediction.h"

namespace bass {
namespace {

// Seconds that prompts' rows may add to a step beside sequences that decode. Large steps read prompts hardly faster;
// those who write wait for them, and short prompts wait for long ones.
constexpr double kMaxPause = 0.02;

// A text this short lies in the string itself.
Status out_of_memory() noexcept { return {StatusCode::kResourceExhausted, "out of memory"}; }

int64_t regular_position(const Sequence& sequence) {
  return sequence.regular_start + static_cast<int64_t>(sequence.output.size());
}

}  // namespace

// The step reads like the paper's loop: schedule -> draft -> forward -> verify -> commit -> emit. Host drafters propose
// while the step is planned; draft model, forward pass and verification run on the device.
void EngineCore::step() {
  if (scheduler_->may_admit()) publish_late();  // admission indexes prompts, which may take long
  const Clock::time_point begin = Clock::now();
  scheduler_->schedule(max_step_tokens(begin), &plan_, &owners_);
  if (plan_.segments.empty()) {
    end_failed();
    publish();
    return scheduler_->remove_finished();
  }
  if (plan_.has_constrained_drafts()) publish_late();  // a device waits for these while they are submitted
  const Ticket ticket = executor_->submit(plan_);
  publish_late();
  const StepResult& result = executor_->wait(ticket);
  const double device_s = seconds_between(begin, Clock::now());
  const Committed committed = commit(result, begin);
  update_policies(result, device_s, committed);
  end_failed();
  // Who is woken takes time that a device can be given its next step in, where there is one.
  publishes_late_ = executor_->works_beside_host();
  if (!publishes_late_) publish();
  scheduler_->remove_finished();
  if (!scheduler_->has_work()) publish_late();
}

// A request that there was no memory to start. Its samples that ran were in the step.
void EngineCore::end_failed() {
  const auto [request, error] = scheduler_->take_failed();
  if (request != nullptr) finish_request(commit_context(), request, FinishReason::kError, error);
}

void EngineCore::publish_late() noexcept {
  if (publishes_late_) publish();
}

// A deadline is looked at between steps, so a step with prompt tokens is planned to end before the next one. The first
// such step ever is as small as can be: what a row takes is not known then. And texts that are being written do not
// stand still for long while a prompt is read: its rows take a moment, or as long as the step would without them.
int EngineCore::max_step_tokens(Clock::time_point now) const {
  int max_tokens = options_.max_step_tokens;
  if (scheduler_->n_decoding() > 0 && costs_.chunk_row_s > 0) {
    const double pause_s = std::max(kMaxPause, predicted_step_seconds(costs_, scheduler_->regular_load()));
    const int n_chunk_rows = tokens_before_deadline(pause_s, costs_.chunk_row_s, max_tokens);
    max_tokens = std::min(max_tokens, scheduler_->n_decoding() + n_chunk_rows);
  }
  const std::optional<Clock::time_point> deadline = scheduler_->next_deadline();
  if (!deadline) return max_tokens;
  return tokens_before_deadline(seconds_between(now, *deadline), prefill_row_s_, max_tokens);
}

// How many sequences would run in this step under regular decoding. Before the step's tokens are committed.
int EngineCore::count_regular_batch() {
  int n_running = 0;
  int64_t last = INT64_MAX;
  for (const SegmentOwner& owner : owners_) {
    Sequence* sequence = owner.sequence;
    if (sequence == nullptr) continue;
    if (sequence->output.empty()) sequence->regular_start = regular_batch_->start();
    last = std::min(last, regular_position(*sequence));
    ++n_running;
  }
  return n_running == 0 ? 0 : regular_batch_->n_sequences(n_running, last);
}

EngineCore::Committed EngineCore::commit(const StepResult& result, Clock::time_point begin) {
  const CommitContext context = commit_context();
  Committed committed{.is_decode = true, .n_regular = count_regular_batch()};
  for (size_t i = 0; i < owners_.size(); ++i) commit_segment(context, i, result.segments[i], &committed);
  committed.step_s = seconds_between(begin, Clock::now());
  count_step(result, committed);
  return committed;
}

void EngineCore::commit_segment(const CommitContext& context, size_t segment_idx, const SegmentResult& segment,
                                Committed* committed) {
  const SegmentOwner& owner = owners_[segment_idx];
  const SegmentPlan& plan = plan_.segments[segment_idx];
  const auto n_planned = static_cast<int>(plan.tokens.size());
  committed->n_rows += n_planned + segment.n_drafted;
  if (owner.sequence == nullptr) {
    committed->is_decode = false;
    committed->n_chunk_rows += n_planned;
    commit_prefill(context, owner.request, plan, segment);
    return;
  }
  committed->is_decode &= !owner.sequence->output.empty();  // else it feeds the prompt's last token
  add_outcome(owner, segment);
  if (options_.trace != nullptr) {
    options_.trace->add(owner.request->id, owner.sequence->choice_idx, owner.sequence->draft_source, segment.evidence);
  }
  const int n_emitted = commit_decode(context, owner.sequence, plan, segment);
  committed->n_emitted += n_emitted;
  committed->n_tokens += n_emitted;
  if (!owner.sequence->is_finished) return;
  const int n_ends = n_emitted < static_cast<int>(segment.tokens.size()) ? 1 : 0;
  committed->n_tokens += n_ends;
  regular_batch_->end(regular_position(*owner.sequence) + n_ends);
}

void EngineCore::count_step(const StepResult& result, const Committed& committed) {
  const double step_s = committed.step_s;
  ++running_stats_.steps;
  running_stats_.busy_s += step_s;
  running_stats_.work.add(result.work);
  running_stats_.graphs.add(result.graphs);
  if (committed.n_chunk_rows > 0 && was_run(plan_, result)) prefill_row_s_ = step_s / committed.n_rows;
  if (options_.profile != nullptr) {
    options_.profile->end_part(StepPart::kCommit);
    options_.profile->end_step(committed.is_decode);
  }
  if (!committed.is_decode) {
    running_stats_.prefill_s += step_s;
    return;
  }
  running_stats_.decode_s += step_s;
  running_stats_.decode_work.add(result.work);
  running_stats_.decode_tokens += committed.n_emitted;
  running_stats_.draft_times.add(result.draft_times);
  ++running_stats_.decode_steps;
  ++n_decode_steps_;
}

void EngineCore::add_outcome(const SegmentOwner& owner, const SegmentResult& segment) {
  const bool is_free_look = segment.n_looked_at > 0;
  if (segment.n_drafted == 0 && !is_free_look && segment.confidences.empty()) return;
  owner.request->policy->outcomes.push_back({.n_drafted = is_free_look ? segment.n_looked_at : segment.n_drafted,
                                             .n_accepted = is_free_look ? segment.n_agreed : segment.n_accepted,
                                             .source = owner.sequence->draft_source,
                                             .labels = segment.labels,
                                             .confidences = segment.confidences,
                                             .skills = &owner.sequence->skills,
                                             .is_look = owner.sequence->is_look});
}

// How many tokens of the policy's drafts it expected to be accepted, if it expects anything.
std::optional<double> EngineCore::account_rounds(const PolicyState& policy) {
  const auto expects = policy.spec.policy->expected;
  double sum = 0;
  for (const DraftOutcome& outcome : policy.outcomes) {
    if (outcome.is_look && executor_->can_look()) continue;  // nothing was verified
    const auto expected = expects != nullptr ? std::optional(expects(policy.state, outcome)) : std::nullopt;
    add_round(outcome, expected, &running_stats_.account);
    sum += expected.value_or(0);
  }
  return expects != nullptr || policy.outcomes.empty() ? std::optional(sum) : std::nullopt;
}

// Accounts before anybody learns: what was predicted is compared with what came.
void EngineCore::update_policies(const StepResult& result, double device_s, const Committed& committed) {
  const StepLoad& regular = scheduler_->regular_load();
  const StepCost cost = measured_cost(plan_, result, regular, device_s, committed.n_chunk_rows > 0);
  // Each policy is advanced once, whoever shares it.
  for (const SegmentOwner& owner : owners_) owner.request->policy->is_marked = true;
  std::optional<double> expected = 0;
  for (const SegmentOwner& owner : owners_) {
    PolicyState& policy = *owner.request->policy;
    if (!std::exchange(policy.is_marked, false)) continue;
    const std::optional<double> of_policy = account_rounds(policy);
    expected = expected && of_policy ? std::optional(*expected + *of_policy) : std::nullopt;
    // Prompts' chunks, and sequences without a drafter, say nothing of drafts and make nothing that is known older.
    if (std::exchange(policy.is_used, false)) advance_draft_length(policy.spec, policy.state, policy.outcomes);
    policy.outcomes.clear();
  }
  if (committed.is_decode && was_run(plan_, result)) {
    add_step({cost, regular, committed.n_regular, committed.n_tokens, committed.step_s - device_s, expected}, costs_,
             &running_stats_.account);
  }
  learn_step_cost(cost, &costs_);
  if (was_run(plan_, result) && result.graphs.recorded == 0) {
    learn_chunk_cost(cost, committed.n_chunk_rows, regular, &costs_);
  }
}

// What goes to the same queue goes at once: each push wakes whoever waits, on the processors that the next step needs.
void EngineCore::push_events() noexcept {
  std::vector<Outbox::Item>& items = outbox_.items;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_last = i + 1 == items.size() || items[i + 1].queue != items[i].queue;
    if (is_last) {
      items[i].queue->push(std::move(items[i].event));
    } else {
      std::list<Event>& next = items[i + 1].event;
      next.splice(next.begin(), items[i].event);
    }
  }
}

// Counters first, so that whoever is woken by an event finds it counted. Who has set them back meanwhile wants nothing
// of the step that ran then.
void EngineCore::publish() noexcept {
  publishes_late_ = false;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(wants_stats_reset_, false)) running_stats_ = {};
    stats_ = running_stats_;
    for (const Outbox::Item& item : outbox_.items) {
      if (item.event.front().kind == Event::Kind::kDone) live_.erase(item.event.front().request_id);
    }
  }
  push_events();
  outbox_.items.clear();
}

// Waits at the gate while it is closed. Whether there is a gate, and work: what was submitted before it opened may have
// come behind the messages taken last, even where it was found open.
bool EngineCore::pass_gate() {
  if (options_.gate == nullptr || !scheduler_->has_work()) return false;
  if (!options_.gate->is_open()) {
    publish_late();
    options_.gate->enter();
  }
  return true;
}

void EngineCore::loop() {
  for (bool is_running = true; is_running;) {
    try {
      is_running = take_messages();
      if (is_running && pass_gate()) is_running = take_messages();  // what arrived meanwhile begins with the others
      end_overdue();
      if (is_running) step();
      keep_costs_at_times();
    } catch (const std::bad_alloc&) {  // the engine lives on
      end_all(FinishReason::kError, out_of_memory());
    } catch (const std::exception&) {
      end_all(FinishReason::kError, {StatusCode::kInternal, "library error"});
    }
  }
  end_all(FinishReason::kCancelled, ok_status());
}

// Waits while there is nothing to do. False when the engine is to stop.
bool EngineCore::take_messages() {
  std::set<RequestId> cancelled;
  bool is_stopping = false;
  bool has_arrived = false;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] {
      return is_stopping_ || !arrived_.empty() || !cancelled_.empty() || scheduler_->has_work() || wants_stats_reset_;
    });
    if (std::exchange(wants_stats_reset_, false)) stats_ = running_stats_ = {};
    has_arrived = !arrived_.empty();
    scheduler_->add(&arrived_);
    cancelled.swap(cancelled_);
    is_stopping = is_stopping_;
  }
  // A long queue is walked through only when somebody joins or leaves it: a step may take less time than that.
  if (has_arrived) scheduler_->prepare_new([this](RequestState* request) { prepare_request(request); });
  if (!cancelled.empty()) {
    for (const auto& request : scheduler_->requests()) {
      if (cancelled.contains(request->id)) finish_request(commit_context(), request.get(), FinishReason::kCancelled);
    }
    publish();
  }
  scheduler_->remove_finished();
  return !is_stopping;
}

void EngineCore::prepare_request(RequestState* state) {
  scheduler_->watch(state);
  const bool has_fixed_noise =
      state->request.seed && needs_draft_distribution(state->sampling) && !options_.scripted_acceptance;
  state->policy = policies_.get(state->request.speculation.draft_length, state->draft_length,
                                has_fixed_noise ? state->request.seed : std::nullopt);
}

void EngineCore::end_overdue() {
  const Clock::time_point now = Clock::now();
  if (now < scheduler_->next_deadline().value_or(Clock::time_point::max())) return;
  for (const auto& request : scheduler_->requests()) {
    if (!request->deadline || now < *request->deadline) continue;
    finish_request(commit_context(), request.get(), FinishReason::kDeadline);
  }
  publish();
  scheduler_->remove_finished();
}

// At the end, and after an exception. Events need memory too: while there is none, wait for those who read them to free
// some. Every try goes on where the last one failed.
void EngineCore::end_all(FinishReason reason, const Status& error) noexcept {
  constexpr int kMaxTries = 20;
  policies_.drop_step();
  for (int i = 0; i < kMaxTries; ++i) {
    try {
      for (const auto& request : scheduler_->requests()) finish_request(commit_context(), request.get(), reason, error);
      publish();
      scheduler_->remove_finished();
      return;
    } catch (const std::exception&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  abandon_all();
}

// Nobody frees memory. What is told now was allocated when the requests were taken.
void EngineCore::abandon_all() noexcept {
  publish();
  for (const auto& request : scheduler_->requests()) {
    if (request->done.empty()) continue;
    request->done.front().error = out_of_memory();
    {
      const std::lock_guard lock(mutex_);
      live_.erase(request->id);
    }
    request->events->push(std::move(request->done));
  }
  scheduler_->abandon();
}

CommitContext EngineCore::commit_context() { return {scheduler_.get(), tokenizer_.get(), &running_stats_, &outbox_}; }

}  // namespace bass
