// After a step: what was emitted becomes part of the sequences, rejected drafts go, ends are found, events go out.
#pragma once

#include <list>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "executor/step_plan.h"

namespace bass {

/// Events of a step. They go out when the step's counters are published: who is woken by an event sees them.
struct Outbox {
  struct Item {
    std::shared_ptr<EventQueue> queue;
    std::list<Event> event;  // one, so that sending it allocates nothing
  };
  std::vector<Item> items;

  void reserve_for(size_t n_more) {
    if (items.capacity() < items.size() + n_more) items.reserve(2 * items.size() + 16);
  }
  void add(const RequestState& request, std::list<Event> event) { items.push_back({request.events, std::move(event)}); }
  void add(const RequestState& request, Event event) {
    std::list<Event> node;
    node.push_back(std::move(event));
    add(request, std::move(node));
  }
};

/// What the engine's thread needs to end sequences and to count.
struct CommitContext {
  Scheduler* scheduler = nullptr;
  const Tokenizer* tokenizer = nullptr;
  EngineStats* stats = nullptr;
  Outbox* outbox = nullptr;
};

/// A prompt's chunk is in the cache. Sends kPrompt when it was the last one.
void commit_prefill(const CommitContext& context, RequestState* request, const SegmentPlan& plan,
                    const SegmentResult& result);

/// The prompt is in the cache, as far as it is shared.
void send_prompt_event(const CommitContext& context, RequestState* request);

/// Appends the emitted tokens up to the sequence's end, truncates its caches to them, sends kTokens and perhaps
/// kFinished. Returns the number of tokens that were emitted.
int commit_decode(const CommitContext& context, Sequence* sequence, const SegmentPlan& plan,
                  const SegmentResult& result);

/// Ends a sequence with what it has, and its request if that was the last one. Nothing happens if it has ended already.
void finish_sequence(const CommitContext& context, Sequence* sequence, FinishReason reason, Status error = ok_status());

/// Ends all sequences of a request that have not ended.
void finish_request(const CommitContext& context, RequestState* request, FinishReason reason,
                    const Status& error = ok_status());

}  // namespace bass
