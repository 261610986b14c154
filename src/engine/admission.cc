// Which requests are admitted, and which of their samples start: places in the batch, pages, and what the drafters are
// told of a prompt beforehand.
#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <new>

#include "base/caught_status.h"
#include "engine/scheduler.h"

namespace bass {
namespace {

// Where drafts of the model do not pay, it reads the prompts of some requests all the same: looks at what its drafts
// would be worth need a sequence whose text it knows. So many of a batch, and one of a small one.
constexpr int kReadEvery = 8;
// Tokens of prompts that one step indexes, or those of a single prompt: all sequences wait meanwhile.
constexpr size_t kMaxAdmittedTokens = 16384;
// Requests that wait, of which it is asked whose they are.
constexpr int kMaxWaitingSeen = 256;
// Room that is made when a sequence starts: for the text of a step, and for tokens in the index of n-grams.
constexpr size_t kMaxStepBytes = 256;
constexpr int kMaxIndexedAhead = 2048;

}  // namespace

bool Scheduler::may_admit() const {
  return !requests_.empty() && !requests_.back()->is_admitted && static_cast<int>(running_.size()) < options_.max_batch;
}

// Start-time fair queueing (Goyal, Vin and Cheng 1996) of requests that count alike: of each job one a turn, so that a
// call of very many prompts does not keep the others out. A job that comes late begins with the turn that is next.
// last: the newcomer before this one. Mostly it stands next to this one's place, and saves the walk through a long
// queue.
void Scheduler::give_turn(Queue::iterator newcomer, Queue::iterator last) noexcept {
  RequestState& request = **newcomer;
  const bool follows = last != requests_.end() && request.is_of_job(**last);
  request.turn = 1 + (follows ? (*last)->turn : last_turn_of_job(newcomer));
  auto place = newcomer;
  if (follows || (last != requests_.end() && (*last)->turn == request.turn)) {
    place = std::next(last);
    while (place != newcomer && (*place)->turn <= request.turn) ++place;
  } else {
    while (!is_first_waiting(place) && (*std::prev(place))->turn > request.turn) --place;
  }
  requests_.splice(place, requests_, newcomer);
}

bool Scheduler::is_first_waiting(Queue::iterator place) const {
  return place == requests_.begin() || (*std::prev(place))->is_admitted;
}

// The one before that of whoever is next: turns of requests that went away are not waited for.
int64_t Scheduler::queue_turn() const {
  const auto next = std::ranges::find_if(requests_, [](const auto& request) { return !request->is_admitted; });
  return next == requests_.end() ? turn_ : std::max(turn_, (*next)->turn - 1);
}

// Of those that wait; else the turn that the queue is at.
int64_t Scheduler::last_turn_of_job(Queue::iterator newcomer) const {
  if ((*newcomer)->request.job == 0) return queue_turn();
  for (auto place = newcomer; !is_first_waiting(place); --place) {
    const RequestState& other = **std::prev(place);
    if ((*newcomer)->is_of_job(other)) return other.turn;
  }
  return queue_turn();
}

// What there is no memory for ends one request and not all.
void Scheduler::admit() {
  try {
    admit_in_order();
  } catch (...) {
    failed_ = {admitting_, caught_status("the request could not be started")};
  }
}

// That requests keep whose first sample has yet to start.
int Scheduler::n_first_places() const {
  int n = 0;
  for (const auto& request : requests_) {
    if (!request->is_admitted) break;  // nor are later ones
    n += request->keeps_first_place() ? 1 : 0;
  }
  return n;
}

// Strictly in the queue's order: a later request is promised no pages that an earlier one waits for, so nobody waits
// for ever. What was promised before may start.
void Scheduler::admit_in_order() {
  Places places{.n_taken = static_cast<int>(running_.size()) + n_first_places()};
  size_t n_admitted_tokens = 0;
  for (const auto& request : requests_) {
    if (places.n_taken >= options_.max_batch && !request->is_admitted) return;
    if (request->keeps_first_place()) --places.n_taken;  // for itself
    if (request->has_unstarted()) {
      admitting_ = request.get();
      if (!request->is_admitted) {
        const size_t n_tokens = request->prompt.size();
        if (!places.has_pages || (n_admitted_tokens > 0 && n_admitted_tokens + n_tokens > kMaxAdmittedTokens)) return;
        if (!admit_request(request.get())) return;  // places may stay empty until pages are free for it
        n_admitted_tokens += n_tokens;
      }
      take_places(request.get(), max_places(*request, places.n_before), &places);
      if (request->keeps_first_place() && request->is_prefilled()) ++places.n_taken;
    }
    places.n_before += request->n_running();
  }
  // All have what they may have of what others want, too: the first ones have the rest.
  for (const auto& request : requests_) {
    if (places.n_taken >= options_.max_batch) return;
    admitting_ = request.get();
    if (request->is_prefilled()) take_places(request.get(), options_.max_batch, &places);
  }
}

// Starts as many samples as there are places and pages for; the first one's pages are promised. A prompt that is being
// read keeps its samples' places, and others behind it may be admitted meanwhile.
void Scheduler::take_places(RequestState* request, int max_own, Places* places) {
  if (!request->is_prefilled()) {
    places->n_taken += std::min(static_cast<int>(request->choices.size()) - request->n_started, max_own);
    return;
  }
  while (request->has_unstarted() && places->n_taken < options_.max_batch && request->n_running() < max_own) {
    if (request->n_started > 0) {
      places->has_pages = places->has_pages && n_promised_pages_ + own_pages(*request) <= options_.n_pages;
      if (!places->has_pages) return;
      n_promised_pages_ += own_pages(*request);
    }
    start_sequence(request);
    ++places->n_taken;
  }
}

// Many samples of one request are not to keep others out: while somebody waits who is not of the same job, it takes
// half of the places that the requests before it leave, and half of all pages.
int Scheduler::max_places(const RequestState& request, int n_before) const {
  int n_looked_at = 0;
  for (const auto& other : requests_) {
    if (++n_looked_at > options_.max_batch + kMaxWaitingSeen) break;
    if (!other->has_unstarted() || request.is_of_job(*other)) continue;
    const int n_with_pages = std::max(options_.n_pages / 2 / std::max(own_pages(request), 1), 1);
    return std::min((options_.max_batch - n_before + 1) / 2, n_with_pages);
  }
  return options_.max_batch;
}

bool Scheduler::admit_request(RequestState* request) {
  const int n_needed = prefix_pages(*request) + own_pages(*request);
  if (n_promised_pages_ + n_needed > options_.n_pages) return false;
  // First, as only these can fail.
  if (request->uses_draft_model) request->prompt_head = executor_->make_prompt_head(request->prompt);
  request->draft_reads_prompt = draft_reads_prompt(*request);
  if (request->ngram_options) {
    request->ngrams = std::make_unique<NgramIndex>(request->prompt, request->request.n, *request->ngram_options);
  }
  request->main_prefix = PageTable(&main_pool_, options_.page_len);
  request->draft_prefix = PageTable(&draft_pool_, options_.page_len);
  request->main_prefix.reserve_ids(request->prefix_len);
  if (request->uses_draft_model) request->draft_prefix.reserve_ids(request->prefix_len);
  n_promised_pages_ += n_needed;
  request->prefix_node = prefix_root(*request);
  request->is_admitted = true;
  turn_ = std::max(turn_, request->turn);
  take_known_prefix(request);
  return true;
}

// Samples share what the draft model reads of their prompt, and could not each read it later: pages are promised for
// one copy of it.
bool Scheduler::draft_reads_prompt(const RequestState& request) {
  // A draft behind the last token that may be emitted is for nothing.
  const bool can_draft = request.max_text_len > static_cast<int>(request.prompt.size()) + 1;
  if (!request.uses_draft_model || !can_draft) return false;
  if (request.choices.size() > 1 || request.policy->spec.policy->wants_model == nullptr) return true;
  std::optional<int>& n_unread = request.policy->n_unread_prompts;
  const int n_sequences = std::max(n_unfinished(/*counts_waiting=*/true), 1);
  const int read_every = std::min(n_sequences, kReadEvery);
  const bool is_read = !n_unread || *n_unread + 1 >= read_every || wants_draft_model(request, n_sequences);
  n_unread = is_read ? 0 : *n_unread + 1;
  return is_read;
}

// That may run together, at most a batch: of all requests, or of those that were admitted.
int Scheduler::n_unfinished(bool counts_waiting) const {
  int n = 0;
  for (const auto& request : requests_) {
    if (n >= options_.max_batch || !(counts_waiting || request->is_admitted)) break;  // nor are later ones admitted
    n += static_cast<int>(request->choices.size()) - request->n_finished;
  }
  return std::min(n, options_.max_batch);
}

// In a batch of so many sequences like this one, whose prompts have yet to be read: a short answer to a long prompt may
// not win what that takes. Its policy says such things.
bool Scheduler::wants_draft_model(const RequestState& request, int n_sequences) {
  const auto context_len = static_cast<int>(request.prompt.size());
  const int n_left = request.max_text_len - context_len;
  const PolicyState* policy = request.policy.get();
  const std::array<int, 3> about = {n_sequences, static_cast<int>(std::bit_width(request.prompt.size())),
                                    static_cast<int>(std::bit_width(static_cast<unsigned>(n_left)))};
  const auto known = std::find_if(wishes_.begin(), wishes_.end(),
                                  [&](const Wish& wish) { return wish.policy == policy && wish.about == about; });
  if (known != wishes_.end()) return known->wants_model;
  const double n_seen = static_cast<double>(n_sequences) * context_len;
  candidates_.assign(static_cast<size_t>(n_sequences), {.max_len = std::min(policy->state.len, kMaxDraftLen),
                                                        .context_len = context_len,
                                                        .n_unread = n_to_catch_up(context_len),
                                                        .n_left = n_left});
  const StepLoad load{n_sequences, n_seen, n_seen};
  wishes_.push_back({policy, about, policy->spec.policy->wants_model(policy->state, *costs_, load, candidates_)});
  return wishes_.back().wants_model;
}

void Scheduler::start_sequence(RequestState* request) {
  Sequence* sequence = request->choices[static_cast<size_t>(request->n_started++)].get();
  sequence->is_started = true;
  sequence->decode_start = Clock::now();
  sequence->main_pages = request->main_prefix.fork(request->shared_len());
  sequence->draft_pages = request->draft_prefix.fork(std::min(request->draft_prefix.len(), request->shared_len()));
  make_room(sequence);
  running_.push_back(sequence);
}

// For all that the sequence may become, so that its steps allocate nothing.
void Scheduler::make_room(Sequence* sequence) {
  RequestState* request = sequence->request;
  const int n_new = request->max_text_len - static_cast<int>(request->prompt.size());
  sequence->output.reserve(static_cast<size_t>(n_new));
  sequence->proposed.reserve(kMaxDraftLen);
  request->policy->outcomes.reserve(static_cast<size_t>(options_.max_batch));
  sequence->main_pages.reserve_ids(request->max_text_len);
  if (request->uses_draft_model) {
    sequence->draft_pages.reserve_ids(request->max_text_len);
    sequence->unseen_by_draft.reserve(static_cast<size_t>(request->max_text_len));  // if it drafts after a long pause
  }
  sequence->stop_matcher.make_room(kMaxStepBytes);
  index_ahead(sequence);
}

// Few texts become as long as they may, and a place costs 128 bytes: what is longer gets its room on the way. Where
// there is none, the request goes on without n-grams.
void Scheduler::index_ahead(Sequence* sequence) {
  RequestState* request = sequence->request;
  const int n_output = static_cast<int>(sequence->output.size());
  if (request->ngrams == nullptr || n_output + kMaxDraftLen + 1 <= sequence->n_indexed) return;
  const int n_more = std::min(request->n_left(*sequence), kMaxIndexedAhead);
  try {
    request->ngrams->reserve(sequence->choice_idx, n_more);
    sequence->n_indexed = n_more < kMaxIndexedAhead ? INT_MAX : n_output + n_more;
  } catch (const std::bad_alloc&) {
    request->ngrams.reset();
  }
}

}  // namespace bass
