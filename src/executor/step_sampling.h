// What a step draws and judges: drafted tokens from a draft's logits, and verdicts on them from the main model's. The
// part of an executor that is the same wherever logits come from.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_team.h"
#include "executor/executor.h"
#include "kernels/sampling/agreement.h"
#include "kernels/sampling/block.h"
#include "kernels/sampling/distribution.h"
#include "kernels/sampling/draft_row.h"
#include "kernels/sampling/verify.h"

namespace bass {

/// Rows of logits that are computed at once: more would not fit the caches, nor the memory budget.
inline constexpr int kLogitsBlockRows = 64;

/// Tokens that SegmentPlan::wants_top5 reports.
inline constexpr int kScoringTop = 5;

/// The vocabularies of a main model and of its draft.
struct SamplingShape {
  int n_main_tokens = 0;  // ids that exist: an embedding may have padding rows behind them
  int main_vocab_size = 0;
  int n_draft_tokens = 0;                     // of the main model's tokens, what the draft may propose: ids below
  int draft_row_len = 0;                      // room for the logits of a row of the draft's; 0: there is no draft
  std::span<const int32_t> draft_vocabulary;  // the tokens that the draft chose to propose; empty: all
  bool draft_reads_taps = false;              // it drafts from hidden states of the main model

  /// Of the draft's logits that a row has at most: one for each token that may be proposed.
  [[nodiscard]] int n_draft_entries() const { return std::min(draft_row_len, n_draft_tokens); }
};

/// The draft's part of the shape. has_part_of_head: it proposes a part of the main model's vocabulary, to which prompts
/// may add.
void describe_draft(const ModelFile& draft, bool has_part_of_head, SamplingShape* shape);

/// One step after the other: `prepare`, `draft_rows` as often as the draft model has a batch, `want_rows`,
/// `verify_rows` for each block of logits in order, `collect`. What is marked SPMD is called by all threads of a team;
/// everything else by one.
class StepSampling {
 public:
  static constexpr int kMaxDraftLen = SpeculationStats::kMaxDraftLen;

  /// What a segment drafted in this step.
  struct Draft {
    std::array<TokenId, kMaxDraftLen> tokens{};
    std::array<float, kMaxDraftLen> confidences{};  // draft_confidence() of each; a host drafter's have none
    int n = 0;
    bool is_look = false;     // SegmentPlan
    int n_confidences = 0;    // one more than n where a token was dropped
    float survival = 1;       // of the last token (DraftStop)
    bool has_ended = false;   // before as many as were planned
    size_t stored_begin = 0;  // index into the stored rows of the first q row, if rows are stored
    bool has_stored_rows = false;
    /// Behind the output and so many drafted tokens, where the segment has a constraint.
    std::array<TokenConstraint::State, kMaxDraftLen + 1> states{};
    std::array<int, kMaxDraftLen> n_likely{};  // of each drafted token, if they are kept
    bool has_likely_tokens = false;

    [[nodiscard]] int n_verified() const { return is_look ? 0 : n; }
  };

  /// A row of the main model whose logits are wanted.
  struct WantedRow {
    int segment = 0;
    int row = 0;  // in the main batch
    int idx = 0;  // decode: tokens drafted in front of it; else index into targets
    bool is_decode = false;
    bool wants_top5 = false;
  };

  StepSampling(const cpu::Kernels* kernels, const ExecutorOptions& options)
      : kernels_(kernels),
        n_threads_(options.n_threads),
        traces_drafts_(options.traces_drafts),
        scripted_acceptance_(options.scripted_acceptance),
        profile_(options.profile) {}

  /// Makes room for the samplers, unless a device draws and judges. False: there is no memory.
  [[nodiscard]] bool open(const SamplingShape& shape, bool is_on_device = false);

  /// Begins a step, and makes room for all of it: after this a running team allocates nothing. What is thrown here
  /// leaves everything as it was.
  void prepare(const StepPlan& plan);
  [[nodiscard]] const Draft& draft(int segment_idx) const { return drafts_[static_cast<size_t>(segment_idx)]; }
  [[nodiscard]] int max_kept_distributions() const { return n_stored_rows_; }

  /// Drafts a token from each row of a block of logits. segments: [n_rows] that they belong to, each at most once.
  /// logits: [n_rows, draft_row_len]. SPMD; ends at a barrier.
  void draft_rows(const TeamContext& context, std::span<const int> segments, const float* logits);

  /// Finds out which rows of the main model's batch are wanted. first_rows: [n_segments] where segments begin in it.
  void want_rows(std::span<const int> first_rows);
  [[nodiscard]] std::span<const int> wanted_rows() const { return wanted_rows_; }
  /// Judges the wanted rows [begin, end), a block of at most kLogitsBlockRows. logits: [end - begin, main_vocab_size].
  /// SPMD; ends at a barrier.
  void verify_rows(const TeamContext& context, size_t begin, size_t end, const float* logits);

  // What a device that draws and judges by itself is told, and what it answers in the place of draft_rows and
  // verify_rows.

  [[nodiscard]] std::span<const WantedRow> wanted() const { return wanted_; }
  /// What a segment of this step can propose.
  [[nodiscard]] ProposableTokens proposable_tokens(int segment_idx) const;
  [[nodiscard]] RoundPosition round_position(int segment_idx, int draft_idx) const;
  /// What is in front of a row of a segment's round, and what may follow. Valid until the next `prepare`.
  [[nodiscard]] TokenHistory history(int segment_idx, int n_drafted) const;
  /// One more drafted token; of a segment with a constraint it is known.
  void take_drafted(int segment_idx, TokenId token);
  /// It drafts no more: no token that the draft can propose may follow.
  void end_draft(int segment_idx) { drafts_[static_cast<size_t>(segment_idx)].has_ended = true; }
  /// The idx-th token, which take_drafted has given a place before it was known.
  void settle_drafted(int segment_idx, int idx, TokenId token) {
    drafts_[static_cast<size_t>(segment_idx)].tokens[static_cast<size_t>(idx)] = token;
  }
  /// looked_at: of a row of a round under `block`, p and q of its drafted token.
  void take_verdict(size_t wanted_idx, const RowVerdict& verdict, float chance, const BlockRow& looked_at) {
    verdicts_[wanted_idx] = verdict;
    chances_[wanted_idx] = chance;
    if (!looked_at_.empty()) looked_at_[wanted_idx].row = looked_at;
  }
  void take_round(int segment_idx, const BlockRound& round, const RowVerdict& stop) {
    block_rounds_[static_cast<size_t>(segment_idx)] = {round, stop};
  }
  [[nodiscard]] SegmentResult& segment_result(int segment_idx) {
    return result_.segments[static_cast<size_t>(segment_idx)];
  }

  /// Writes the segments of the result, which is valid until the next `prepare`.
  void collect();
  /// The same where the step could not be run: every segment has failed with this error.
  void fail(const Status& error);
  [[nodiscard]] StepResult& result() { return result_; }

 private:
  /// A row of a round, loaded. `p` is the last row that the sampler built.
  struct DecodeRow {
    RowDistribution p;
    RowDistribution q;  // where the drafted token's was stored
    bool has_q = false;
    bool is_extra = false;
  };
  /// A row of a round under the rule `block`, when it was looked at by itself. p.z is gone.
  struct LookedAt {
    BlockRow row;
    RowDistribution p;
  };
  /// A round under the rule `block`.
  struct BlockVerification {
    BlockRound round;
    RowVerdict stop;  // of the token behind the last accepted one
  };

  void start_draft(const SegmentPlan& segment, Draft* draft, size_t* n_stored);
  void reserve_for(const StepPlan& plan);
  void want(const WantedRow& row);
  void find_block_rounds();
  [[nodiscard]] bool is_scripted_to_accept(int segment_idx, int draft_idx) const;
  void script_verdicts(int segment_idx, size_t first_wanted);
  void collect_decode(int segment_idx, size_t first_wanted);
  void collect_labels(int segment_idx, size_t first_wanted);
  void collect_look(int segment_idx, size_t first_wanted);

  void draft_row(RowSampler& sampler, int segment_idx, const float* logits);
  void process_row(RowSampler& sampler, size_t wanted_idx);
  void verify_wanted_row(RowSampler& sampler, size_t wanted_idx);
  void look(RowSampler& sampler, size_t wanted_idx);
  void tell_top(RowSampler& sampler, const WantedRow& wanted, const float* logits);
  void look_at_block_row(RowSampler& sampler, size_t wanted_idx);
  void verify_block_rows(RowSampler& sampler, size_t begin, size_t end);
  void judge_row(RowSampler& sampler, size_t wanted_idx, BlockRound* round);
  RowVerdict draw_behind_accepted(RowSampler& sampler, size_t wanted_idx, const BlockRound& round);
  void trace_rows(RowSampler& sampler, size_t begin, size_t end);
  DecodeRow load_decode_row(RowSampler& sampler, size_t wanted_idx);
  DecodeRow load_looked_at_row(RowSampler& sampler, size_t wanted_idx);
  void load_q(RowSampler& sampler, const WantedRow& wanted, DecodeRow* row);
  void keep_likely_tokens(RowSampler& sampler, const RowDistribution& q, const float* logits, int segment_idx);
  [[nodiscard]] float match_chance(RowSampler& sampler, size_t wanted_idx, const RowDistribution& p);
  void end_round_at(const WantedRow& wanted);
  [[nodiscard]] bool is_behind_end(const WantedRow& wanted) {
    const std::atomic_ref<int> last(last_rows_[static_cast<size_t>(wanted.segment)]);
    return wanted.idx > last.load(std::memory_order_relaxed);
  }
  void score_row(RowSampler& sampler, size_t wanted_idx, const float* logits);
  /// Calls process(sampler, i) for every i below n, threads taking the next one when they are done; ends at a barrier.
  template <class Process>
  void for_each_row(const TeamContext& context, int n, StepPart part, Process process);

  /// Where the likely tokens of the draft_idx-th drafted token of a segment are kept. [kMaxLikelyTokens]
  [[nodiscard]] LikelyToken* likely_tokens_of(int segment_idx, int draft_idx) {
    const size_t idx = static_cast<size_t>(segment_idx) * kMaxDraftLen + static_cast<size_t>(draft_idx);
    return likely_tokens_.data() + idx * kMaxLikelyTokens;
  }
  /// The stored q of the idx-th drafted token of a segment. [n_draft_entries]
  [[nodiscard]] uint16_t* stored_row(const Draft& draft, int idx) const {
    return stored_memory_.as<uint16_t>() +
           (draft.stored_begin + static_cast<size_t>(idx)) * static_cast<size_t>(shape_.n_draft_entries());
  }
  /// Of a wanted row in the block of logits that is judged now. [main_vocab_size]
  [[nodiscard]] const float* row_logits(size_t wanted_idx) const {
    return logits_ + wanted_idx % kLogitsBlockRows * static_cast<size_t>(shape_.main_vocab_size);
  }
  [[nodiscard]] DraftedToken drafted_token(const WantedRow& wanted, const DecodeRow& row) const {
    const Draft& draft = drafts_[static_cast<size_t>(wanted.segment)];
    return {draft.tokens[static_cast<size_t>(wanted.idx)], row.has_q ? &row.q : nullptr};
  }
  /// Whether chances_ of a sequence's rows are known when they have been verified.
  [[nodiscard]] bool knows_chances(const SamplingParams& sampling) const {
    return needs_draft_distribution(sampling) || knows_agreement(sampling);
  }
  [[nodiscard]] bool knows_agreement(const SamplingParams& sampling) const {
    return sampling.rule == VerifyRule::kMatch && !sampling.is_greedy() && !is_on_device_;
  }
  [[nodiscard]] bool is_block_row(const WantedRow& wanted) const {
    return wanted.is_decode && is_judged_as_block(plan_->segments[static_cast<size_t>(wanted.segment)].sampling);
  }
  [[nodiscard]] RowSampler& sampler(const TeamContext& context) {
    return *samplers_[static_cast<size_t>(context.thread_idx())];
  }
  /// Follows the drafted tokens from the idx-th one on.
  static void follow(const SegmentPlan& segment, int idx, Draft* draft);

  const cpu::Kernels* kernels_;
  int n_threads_;
  bool traces_drafts_;
  std::optional<float> scripted_acceptance_;
  StepProfile* profile_;
  SamplingShape shape_;
  bool is_on_device_ = false;
  std::vector<std::unique_ptr<RowSampler>> samplers_;  // [n_threads]

  const StepPlan* plan_ = nullptr;
  const float* logits_ = nullptr;  // the block that is judged
  std::vector<Draft> drafts_;      // [n_segments]
  AlignedBuffer stored_memory_;    // f16 [n_stored_rows_, n_draft_entries]: q of drafts that are to be verified
  int n_stored_rows_ = 0;
  /// [segments, kMaxDraftLen, kMaxLikelyTokens]: of models' drafts under `match`
  std::vector<LikelyToken> likely_tokens_;
  std::vector<WantedRow> wanted_;
  std::vector<int> wanted_rows_;      // WantedRow::row of each
  std::vector<float> chances_;        // [wanted] of drafted tokens to be accepted, where that is known
  std::vector<LookedAt> looked_at_;   // [wanted], of rounds under `block`
  std::vector<size_t> block_begins_;  // of the runs of rows of a round that is judged in order, in a block of logits
  std::vector<RowVerdict> verdicts_;  // [wanted]
  std::vector<BlockVerification> block_rounds_;  // [n_segments]
  std::vector<int> last_rows_;                   // [n_segments]: behind it no row of the round counts. By atomic_ref
  std::atomic<int> next_row_{0};
  StepResult result_;
};

}  // namespace bass
