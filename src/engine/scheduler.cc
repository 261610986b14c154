#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bass {
namespace {

static_assert(kMaxDraftLen == SpeculationStats::kMaxDraftLen, "one limit for policies, counters and executors");

// A prompt always advances, however many rows decode.
constexpr int kMinPrefillChunk = 32;

// Tokens that one step may emit: the draft model always reads them, however many others it has to catch up with.
constexpr int kMaxEmitted = kMaxDraftLen + 1;

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
  n_timely_left_ = std::max(max_step_tokens, kMinPrefillChunk);
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

// Admission has promised these pages: what is not free is idle.
void Scheduler::reserve(PageTable* table, int end, std::vector<PageCopy>* copies) {
  while (!table->reserve(end, copies)) BASS_CHECK(prefixes_ && prefixes_->evict());
}

// What the main model has made of idle texts stays: it would take far longer to make again.
void Scheduler::reserve_draft(PageTable* table, int end, std::vector<PageCopy>* copies) {
  while (!table->reserve(end, copies)) BASS_CHECK(prefixes_ && prefixes_->evict_draft_page());
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
  segment.sampling.n_early = request->n_early(*sequence);
  segment.prompt = request->prompt;
  segment.output = sequence->output;
  segment.constraint = sequence->place.constraint();
  segment.constraint_state = sequence->place.state();

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
  const bool has_fixed_noise = request->request.seed.has_value() && needs_draft_distribution(segment->sampling);
  const int n_left = has_fixed_noise ? n_unread_left_ : std::min(n_unread_left_, n_timely_left_);
  const int n_allowed = is_behind ? n_left : n_to_read;
  const int n_unseen = std::min({n_to_read, n_allowed, options_.max_rows - kMinPrefillChunk - n_draft_rows_});
  if (n_unseen <= 0) return;
  if (is_behind) {
    n_unread_left_ -= n_unseen;
    n_timely_left_ -= n_unseen;
  }
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
