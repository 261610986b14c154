#include "engine/scheduler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <new>
#include <utility>

#include "base/caught_status.h"
#include "base/check.h"

namespace bass {
namespace {

static_assert(kMaxDraftLen == SpeculationStats::kMaxDraftLen, "one limit for policies, counters and executors");

// A prompt always advances, however many rows decode.
constexpr int kMinPrefillChunk = 32;
// Where drafts of the model do not pay, it reads the prompts of some requests all the same: looks at what its drafts
// would be worth need a sequence whose text it knows. So many of a batch, and one of a small one.
constexpr int kReadEvery = 8;

// Tokens that one step may emit: the draft model always reads them, however many others it has to catch up with.
constexpr int kMaxEmitted = kMaxDraftLen + 1;
// Tokens of prompts that one step indexes, or those of a single prompt: all sequences wait meanwhile.
constexpr size_t kMaxAdmittedTokens = 16384;

// Requests that wait, of which it is asked whose they are.
constexpr int kMaxWaitingSeen = 256;

// Room that is made when a sequence starts: for the text of a step, and for tokens in the index of n-grams.
constexpr size_t kMaxStepBytes = 256;
constexpr int kMaxIndexedAhead = 2048;

}  // namespace

int tokens_before_deadline(double left_s, double row_s, int max_tokens) {
  if (row_s <= 0 || left_s <= 0) return 0;
  return left_s < row_s * max_tokens ? static_cast<int>(left_s / row_s) : max_tokens;
}

Scheduler::Scheduler(const SchedulerOptions& options, const StepCosts* costs, Executor* executor)
    : options_(options),
      costs_(costs),
      executor_(executor),
      main_pool_(options.n_pages),
      draft_pool_(options.has_draft ? options.n_pages : 0) {
  const auto max_batch = static_cast<size_t>(options.max_batch);
  running_.reserve(max_batch);
  ended_.reserve(max_batch + 1);  // and one that could not start
  prefilling_.reserve(max_batch);
  weighed_.reserve(max_batch);
  jobs_.reserve(max_batch);
  candidates_.reserve(max_batch);
  candidate_owners_.reserve(max_batch);
  if (!options.max_idle_pages) return;
  prefixes_.emplace(&main_pool_, options.has_draft ? &draft_pool_ : nullptr, options.page_len, *options.max_idle_pages);
  claims_.reserve(max_batch);
  page_tokens_.resize(static_cast<size_t>(options.page_len));
}

int Scheduler::own_pages(const RequestState& request) const {
  // The page in which the shared part ends is the prompt's; a sequence writes into a copy of its own.
  return pages_for(request.max_text_len) - request.shared_len() / options_.page_len;
}

void Scheduler::add(std::list<std::unique_ptr<RequestState>>* arrived) noexcept {
  requests_.splice(requests_.end(), *arrived);
}

void Scheduler::watch(RequestState* request) {
  if (!request->deadline) return;
  deadlines_.insert(*request->deadline);
  request->is_watched = true;
}

void Scheduler::schedule(int max_step_tokens, StepPlan* plan, std::vector<SegmentOwner>* owners) {
  plan->clear();
  owners->clear();
  n_draft_rows_ = 0;
  n_distributions_ = 0;
  n_unread_left_ = options_.max_caught_up;
  wishes_.clear();
  failed_ = {};
  admit();
  choose_drafts();
  int n_rows = 0;
  for (Sequence* sequence : running_) {
    plan_decode(sequence, plan);
    owners->push_back({sequence->request, sequence});
    n_rows += 1 + plan->segments.back().n_drafts();
  }
  // Many sequences with long drafts would fill the step by themselves, and prompts wait until these have ended.
  const int n_least = std::max(max_step_tokens / 4, kMinPrefillChunk);
  int n_prefill_tokens = std::max(max_step_tokens - n_rows, n_least);
  n_prefill_tokens = std::min(n_prefill_tokens, options_.max_rows - std::max(n_rows, n_draft_rows_));
  plan_prefills(n_prefill_tokens, plan, owners);
}

// The oldest prompt has half of the tokens, and what the others leave. Those are read by how little is left of them, so
// that a short prompt need not wait until a long one before it has been read.
void Scheduler::plan_prefills(int max_tokens, StepPlan* plan, std::vector<SegmentOwner>* owners) {
  prefilling_.clear();
  claims_.clear();
  int64_t n_of_others = 0;
  for (const auto& request : requests_) {
    if (!request->is_admitted) break;  // later ones are not admitted either
    take_known_prefix(request.get());
    if (!request->is_prefilled()) prefilling_.push_back(request.get());
  }
  if (prefilling_.empty()) return;
  std::sort(prefilling_.begin() + 1, prefilling_.end(), [](const auto* a, const auto* b) {
    return std::pair(a->n_prefill_left(), a->id) < std::pair(b->n_prefill_left(), b->id);
  });
  std::erase_if(prefilling_, [this](const RequestState* request) { return waits_for_prefix(*request); });
  for (size_t i = 1; i < prefilling_.size(); ++i) n_of_others += prefilling_[i]->n_prefill_left();
  int n_tokens = max_tokens - static_cast<int>(std::min<int64_t>(n_of_others, max_tokens / 2));
  for (RequestState* request : prefilling_) {
    if (n_tokens <= 0) break;
    plan_prefill(request, n_tokens, plan);
    owners->push_back({request, nullptr});
    max_tokens -= static_cast<int>(plan->segments.back().tokens.size());
    n_tokens = max_tokens;
  }
}

bool Scheduler::may_admit() const {
  return !requests_.empty() && !requests_.back()->is_admitted && static_cast<int>(running_.size()) < options_.max_batch;
}

// What there is no memory for ends one request and not all.
void Scheduler::admit() {
  try {
    admit_in_order();
  } catch (...) {
    failed_ = {admitting_, caught_status("the request could not be started")};
  }
}

// Strictly in order of arrival: a later request is promised no pages that an earlier one waits for, so nobody waits for
// ever. What was promised before may start.
void Scheduler::admit_in_order() {
  Places places{.n_taken = static_cast<int>(running_.size())};
  size_t n_admitted_tokens = 0;
  for (const auto& request : requests_) {
    if (places.n_taken >= options_.max_batch) return;
    if (request->has_unstarted()) {
      admitting_ = request.get();
      if (!request->is_admitted) {
        const size_t n_tokens = request->prompt.size();
        if (!places.has_pages || (n_admitted_tokens > 0 && n_admitted_tokens + n_tokens > kMaxAdmittedTokens)) return;
        if (!admit_request(request.get())) return;
        n_admitted_tokens += n_tokens;
      }
      take_places(request.get(), max_places(*request, places.n_before), &places);
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
// half of what the requests before it leave.
int Scheduler::max_places(const RequestState& request, int n_before) const {
  const auto is_of_job = [&](const RequestState& other) {
    return &other == &request || (request.request.job != 0 && other.request.job == request.request.job);
  };
  int n_looked_at = 0;
  for (const auto& other : requests_) {
    if (++n_looked_at > options_.max_batch + kMaxWaitingSeen) break;
    if (other->has_unstarted() && !is_of_job(*other)) return (options_.max_batch - n_before + 1) / 2;
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

// Admission has promised these pages: what is not free is idle.
void Scheduler::reserve(PageTable* table, int end, std::vector<PageCopy>* copies) {
  while (!table->reserve(end, copies)) BASS_CHECK(prefixes_ && prefixes_->evict());
}

// What the main model has made of idle texts stays: it would take far longer to make again.
void Scheduler::reserve_draft(PageTable* table, int end, std::vector<PageCopy>* copies) {
  while (!table->reserve(end, copies)) BASS_CHECK(prefixes_ && prefixes_->evict_draft_page());
}

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
    weighed_.push_back({.job = job_of(request),
                        .n_left = request.n_left(*sequence),
                        .may_end = !request.request.sampling.ignore_eos || !request.request.stop.empty()});
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
  }
  sequence->proposed.resize(static_cast<size_t>(n_proposed));
  sequence->is_look = false;
  sequence->draft_len = n_proposed;
  sequence->max_model_drafts = request->uses_draft_model ? limit : 0;
  if (n_proposed > 0 || !request->uses_draft_model) return;
  sequence->draft_source = DraftSource::kModel;
  sequence->draft_len = limit;
}

void Scheduler::plan_decode(Sequence* sequence, StepPlan* plan) {
  RequestState* request = sequence->request;
  const int text_len = request->text_len(*sequence);
  SegmentPlan& segment = plan->segments.emplace_back();
  segment.start = text_len - 1;
  segment.max_text_len = request->max_text_len;
  segment.tokens = sequence->output.empty() ? std::span<const TokenId>(&request->prompt.back(), 1)
                                            : std::span<const TokenId>(&sequence->output.back(), 1);
  segment.wants_sample = true;
  segment.n_top = request->request.top_logprobs;
  segment.is_look = sequence->is_look && executor_->can_look();
  segment.sampling = request->sampling;
  segment.sampling.sample_idx = static_cast<uint32_t>(sequence->choice_idx);
  segment.prompt = request->prompt;
  segment.output = sequence->output;

  if (sequence->draft_len > 0 && sequence->draft_source == DraftSource::kModel) {
    plan_draft_model(sequence, &segment, plan);
  } else {
    segment.proposed = std::span<const TokenId>(sequence->proposed).first(static_cast<size_t>(sequence->draft_len));
  }
  reserve(&sequence->main_pages, text_len + segment.n_drafts(), &plan->main_copies);
  segment.pages = sequence->main_pages.pages();
}

// The draft model first sees what it has not seen, in pieces if that is a lot, and drafts once it is up to date.
void Scheduler::plan_draft_model(Sequence* sequence, SegmentPlan* segment, StepPlan* plan) {
  RequestState* request = sequence->request;
  const int n_seen = sequence->draft_pages.len();
  const int text_len = request->text_len(*sequence);
  // Like a prompt's: so many tokens in a step, and prompts go on beside it. What a step emitted is always read.
  const int n_to_read = text_len - n_seen;
  const bool is_behind = n_to_read > kMaxEmitted;
  const int n_allowed = is_behind ? n_unread_left_ : n_to_read;
  const int n_unseen = std::min({n_to_read, n_allowed, options_.max_rows - kMinPrefillChunk - n_draft_rows_});
  if (n_unseen <= 0) return;
  if (is_behind) n_unread_left_ -= n_unseen;
  n_draft_rows_ += n_unseen;
  sequence->unseen_by_draft.clear();
  for (int i = 0; i < n_unseen; ++i) sequence->unseen_by_draft.push_back(request->token_at(*sequence, n_seen + i));
  segment->draft_tokens = sequence->unseen_by_draft;
  segment->draft_start = n_seen;
  segment->prompt_head = request->prompt_head.get();
  if (n_seen + n_unseen == text_len) segment->n_model_drafts = sequence->draft_len;
  segment->stop = sequence->draft_stop;
  if (needs_draft_distribution(segment->sampling)) {
    segment->n_model_drafts = std::min(segment->n_model_drafts, options_.max_kept_distributions - n_distributions_);
    n_distributions_ += segment->n_model_drafts;
  }
  reserve_draft(&sequence->draft_pages, n_seen + n_unseen + std::max(segment->n_model_drafts - 1, 0),
                &plan->draft_copies);
  segment->draft_pages = sequence->draft_pages.pages();
}

void Scheduler::plan_prefill(RequestState* request, int max_tokens, StepPlan* plan) {
  const int start = request->main_prefix.len();
  const int n_tokens = std::min(max_tokens, request->prefix_len - start);
  SegmentPlan& segment = plan->segments.emplace_back();
  segment.start = start;
  segment.max_text_len = request->max_text_len;
  segment.tokens =
      std::span<const TokenId>(request->prompt).subspan(static_cast<size_t>(start), static_cast<size_t>(n_tokens));
  if (request->request.prompt_logprobs) {
    const auto first_target = static_cast<size_t>(start) + 1;
    const size_t n_targets = std::min(static_cast<size_t>(n_tokens), request->prompt.size() - first_target);
    segment.targets = std::span<const TokenId>(request->prompt).subspan(first_target, n_targets);
    segment.wants_top5 = n_targets < static_cast<size_t>(n_tokens);
    segment.n_top = request->request.top_logprobs;
  }
  reserve(&request->main_prefix, start + n_tokens, &plan->main_copies);
  segment.pages = request->main_prefix.pages();
  if (!request->draft_reads_prompt) return;
  segment.draft_tokens = segment.tokens;
  segment.draft_start = start;
  reserve_draft(&request->draft_prefix, start + n_tokens, &plan->draft_copies);
  segment.draft_pages = request->draft_prefix.pages();
}

void Scheduler::finish(Sequence* sequence, bool keeps_text) {
  RequestState* request = sequence->request;
  sequence->is_finished = true;
  has_finished_ = true;
  has_left_queue_ |= !request->is_admitted;
  ++request->n_finished;
  if (!sequence->is_started) return;
  n_promised_pages_ -= own_pages(*request);
  if (keeps_text) keep_text(*sequence);
  sequence->main_pages.clear();
  sequence->draft_pages.clear();
  std::erase(running_, sequence);
  ended_.push_back(sequence);
}

void Scheduler::abandon() noexcept {
  running_.clear();
  ended_.clear();
  deadlines_.clear();
  for (const auto& request : requests_) {
    if (prefixes_) prefixes_->release(std::exchange(request->prefix_node, PrefixCache::kRoot));
  }
  requests_.clear();
  n_promised_pages_ = 0;
}

void Scheduler::remove_finished() {
  if (!std::exchange(has_finished_, false)) return;
  for (Sequence* sequence : ended_) sequence->release_memory();
  ended_.clear();
  // Those behind the first that is not admitted are not either: a long queue is not walked through for each end.
  const bool looks_at_all = std::exchange(has_left_queue_, false);
  for (auto at = requests_.begin(); at != requests_.end() && (looks_at_all || (*at)->is_admitted);) {
    at = remove_if_ended(at->get()) ? requests_.erase(at) : std::next(at);
  }
}

bool Scheduler::remove_if_ended(RequestState* request) {
  if (request->n_finished < static_cast<int>(request->choices.size())) return false;
  if (request->is_watched) deadlines_.erase(deadlines_.find(*request->deadline));
  if (!request->is_admitted) return true;
  if (prefixes_) prefixes_->release(std::exchange(request->prefix_node, PrefixCache::kRoot));
  n_promised_pages_ -= prefix_pages(*request);
  // The first sequence's pages were promised at admission; it may never have started.
  if (request->n_started == 0) n_promised_pages_ -= own_pages(*request);
  return true;
}

}  // namespace bass
