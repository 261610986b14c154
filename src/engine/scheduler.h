// Which sequences run in a step, with how many rows, on which pages.
#pragma once

#include <array>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "executor/step_plan.h"
#include "speculation/token_worth.h"

namespace bass {

struct SchedulerOptions {
  int max_batch = 1;
  int max_rows = 0;  // rows that the executor can hold
  int page_len = 32;
  int n_pages = 0;  // of each model's pool
  bool has_draft = false;
  int max_kept_distributions = 0;  // of the draft model, in one step
  // Tokens of long texts that the draft model may catch up with in one step. Where a seed fixes the noise that drafts
  // meet, not fewer for want of time: it depends on where they begin.
  int max_caught_up = 256;
  // That texts which have ended leave to those that begin like them. None: requests share nothing.
  std::optional<int> max_idle_pages;
  bool reads_shared_once = true;  // attention does, of texts that begin alike
  // Texts whose lengths these divide otherwise have other keys (ModelConfig::max_usual_text_len); of both models.
  std::array<std::optional<int>, 2> max_usual_text_lens;
};

/// Rows of a step that ends before a deadline `left_s` away, by what a row took lately (0: unknown); 0 .. max_tokens.
int tokens_before_deadline(double left_s, double row_s, int max_tokens);

/// Whom a planned segment belongs to: a sequence, or a request whose prompt it prefills.
struct SegmentOwner {
  RequestState* request = nullptr;
  Sequence* sequence = nullptr;  // null: a prompt's chunk
};

/// Owns the requests, the page pools and the order of admission: jobs take turns, a request each, and of a turn first
/// come, first served. A request is admitted when
/// the pages that it can ever need (its prompt's and its next sequence's) are free, so that no step runs out of memory.
/// `costs` must outlive it; policies read it when a step is planned. So must the executor, which keeps something of the
/// prompts that are admitted.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, const StepCosts* costs, Executor* executor);

  /// Pages that a request needs at least: its prompt's and one sequence's.
  [[nodiscard]] int min_pages(const RequestState& request) const { return prefix_pages(request) + own_pages(request); }
  /// What samples of the request share, and what each has for itself at its longest.
  [[nodiscard]] int prefix_pages(const RequestState& request) const { return pages_for(request.prefix_len); }
  [[nodiscard]] int own_pages(const RequestState& request) const;

  [[nodiscard]] int n_pages() const { return options_.n_pages; }

  /// Takes all of `arrived`, which is empty then. Allocates nothing.
  void add(std::list<std::unique_ptr<RequestState>>* arrived) noexcept;
  /// Those at the queue's end that have no policy yet, in order; `prepare` is to give each one, and to tell `watch` of
  /// its deadline. Then it has its turn.
  template <class Prepare>
  void prepare_new(Prepare prepare) {
    auto next = requests_.end();
    while (next != requests_.begin() && (*std::prev(next))->policy == nullptr) --next;
    auto last = requests_.end();
    while (next != requests_.end()) {
      const auto newcomer = next++;
      prepare(newcomer->get());
      give_turn(newcomer, last);
      last = newcomer;
    }
  }
  void watch(RequestState* request);
  /// The first one of all requests.
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const {
    return deadlines_.empty() ? std::nullopt : std::optional(*deadlines_.begin());
  }
  [[nodiscard]] bool has_work() const { return !requests_.empty(); }
  [[nodiscard]] int n_decoding() const { return static_cast<int>(running_.size()); }
  /// Whether a request waits for admission, and not for a sequence to end: `schedule` may then take long.
  [[nodiscard]] bool may_admit() const;
  [[nodiscard]] const std::list<std::unique_ptr<RequestState>>& requests() const { return requests_; }

  /// Plans one step of about `max_step_tokens` rows, where it carries prompt tokens, into `plan` and `owners`. Empty
  /// when nothing can run.
  void schedule(int max_step_tokens, StepPlan* plan, std::vector<SegmentOwner>* owners);

  /// The request that could not be admitted in `schedule`, or whose next sample could not be started, as there was no
  /// memory; null: none. It is to be ended when the planned step is; told once.
  struct Failed {
    RequestState* request = nullptr;
    Status error;
  };
  Failed take_failed() noexcept { return std::exchange(failed_, {}); }

  /// What the decoding sequences of the step that was planned last ask for without drafts.
  [[nodiscard]] const StepLoad& regular_load() const { return regular_load_; }

  /// The decoding sequences of that step, and what tokens of each are worth.
  [[nodiscard]] std::span<const RunningSequence> weighed() const { return weighed_; }

  /// A chunk of the prompt is in the cache: others that begin like it may go on from there.
  void share_prefix(RequestState* request);
  /// A sequence has ended: its pages are free, or kept for texts that go on where it ends.
  void finish(Sequence* sequence, bool keeps_text);
  /// Forgets all requests, as they are. Allocates nothing.
  void abandon() noexcept;
  /// Forgets requests whose sequences have all ended, and what sequences of others had that ended. Allocates nothing.
  void remove_finished();

 private:
  [[nodiscard]] int pages_for(int n_tokens) const { return (n_tokens + options_.page_len - 1) / options_.page_len; }
  void plan_decode(Sequence* sequence, StepPlan* plan);
  void plan_draft_model(Sequence* sequence, SegmentPlan* segment, StepPlan* plan);
  void plan_prefills(int max_tokens, StepPlan* plan, std::vector<SegmentOwner>* owners);
  void plan_prefill(RequestState* request, int max_tokens, StepPlan* plan);
  bool remove_if_ended(RequestState* request);
  [[nodiscard]] int n_unfinished(bool counts_waiting) const;

  // admission.cc
  using Queue = std::list<std::unique_ptr<RequestState>>;
  void give_turn(Queue::iterator newcomer, Queue::iterator last) noexcept;
  [[nodiscard]] bool is_first_waiting(Queue::iterator place) const;
  [[nodiscard]] int64_t queue_turn() const;
  [[nodiscard]] int64_t last_turn_of_job(Queue::iterator newcomer) const;
  void admit();
  void admit_in_order();
  bool admit_request(RequestState* request);
  // Where admission is.
  struct Places {
    int n_taken = 0;        // of running sequences, and those that are kept for others
    int n_before = 0;       // of the requests before the one that is looked at, that run
    bool has_pages = true;  // nobody before it waits for pages
  };
  [[nodiscard]] int n_first_places() const;
  void take_places(RequestState* request, int max_own, Places* places);
  [[nodiscard]] int max_places(const RequestState& request, int n_before) const;
  bool draft_reads_prompt(const RequestState& request);
  bool wants_draft_model(const RequestState& request, int n_sequences);
  void start_sequence(RequestState* request);
  void make_room(Sequence* sequence);
  void index_ahead(Sequence* sequence);

  // draft_choice.cc
  void measure_regular_load();
  int job_of(const RequestState& request);
  void weigh();
  void choose_drafts();
  void add_candidate(Sequence* sequence, const RunningSequence& weighed);
  void propose(Sequence* sequence);

  // prefix_sharing.cc
  [[nodiscard]] bool may_share(const RequestState& request) const;
  [[nodiscard]] bool shares_prefix(const RequestState& request) const;
  [[nodiscard]] PrefixCache::NodeId prefix_root(const RequestState& request) const;
  void take_known_prefix(RequestState* request);
  bool waits_for_prefix(const RequestState& request);
  void share_draft_page(PrefixCache::NodeId node, PageTable* table, int page_idx);
  void keep_text(const Sequence& sequence);
  int n_read_for_others(const RequestState& request);

  void reserve(PageTable* table, int end, std::vector<PageCopy>* copies);
  void reserve_draft(PageTable* table, int end, std::vector<PageCopy>* copies);

  SchedulerOptions options_;
  const StepCosts* costs_;
  Executor* executor_;
  PagePool main_pool_;
  PagePool draft_pool_;
  std::optional<PrefixCache> prefixes_;  // none: requests share nothing
  int n_promised_pages_ = 0;             // of each pool
  int n_draft_rows_ = 0;                 // rows of the draft model's first pass in the step being planned
  int n_distributions_ = 0;              // of the draft model, that the step being planned keeps
  bool has_finished_ = false;            // a request may have ended
  bool has_left_queue_ = false;          // one that was not admitted has
  std::multiset<Clock::time_point> deadlines_;
  std::list<std::unique_ptr<RequestState>> requests_;  // as they were admitted, then those that wait, by their turn
  int64_t turn_ = 0;                                   // the latest of those that were admitted
  std::vector<Sequence*> running_;                     // in the order in which they started
  std::vector<Sequence*> ended_;                       // that had started, since remove_finished
  Failed failed_;
  RequestState* admitting_ = nullptr;      // where admission is
  std::vector<RequestState*> prefilling_;  // in the step being planned
  /// A full page of tokens that a prompt's next chunks bring into the cache.
  struct PrefixClaim {
    PrefixCache::NodeId parent = PrefixCache::kRoot;
    std::span<const TokenId> tokens;
    bool has_draft = false;  // the draft model reads them, too
  };
  std::vector<PrefixClaim> claims_;   // in the step being planned
  int64_t n_marks_ = 0;               // steps that were planned
  std::vector<TokenId> page_tokens_;  // [page_len] scratch
  StepLoad regular_load_;
  /// What a policy has said in the step being planned: requests that come together are mostly alike.
  struct Wish {
    const PolicyState* policy = nullptr;
    std::array<int, 3> about = {};  // sequences, and size classes of the prompt and of what may follow
    bool wants_model = false;
  };
  std::vector<Wish> wishes_;
  int n_unread_left_ = 0;  // tokens that the draft model may catch up with in the step being planned
  int n_timely_left_ = 0;  // the same where a step's length is bounded: as many as prompts may have
  /// Sequences that are wanted together.
  struct Job {
    uint64_t named = 0;  // by Request::job; 0: by the request
    RequestId request = 0;
    const PolicyState* policy = nullptr;
    bool operator==(const Job&) const = default;
  };
  std::vector<Job> jobs_;                   // of the step being planned
  std::vector<RunningSequence> weighed_;    // running_, what tokens of each are worth in the step being planned
  std::vector<DraftCandidate> candidates_;  // of one policy, in the step being planned
  std::vector<Sequence*> candidate_owners_;
};

}  // namespace bass
