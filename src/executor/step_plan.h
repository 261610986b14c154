// One step of the engine as a device sees it: what to compute, and what came out. POD rows and spans only, so that the
// same plan can be uploaded to a GPU. Whoever submits a plan owns what its spans point to until the ticket is waited
// for.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "bass/request.h"
#include "bass/status.h"
#include "bass/types.h"
#include "bass/work.h"
#include "cache/page_table.h"
#include "kernels/sampling/evidence.h"
#include "kernels/sampling/sampling_params.h"
#include "kernels/sampling/verify.h"
#include "speculation/draft_length.h"
#include "text/grammar/token_constraint.h"

namespace bass {

class PromptHead;

/// One sequence's part of a step: a *segment* ("these tokens of this sequence, from this position") and what to do with
/// it. A prefill chunk, a plain decode (one token) and a verification (1 + l tokens) differ only in their numbers.
///
/// The segment's rows in the main model are `tokens` and then the drafted tokens: `proposed` (a host drafter's,
/// one-hot), or else up to n_model_drafts that the draft model writes in this step.
struct SegmentPlan {
  std::span<const TokenId> tokens;  // known tokens, at least one
  int start = 0;                    // position of tokens[0]; the main KV cache holds what lies in front of it
  std::span<const PageId> pages;    // main model's pages, enough for start + tokens + drafts (the upper bound)
  int max_text_len = 0;             // that the sequence may reach: the same in all of its segments

  /// Sample behind the last known token and verify the drafts; false for a prompt's chunk.
  bool wants_sample = false;
  /// Report log-probabilities: of targets[i] at the row of tokens[i]. Fewer targets than tokens: the rest has none.
  std::span<const TokenId> targets;
  bool wants_top5 = false;  // of the last known token's row
  int n_top = 0;            // tokens to report in the place of each target, or of each that is emitted

  std::span<const TokenId> proposed;
  int n_model_drafts = 0;
  /// One token is drafted, and none verified: the segment decodes as if there were no draft, to the bit, and the result
  /// says what the token would have been worth (Executor::can_look).
  bool is_look = false;
  DraftStop stop;  // when the draft model ends before so many
  /// Known tokens that the draft model has not seen, up to the last of `tokens`; empty: leave the draft model alone.
  std::span<const TokenId> draft_tokens;
  int draft_start = 0;
  std::span<const PageId> draft_pages;      // enough for draft_start + draft_tokens + n_model_drafts - 1
  const PromptHead* prompt_head = nullptr;  // of the request's prompt, or null

  SamplingParams sampling;
  std::span<const TokenId> prompt;  // for penalties
  std::span<const TokenId> output;  // what was emitted, the pending token included
  /// What the output has to be, or null.
  TokenConstraint* constraint = nullptr;
  TokenConstraint::State constraint_state = TokenConstraint::kDead;  // behind `output`

  /// Upper bound of the drafted tokens that are verified: a segment has one drafter.
  [[nodiscard]] int n_drafts() const {
    return is_look ? 0 : std::max(static_cast<int>(proposed.size()), n_model_drafts);
  }
};

/// Whether verification of a model's drafts compares distributions, and not only token ids.
inline bool needs_draft_distribution(const SamplingParams& sampling) {
  return normalise_for_verification(sampling) == Normalise::kYes;
}

struct StepPlan {
  std::vector<SegmentPlan> segments;
  std::vector<PageCopy> main_copies;  // done first
  std::vector<PageCopy> draft_copies;

  /// Behind the last token of any segment, drafted ones included.
  [[nodiscard]] int n_positions() const {
    int n = 0;
    for (const SegmentPlan& segment : segments)
      n = std::max(n, segment.start + static_cast<int>(segment.tokens.size()) + segment.n_drafts());
    return n;
  }
  /// A sequence drafts that follows a grammar: what may come next depends on each drafted token.
  [[nodiscard]] bool has_constrained_drafts() const {
    return std::any_of(segments.begin(), segments.end(), [](const SegmentPlan& segment) {
      return segment.constraint != nullptr && segment.n_model_drafts > 0;
    });
  }
  void clear() {
    segments.clear();
    main_copies.clear();
    draft_copies.clear();
  }
};

/// What came out of one segment.
struct SegmentResult {
  int n_drafted = 0;  // and verified
  int n_accepted = 0;
  int n_looked_at = 0;  // of a look: 1, if a token was drafted
  int n_agreed = 0;     // of these, that are the token that was emitted
  /// Drafted tokens that the draft model's cache holds: not the last, unless one behind it was dropped, and none if it
  /// reads hidden states of the main model, which it had to guess: it is to see those again that are accepted.
  int n_draft_cached = 0;
  bool failed = false;            // the model's logits were not numbers, or `error` says what it was
  Status error;                   // of the device
  std::vector<TokenInfo> tokens;  // n_accepted + 1 if a sample was wanted
  /// Of the drafted tokens, in order, as far as verification has looked at them: the sum over x of min(p(x), q(x))
  /// under `rejection` and `block`, agreement_chance() under `match` (if the host verifies), and of a certain draft
  /// p(x). Of a look's token too. None of greedy requests.
  std::vector<AcceptanceLabel> labels;
  /// Of the tokens that the draft model drafted, and of one that was dropped behind them (SegmentPlan::stop).
  std::vector<float> confidences;
  std::vector<float> target_logprobs;
  std::vector<TokenId> target_argmax;  // the most probable token in place of each target
  std::vector<std::pair<TokenId, float>> top5;
  std::vector<TopLogprob> top_logprobs;  // [targets, n_top], or [tokens, n_top] and behind these what nobody asks for
  std::vector<DraftEvidence> evidence;   // [n_drafted] if drafts are traced
};

struct StepResult {
  std::vector<SegmentResult> segments;  // as in the plan; reused, so that the steady state does not allocate
  Work work;                            // of both models' passes
  DraftTimes draft_times;
  GraphCounts graphs;      // of both models' passes
  double attention_s = 0;  // of the main model's pass; 0: not measured apart
};

}  // namespace bass
