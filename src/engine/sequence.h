// A request and its sequences, as the engine's thread keeps them.
#pragma once

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "bass/engine.h"
#include "cache/page_table.h"
#include "cache/prefix_cache.h"
#include "executor/executor.h"
#include "kernels/sampling/sampling_params.h"
#include "speculation/draft_length.h"
#include "speculation/ngram_drafter.h"
#include "text/detokenizer.h"
#include "text/grammar/token_constraint.h"
#include "text/stop_strings.h"

namespace bass {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// One draft-length policy at work, of all requests that share it (engine/policy_registry.h).
struct PolicyState {
  DraftLengthSpec spec;
  DraftLengthState state;
  std::vector<DraftOutcome> outcomes;   // of the step that just ran
  bool is_marked = false;               // scratch of loops over sequences that share policies
  bool is_used = false;                 // a sequence with a drafter is in the step that is planned, or just ran
  std::optional<int> n_unread_prompts;  // since the last one that the draft model read, where it does not read all
  std::set<uint64_t> seeds;             // of requests with fixed noise that it learnt from

  static constexpr size_t kMaxSeeds = 4096;
  /// So many seeds are kept that this state takes no more.
  [[nodiscard]] bool is_full() const { return seeds.size() >= kMaxSeeds; }
  /// False where it has learnt from the seed before.
  bool add_seed(uint64_t seed) { return seeds.insert(seed).second; }
};

struct RequestState;

/// One sample. Its text is the request's prompt and then `output`; the last token of that is *pending*: the next step
/// feeds it to the main model. So the main cache holds text_len() - 1 tokens between steps.
struct Sequence {
  Sequence(RequestState* owner, int idx, StreamDetokenizer text, StopMatcher stops)
      : request(owner), choice_idx(idx), detokenizer(std::move(text)), stop_matcher(std::move(stops)) {}

  RequestState* request;
  int choice_idx;
  std::vector<TokenId> output;
  PageTable main_pages;
  PageTable draft_pages;                           // its len() is how much of the text the draft model has seen
  std::vector<TokenId> unseen_by_draft;            // of the running step
  std::vector<TokenId> proposed;                   // by a host drafter, for the running step
  DraftSource draft_source = DraftSource::kModel;  // of the running step's draft
  int draft_len = 0;                               // what the policy chose for the running step, at most
  int n_indexed = 0;                               // tokens of the output that the n-gram index has room for
  int max_model_drafts = 0;                        // that the draft model could draft in the running step
  DraftStop draft_stop;                            // of the running step's draft, if it is the model's
  bool is_look = false;                            // the running step's draft (DraftCandidate)
  SequenceSkills skills;                           // learnt by the policy
  StreamDetokenizer detokenizer;
  StopMatcher stop_matcher;
  ConstraintPlace place;  // behind the output, if the request has a constraint
  Clock::time_point decode_start;
  int64_t regular_start = 0;  // engine/regular_batch.h
  ChoiceStats stats;
  bool is_started = false;
  bool is_finished = false;

  /// Nothing of a sequence that has ended is read but its stats: its siblings may run for long.
  void release_memory() noexcept {
    // A list of no elements would leave a vector its memory.
    output = std::vector<TokenId>();
    unseen_by_draft = std::vector<TokenId>();
    proposed = std::vector<TokenId>();
    stop_matcher.release_memory();
    place = ConstraintPlace();
    main_pages = PageTable();
    draft_pages = PageTable();
  }
};

/// n sequences of one prompt. The prompt is prefilled once into `main_prefix`, which the sequences fork.
struct RequestState {
  RequestId id = 0;
  Request request;
  std::shared_ptr<EventQueue> events;
  std::list<Event> done;  // the one kDone, allocated at submission: a request's end needs no memory
  Clock::time_point submitted;
  std::optional<Clock::time_point> deadline;
  bool is_watched = false;  // the scheduler's queue of deadlines has it
  int64_t turn = 0;         // of its job, in which it is to be admitted

  std::vector<TokenId> prompt;
  int max_text_len = 0;  // prompt and output, drafts included: min(prompt + max_tokens, context)
  int prefix_len = 0;    // prompt tokens that are prefilled; the whole prompt if its log-probabilities are wanted
  PageTable main_prefix;
  PageTable draft_prefix;
  PrefixCache::NodeId prefix_node = PrefixCache::kRoot;  // held from admission on: of main_prefix's last full page
  int n_cached_tokens = 0;                               // of the prompt, that another text had brought into the cache
  bool is_admitted = false;
  std::vector<float> prompt_logprobs;
  std::vector<TokenId> prompt_argmax;
  std::vector<TopLogprob> prompt_top;
  std::vector<std::pair<TokenId, float>> last_top5;

  std::shared_ptr<TokenConstraint> constraint;  // what answers have to be, or null
  SamplingParams sampling;                      // points into the two below
  std::vector<LogitBias> bias;
  std::vector<TokenId> banned;
  bool uses_draft_model = false;
  bool draft_reads_prompt = false;            // from admission on: while the main model does; else when it is to draft
  std::optional<NgramOptions> ngram_options;  // none: no n-gram drafts
  std::unique_ptr<NgramIndex> ngrams;         // from admission on
  std::unique_ptr<PromptHead> prompt_head;    // from admission on; null where the draft model needs none
  DraftLengthSpec draft_length;
  std::shared_ptr<PolicyState> policy;

  std::vector<std::unique_ptr<Sequence>> choices;
  int n_started = 0;
  int n_finished = 0;
  bool has_sent_prompt = false;
  int64_t mark = 0;  // of the last step that counted one of its sequences

  /// Tokens that all sequences share: each feeds the prompt's last token itself and draws its own first token there.
  [[nodiscard]] int shared_len() const { return static_cast<int>(prompt.size()) - 1; }
  [[nodiscard]] bool is_prefilled() const { return is_admitted && main_prefix.len() >= prefix_len; }
  /// From admission on it has a place for its first sample, whatever those before it may have: a step has no more
  /// segments than there are places.
  [[nodiscard]] bool keeps_first_place() const { return is_admitted && n_started == 0; }
  [[nodiscard]] int n_prefill_left() const { return prefix_len - main_prefix.len(); }
  /// Unless it was cancelled, as that ends those that never started, too.
  [[nodiscard]] int n_running() const { return std::max(n_started - n_finished, 0); }
  [[nodiscard]] bool is_of_job(const RequestState& other) const {
    return this == &other || (request.job != 0 && request.job == other.request.job);
  }
  [[nodiscard]] bool has_unstarted() const { return n_started < static_cast<int>(choices.size()); }
  [[nodiscard]] int text_len(const Sequence& sequence) const {
    return static_cast<int>(prompt.size() + sequence.output.size());
  }
  /// Before max_tokens.
  [[nodiscard]] bool may_end() const {
    return !request.sampling.ignore_eos || !request.stop.empty() || !request.stop_token_ids.empty();
  }
  /// Tokens that it must still emit.
  [[nodiscard]] int n_early(const Sequence& sequence) const {
    return std::max(request.min_tokens - static_cast<int>(sequence.output.size()), 0);
  }
  /// Tokens that it may still emit.
  [[nodiscard]] int n_left(const Sequence& sequence) const { return max_text_len - text_len(sequence); }
  [[nodiscard]] TokenId token_at(const Sequence& sequence, int position) const {
    const auto i = static_cast<size_t>(position);
    return i < prompt.size() ? prompt[i] : sequence.output[i - prompt.size()];
  }
};

}  // namespace bass
