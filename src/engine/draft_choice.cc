// What the sequences of a step could draft, what their tokens are worth, and how much of it their policies choose.
#include <algorithm>
#include <utility>

#include "engine/scheduler.h"

namespace bass {

// Whole pages of a prompt lie in the cache once for all of its samples, and for all prompts that begin with them.
void Scheduler::measure_regular_load() {
  regular_load_ = {};
  ++n_marks_;
  for (const Sequence* sequence : running_) {
    RequestState* request = sequence->request;
    const int context_len = request->text_len(*sequence);
    const bool is_sibling = std::exchange(request->mark, n_marks_) == n_marks_;
    const int n_shared =
        is_sibling ? request->shared_len() / options_.page_len * options_.page_len : n_read_for_others(*request);
    ++regular_load_.n_rows;
    regular_load_.n_seen += context_len;
    regular_load_.n_read += context_len - n_shared;
  }
  for (const auto& request : requests_) {
    if (regular_load_.has_chunk || !request->is_admitted) break;  // later ones are not admitted either
    regular_load_.has_chunk = !request->is_prefilled();
  }
  if (regular_load_.has_chunk) regular_load_.n_later = n_unfinished(/*counts_waiting=*/false);
}

// The job of a request among those of this step; 0: nobody waits for it together with others. How far one sequence has
// come says something of its noise, so it must not decide about the drafts of one that may have the same: a job is of
// requests that learn together (policy_registry.h).
int Scheduler::job_of(const RequestState& request) {
  if (request.deadline || !request.policy->spec.policy->is_timed) return 0;
  const uint64_t named = request.request.job;
  if (named == 0 && request.choices.size() == 1) return 0;
  const Job job{named, named == 0 ? request.id : 0, request.policy.get()};
  auto found = std::find(jobs_.begin(), jobs_.end(), job);
  if (found == jobs_.end()) found = jobs_.insert(found, job);
  return static_cast<int>(found - jobs_.begin()) + 1;
}

// What tokens are worth to those who wait for them.
void Scheduler::weigh() {
  weighed_.clear();
  jobs_.clear();
  for (const Sequence* sequence : running_) {
    const RequestState& request = *sequence->request;
    weighed_.push_back({.job = job_of(request), .n_left = request.n_left(*sequence), .may_end = request.may_end()});
  }
  const bool has_waiting =
      std::any_of(requests_.begin(), requests_.end(), [](const auto& request) { return request->has_unstarted(); });
  weigh_tokens(*costs_, regular_load_, has_waiting, weighed_);
}

// Host drafters propose first, then each policy chooses how much of what its sequences could draft is drafted. What
// another policy's state has planned must not decide: it says something of noise that sequences here may have, too.
void Scheduler::choose_drafts() {
  measure_regular_load();
  weigh();
  for (Sequence* sequence : running_) {
    index_ahead(sequence);
    propose(sequence);
  }
  for (size_t begin = 0; begin < running_.size(); ++begin) {
    PolicyState* policy = running_[begin]->request->policy.get();
    if (policy->is_marked) continue;
    policy->is_marked = true;
    candidates_.clear();
    candidate_owners_.clear();
    StepLoad load = regular_load_;
    for (size_t i = 0; i < running_.size(); ++i) {
      Sequence* sequence = running_[i];
      if (sequence->request->policy.get() != policy) {
        load.has_others |= sequence->request->policy->state.len > 0;
      } else if (sequence->draft_len > 0) {
        add_candidate(sequence, weighed_[i]);
      }
    }
    choose_draft_lengths(policy->spec, policy->state, *costs_, load, candidates_);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      candidate_owners_[i]->draft_source = candidates_[i].source;
      candidate_owners_[i]->draft_len = candidates_[i].len;
      candidate_owners_[i]->draft_stop = candidates_[i].stop;
      candidate_owners_[i]->is_look = candidates_[i].is_look;
    }
  }
  for (Sequence* sequence : running_) sequence->request->policy->is_marked = false;
}

void Scheduler::add_candidate(Sequence* sequence, const RunningSequence& weighed) {
  const int text_len = sequence->request->text_len(*sequence);
  candidates_.push_back({.source = sequence->draft_source,
                         .max_len = sequence->draft_len,
                         .max_model_len = sequence->max_model_drafts,
                         .context_len = text_len,
                         .skills = sequence->skills,
                         .n_unread = sequence->request->uses_draft_model ? text_len - sequence->draft_pages.len() : 0,
                         .n_left = weighed.n_left,
                         .worth = weighed.worth,
                         .can_look = executor_->can_look()});
  candidate_owners_.push_back(sequence);
}

// Sets what the sequence could draft at most: an n-gram match's continuation, whatever the draft model says, or either.
void Scheduler::propose(Sequence* sequence) {
  RequestState* request = sequence->request;
  // A draft behind the last token that may be emitted would be computed for nothing.
  const int limit = std::max(0, std::min(request->policy->state.len, request->n_left(*sequence) - 1));
  request->policy->is_used |= limit > 0 && (request->ngrams != nullptr || request->uses_draft_model);
  sequence->proposed.resize(static_cast<size_t>(limit));
  int n_proposed = 0;
  if (request->ngrams != nullptr && limit > 0) {
    int order = 0;
    n_proposed = request->ngrams->propose(sequence->choice_idx, sequence->proposed, &order);
    sequence->draft_source = ngram_source(order);
    if (TokenConstraint* constraint = sequence->place.constraint(); constraint != nullptr) {
      const auto proposed = std::span<const TokenId>(sequence->proposed).first(static_cast<size_t>(n_proposed));
      n_proposed = static_cast<int>(constraint->n_allowed_of(sequence->place.state(), proposed));
    }
  }
  sequence->proposed.resize(static_cast<size_t>(n_proposed));
  sequence->is_look = false;
  sequence->draft_len = n_proposed;
  sequence->max_model_drafts = request->uses_draft_model ? limit : 0;
  if (n_proposed > 0 || !request->uses_draft_model) return;
  sequence->draft_source = DraftSource::kModel;
  sequence->draft_len = limit;
}

}  // namespace bass
