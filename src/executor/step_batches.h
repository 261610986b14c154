// Which rows go through the models in a step: the batches of the draft's passes and of the main model's, and which of
// the draft's rows are drafted from. The part of an executor that is the same wherever the passes run.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "executor/step_plan.h"

namespace bass {

/// Fills a Forward (begin_batch, add_segment, add_token, want_results, n_rows, end_batch: CpuForward) from a plan.
/// drafted(segment, idx) gives the token that a segment drafted idx-th. One thread.
class StepBatches {
 public:
  /// A draft begins the sequence's first row in a batch with the main model's hidden states.
  static constexpr int kFromTaps = -1;

  /// The first step of a plan. draft_reads_taps: prompts come to the draft after the main model's pass, which leaves
  /// what it reads. draft_vocab_size: ids from here on are unknown to the draft; 0: it has the main model's. What is
  /// thrown here leaves everything as it was; after it nothing is allocated.
  void start(const StepPlan& plan, bool draft_reads_taps, int draft_vocab_size) {
    plan_ = &plan;
    draft_reads_taps_ = draft_reads_taps;
    draft_vocab_size_ = draft_vocab_size;
    hidden_rows_.assign(plan.segments.size(), kFromTaps);
    logit_rows_.reserve(plan.segments.size());
    logit_segments_.reserve(plan.segments.size());
    first_rows_.reserve(plan.segments.size());
  }

  [[nodiscard]] bool has_draft_prefill() const {
    return draft_reads_taps_ && std::any_of(plan_->segments.begin(), plan_->segments.end(), comes_later);
  }

  /// Pass step_idx of the draft: the first brings it up to date and drafts the first token, each further one drafts one
  /// more, unless has_ended(segment) (SegmentPlan::stop). No rows: there is no such pass.
  template <class Forward, class Drafted, class HasEnded>
  void fill_draft(int step_idx, Forward& forward, Drafted drafted, HasEnded has_ended) {
    forward.begin_batch();
    logit_rows_.clear();
    logit_segments_.clear();
    for (size_t i = 0; i < plan_->segments.size(); ++i) {
      const SegmentPlan& segment = plan_->segments[i];
      if (segment.draft_tokens.empty() || (step_idx > 0 && segment.n_model_drafts <= step_idx)) continue;
      if (draft_reads_taps_ && comes_later(segment)) continue;
      if (has_ended(static_cast<int>(i))) continue;
      if (step_idx == 0) {
        add_unseen_tokens(segment, forward);
      } else {
        const int n_known = segment.draft_start + static_cast<int>(segment.draft_tokens.size());
        forward.add_segment(n_known + step_idx - 1, /*is_decode=*/true, segment.draft_pages, segment.max_text_len, {});
        forward.add_token(drafted(static_cast<int>(i), step_idx - 1), hidden_rows_[i]);
      }
      forward.want_results(segment.n_model_drafts == 0 ? 0 : 1);
      if (segment.n_model_drafts == 0) continue;
      hidden_rows_[i] = static_cast<int>(logit_rows_.size());
      logit_rows_.push_back(forward.n_rows() - 1);
      logit_segments_.push_back(static_cast<int>(i));
    }
    forward.end_batch();
  }
  /// Rows of the draft's batch that are drafted from, and their segments. A row's index here is also that of the hidden
  /// state that the next pass stands on.
  [[nodiscard]] std::span<const int> logit_rows() const { return logit_rows_; }
  [[nodiscard]] std::span<const int> logit_segments() const { return logit_segments_; }

  /// Prompts of a draft that reads hidden states, which are there now.
  template <class Forward>
  void fill_draft_prefill(Forward& forward) {
    forward.begin_batch();
    for (const SegmentPlan& segment : plan_->segments) {
      if (!comes_later(segment)) continue;
      add_unseen_tokens(segment, forward);
      forward.want_results(0);
    }
    forward.end_batch();
  }

  /// The main model's only pass. n_drafted(segment): tokens that it verifies.
  template <class Forward, class NDrafted, class Drafted>
  void fill_main(Forward& forward, NDrafted n_drafted, Drafted drafted) {
    forward.begin_batch();
    first_rows_.clear();
    for (size_t i = 0; i < plan_->segments.size(); ++i) {
      const SegmentPlan& segment = plan_->segments[i];
      const auto segment_idx = static_cast<int>(i);
      first_rows_.push_back(forward.n_rows());
      forward.add_segment(segment.start, segment.wants_sample, segment.pages, segment.max_text_len, {});
      for (const TokenId token : segment.tokens) forward.add_token(token, kFromTaps);
      const int n_drafts = segment.wants_sample ? n_drafted(segment_idx) : 0;
      for (int k = 0; k < n_drafts; ++k) forward.add_token(drafted(segment_idx, k), kFromTaps);
      // Targets begin with the first row.
      if (segment.targets.empty()) forward.want_results(segment.wants_sample || segment.wants_top5 ? 1 + n_drafts : 0);
    }
    forward.end_batch();
  }
  /// [n_segments] where their rows begin in the main model's batch.
  [[nodiscard]] std::span<const int> first_rows() const { return first_rows_; }

 private:
  static bool comes_later(const SegmentPlan& segment) { return !segment.wants_sample && !segment.draft_tokens.empty(); }

  template <class Forward>
  void add_unseen_tokens(const SegmentPlan& segment, Forward& forward) const {
    // More than a round emits is a text that the draft catches up with: read like a prompt, and nobody is padded to it.
    const bool is_decode = segment.wants_sample && segment.draft_tokens.size() <= 1 + SpeculationStats::kMaxDraftLen;
    forward.add_segment(segment.draft_start, is_decode, segment.draft_pages, segment.max_text_len, segment.pages);
    // Padding ids of the main model may be unknown to the draft; what it drafts after another token is still a draft.
    for (const TokenId token : segment.draft_tokens) {
      forward.add_token(draft_vocab_size_ == 0 || token < draft_vocab_size_ ? token : 0, kFromTaps);
    }
  }

  const StepPlan* plan_ = nullptr;
  bool draft_reads_taps_ = false;
  int draft_vocab_size_ = 0;
  std::vector<int> hidden_rows_;  // [n_segments] where the draft keeps x of its last token
  std::vector<int> logit_rows_;
  std::vector<int> logit_segments_;
  std::vector<int> first_rows_;
};

}  // namespace bass
