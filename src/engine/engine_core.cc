#include "engine/engine_core.h"

#include <algorithm>
#include <exception>

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
  commit(result, seconds_between(begin, Clock::now()));
  update_policies();
  scheduler_->remove_finished();
}

void EngineCore::commit(const StepResult& result, double step_s) {
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
  ++running_stats_.steps;
  running_stats_.busy_s += step_s;
  running_stats_.operations += result.operations;
  (has_prefill ? running_stats_.prefill_s : running_stats_.decode_s) += step_s;
  if (!has_prefill) running_stats_.decode_tokens += n_emitted;
}

void EngineCore::update_policies() {
  for (auto& [text, policy] : policies_) {
    if (policy.outcomes.empty()) continue;
    policy.state = policy.spec.policy->next(policy.spec, policy.state, policy.outcomes);
    policy.outcomes.clear();
  }
}

void EngineCore::loop() {
  while (take_messages()) {
    try {
      end_overdue();
      step();
    } catch (const std::exception& error) {  // memory ran out, or a library threw: the engine lives on
      fail_all(error.what());
    }
  }
  for (const auto& request : scheduler_->requests()) {
    finish_request(commit_context(), request.get(), FinishReason::kCancelled);
  }
}

// Waits while there is nothing to do. False when the engine is to stop.
bool EngineCore::take_messages() {
  std::vector<std::unique_ptr<RequestState>> arrived;
  std::vector<RequestId> cancelled;
  bool is_stopping = false;
  {
    std::unique_lock lock(mutex_);
    if (std::exchange(wants_stats_reset_, false)) running_stats_ = {};
    stats_ = running_stats_;
    wake_.wait(lock, [&] {
      return is_stopping_ || !arrived_.empty() || !cancelled_.empty() || scheduler_->has_work() || wants_stats_reset_;
    });
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
  scheduler_->remove_finished();
  return !is_stopping;
}

void EngineCore::prepare_request(RequestState* state) {
  const std::string& text = state->request.speculation.draft_length;
  auto [entry, is_new] = policies_.try_emplace(text);
  if (is_new) {
    entry->second.spec = parse_draft_length(text).value();  // checked at submission
    entry->second.state = entry->second.spec.policy->start(entry->second.spec);
  }
  state->policy = &entry->second;
}

void EngineCore::end_overdue() {
  const Clock::time_point now = Clock::now();
  for (const auto& request : scheduler_->requests()) {
    if (request->deadline && now >= *request->deadline) {
      finish_request(commit_context(), request.get(), FinishReason::kDeadline);
    }
  }
  scheduler_->remove_finished();
}

void EngineCore::fail_all(const std::string& what) {
  for (const auto& request : scheduler_->requests()) {
    finish_request(commit_context(), request.get(), FinishReason::kError, internal_error(what));
  }
  scheduler_->remove_finished();
}

CommitContext EngineCore::commit_context() { return {scheduler_.get(), tokenizer_.get(), &running_stats_}; }

}  // namespace bass
