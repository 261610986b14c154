#include "engine/engine_core.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"

namespace bass {

// The step reads like the paper's loop: schedule -> draft -> forward -> verify -> commit -> emit. Host drafters propose
// while the step is planned; draft model, forward pass and verification run on the device.
void EngineCore::step() {
  const Clock::time_point begin = Clock::now();
  scheduler_->schedule(&plan_, &owners_);
  if (plan_.segments.empty()) return;
  const Ticket ticket = executor_->submit(plan_);
  const StepResult& result = executor_->wait(ticket);
  commit(result, begin);
  update_policies();
  publish();
  scheduler_->remove_finished();
}

void EngineCore::commit(const StepResult& result, Clock::time_point begin) {
  const CommitContext context = commit_context();
  bool has_prefill = false;
  int n_emitted = 0;
  for (size_t i = 0; i < owners_.size(); ++i) {
    const SegmentOwner& owner = owners_[i];
    const SegmentResult& segment = result.segments[i];
    if (owner.sequence == nullptr) {
      has_prefill = true;
      commit_prefill(context, owner.request, plan_.segments[i], segment);
      continue;
    }
    if (segment.n_drafted > 0) owner.request->policy->outcomes.push_back({segment.n_drafted, segment.n_accepted});
    n_emitted += commit_decode(context, owner.sequence, plan_.segments[i], segment);
  }
  const double step_s = seconds_between(begin, Clock::now());
  ++running_stats_.steps;
  running_stats_.busy_s += step_s;
  running_stats_.operations += result.operations;
  (has_prefill ? running_stats_.prefill_s : running_stats_.decode_s) += step_s;
  if (!has_prefill) running_stats_.decode_tokens += n_emitted;
}

void EngineCore::update_policies() {
  for (const SegmentOwner& owner : owners_) {
    PolicyState& policy = *owner.request->policy;
    if (policy.outcomes.empty()) continue;  // another owner's policy too, and updated already
    policy.state = policy.spec.policy->next(policy.spec, policy.state, policy.outcomes);
    policy.outcomes.clear();
  }
}

// Counters first, so that whoever is woken by an event finds it counted.
void EngineCore::publish() {
  {
    const std::lock_guard lock(mutex_);
    stats_ = running_stats_;
  }
  for (auto& [queue, event] : outbox_.events) queue->push(std::move(event));
  outbox_.events.clear();
}

void EngineCore::loop() {
  for (bool is_running = true; is_running;) {
    try {
      is_running = take_messages();
      end_overdue();
      if (is_running) step();
    } catch (const std::bad_alloc&) {  // the engine lives on
      fail_all(resource_exhausted("memory ran out while the request ran; lower max_batch, kv_memory or n"));
    } catch (const std::exception& error) {
      fail_all(internal_error(error.what()));
    }
  }
  for (const auto& request : scheduler_->requests()) {
    finish_request(commit_context(), request.get(), FinishReason::kCancelled);
  }
  publish();
}

// Waits while there is nothing to do. False when the engine is to stop.
bool EngineCore::take_messages() {
  std::vector<std::unique_ptr<RequestState>> arrived;
  std::vector<RequestId> cancelled;
  bool is_stopping = false;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] {
      return is_stopping_ || !arrived_.empty() || !cancelled_.empty() || scheduler_->has_work() || wants_stats_reset_;
    });
    if (std::exchange(wants_stats_reset_, false)) stats_ = running_stats_ = {};
    arrived.swap(arrived_);
    cancelled.swap(cancelled_);
    is_stopping = is_stopping_;
  }
  for (auto& state : arrived) {
    prepare_request(state.get());
    scheduler_->add(std::move(state));
  }
  for (const RequestId id : cancelled) {
    for (const auto& request : scheduler_->requests()) {
      if (request->id == id) finish_request(commit_context(), request.get(), FinishReason::kCancelled);
    }
  }
  if (!cancelled.empty()) publish();
  scheduler_->remove_finished();
  return !is_stopping;
}

void EngineCore::prepare_request(RequestState* state) {
  const auto make_policy = [&] {
    return std::make_shared<PolicyState>(PolicyState{state->draft_length, state->draft_length.policy->start(state->draft_length), {}});
  };
  if (state->request.seed && needs_draft_distribution(state->sampling)) {
    state->policy = make_policy();
    return;
  }
  std::erase_if(policies_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<PolicyState>& shared = policies_[state->request.speculation.draft_length];
  state->policy = shared.lock();
  if (state->policy == nullptr) shared = state->policy = make_policy();
}

void EngineCore::end_overdue() {
  const Clock::time_point now = Clock::now();
  bool has_ended = false;
  for (const auto& request : scheduler_->requests()) {
    if (!request->deadline || now < *request->deadline) continue;
    finish_request(commit_context(), request.get(), FinishReason::kDeadline);
    has_ended = true;
  }
  if (has_ended) publish();
  scheduler_->remove_finished();
}

// After an exception. The step that threw has emitted nothing, so nothing but the requests themselves is lost.
void EngineCore::fail_all(const Status& error) noexcept {
  for (const auto& request : scheduler_->requests()) {
    finish_request(commit_context(), request.get(), FinishReason::kError, error);
  }
  publish();
  scheduler_->remove_finished();
}

CommitContext EngineCore::commit_context() { return {scheduler_.get(), tokenizer_.get(), &running_stats_, &outbox_}; }

}  // namespace bass
