#include "executor/step_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace bass {
namespace {

// Bounds of a chance that lie further apart say less than what became of the token.
constexpr double kWidestBounds = 0.3;
// Memory for draft distributions. On the CPU it is touched only as far as it is used: 512 drafts of a vocabulary of
// 262144.
constexpr size_t kStoredBytes = size_t{256} << 20;
constexpr size_t kStoredDeviceBytes = size_t{64} << 20;

}  // namespace

void describe_draft(const ModelFile& draft, bool has_part_of_head, SamplingShape* shape) {
  const std::optional<MainModelUse>& main = draft.config.main;
  shape->n_draft_tokens = shape->n_main_tokens;
  if (!main) shape->n_draft_tokens = std::min(shape->n_main_tokens, static_cast<int>(draft.vocab.tokens.size()));
  shape->draft_row_len = draft.config.vocab_size;
  if (has_part_of_head) {
    shape->draft_row_len = std::min(shape->draft_row_len + kMaxPromptHeadTokens, shape->main_vocab_size);
  }
  if (main) shape->draft_vocabulary = main->vocabulary;
  shape->draft_reads_taps = main && !main->tap_layers.empty();
}

bool StepSampling::open(const SamplingShape& shape, bool is_on_device) {
  shape_ = shape;
  is_on_device_ = is_on_device;
  if (shape.draft_row_len > 0) {
    const size_t row_bytes = sizeof(uint16_t) * static_cast<size_t>(shape.n_draft_entries());
    n_stored_rows_ = static_cast<int>((is_on_device ? kStoredDeviceBytes : kStoredBytes) / row_bytes);
  }
  if (is_on_device) return true;
  if (shape.draft_row_len > 0) stored_memory_ = AlignedBuffer(kStoredBytes, AlignedBuffer::Use::kFewRows);
  const int row_len = std::max(shape.main_vocab_size, shape.draft_row_len);
  for (int i = 0; i < n_threads_; ++i) samplers_.push_back(std::make_unique<RowSampler>(kernels_, row_len));
  return stored_memory_.ok();
}

void StepSampling::prepare(const StepPlan& plan) {
  plan_ = &plan;
  result_.draft_times = {};
  result_.graphs = {};
  const size_t n_segments = plan.segments.size();
  drafts_.assign(n_segments, Draft{});
  last_rows_.assign(n_segments, std::numeric_limits<int>::max());
  block_rounds_.assign(n_segments, BlockVerification{});
  size_t n_stored = 0;
  for (const SegmentPlan& segment : plan.segments) {
    if (segment.constraint != nullptr) segment.constraint->trim();  // the last step's masks are done with
  }
  for (size_t i = 0; i < n_segments; ++i) start_draft(plan.segments[i], &drafts_[i], &n_stored);
  BASS_CHECK(n_stored <= static_cast<size_t>(n_stored_rows_));
  const auto has_likely = [](const Draft& draft) { return draft.has_likely_tokens; };
  const size_t n_likely = n_segments * kMaxDraftLen * kMaxLikelyTokens;
  if (likely_tokens_.size() < n_likely && std::any_of(drafts_.begin(), drafts_.end(), has_likely)) {
    likely_tokens_.resize(n_likely);
  }
  reserve_for(plan);
}

void StepSampling::start_draft(const SegmentPlan& segment, Draft* draft, size_t* n_stored) {
  draft->is_look = segment.is_look;
  draft->n = static_cast<int>(segment.proposed.size());
  std::copy(segment.proposed.begin(), segment.proposed.end(), draft->tokens.begin());
  draft->states.front() = segment.constraint_state;
  follow(segment, 0, draft);
  if (segment.n_model_drafts == 0) return;
  draft->has_likely_tokens = knows_agreement(segment.sampling);
  if (!needs_draft_distribution(segment.sampling)) return;
  draft->has_stored_rows = true;
  draft->stored_begin = *n_stored;
  *n_stored += static_cast<size_t>(segment.n_model_drafts);
}

// For drafts of any length: a later step's may be longer than all before it, and steps are not to allocate.
void StepSampling::reserve_for(const StepPlan& plan) {
  const size_t n_segments = plan.segments.size();
  size_t n_rows = 0;
  if (result_.segments.size() < n_segments) result_.segments.resize(n_segments);
  for (size_t i = 0; i < n_segments; ++i) {
    const SegmentPlan& segment = plan.segments[i];
    n_rows += segment.tokens.size() + (segment.wants_sample ? kMaxDraftLen : 0) + 1;
    SegmentResult& result = result_.segments[i];
    result.n_accepted = result.n_looked_at = result.n_agreed = 0;
    result.failed = false;
    result.error = ok_status();
    result.tokens.clear();
    result.tokens.reserve(kMaxDraftLen + 1);
    result.target_logprobs.assign(segment.targets.size(), 0.0f);
    result.target_argmax.assign(segment.targets.size(), 0);
    result.top5.clear();
    result.top5.reserve(kScoringTop);
    const size_t n_places = segment.wants_sample ? kMaxDraftLen + 1 : segment.targets.size();
    result.top_logprobs.assign(n_places * static_cast<size_t>(segment.n_top), TopLogprob{});
    result.labels.clear();
    result.labels.reserve(kMaxDraftLen);
    result.confidences.clear();
    result.confidences.reserve(kMaxDraftLen);
    result.evidence.clear();
    if (traces_drafts_) result.evidence.reserve(kMaxDraftLen);
  }
  wanted_rows_.reserve(n_rows);
  wanted_.reserve(n_rows);
  verdicts_.reserve(n_rows);
  looked_at_.reserve(n_rows);
  chances_.reserve(n_rows);
  block_begins_.reserve(n_rows);
}

// A text ends where it is complete: for what would stand behind that there are no rules.
void StepSampling::follow(const SegmentPlan& segment, int idx, Draft* draft) {
  constexpr TokenConstraint::State kDead = TokenConstraint::kDead;
  if (segment.constraint == nullptr) return;
  for (auto i = static_cast<size_t>(idx); i < static_cast<size_t>(draft->n); ++i) {
    TokenConstraint::State& behind = draft->states[i + 1];
    behind = draft->states[i] == kDead ? kDead : segment.constraint->next(draft->states[i], draft->tokens[i]);
    if (segment.constraint->is_complete(behind)) behind = kDead;
  }
}

// Behind a drafted token that ends the text, or that may not stand there, nothing is emitted, whatever is allowed.
TokenHistory StepSampling::history(int segment_idx, int n_drafted) const {
  const auto i = static_cast<size_t>(segment_idx);
  const SegmentPlan& segment = plan_->segments[i];
  const auto n = static_cast<size_t>(n_drafted);
  TokenHistory history{segment.prompt, segment.output, std::span<const TokenId>(drafts_[i].tokens).first(n)};
  BASS_CHECK(segment.constraint == nullptr || segment.constraint_state != TokenConstraint::kDead);
  if (segment.constraint != nullptr && drafts_[i].states[n] != TokenConstraint::kDead) {
    history.allowed = segment.constraint->allowed(drafts_[i].states[n]);
  }
  return history;
}

RoundPosition StepSampling::round_position(int segment_idx, int draft_idx) const {
  const SegmentPlan& segment = plan_->segments[static_cast<size_t>(segment_idx)];
  const auto round_start = static_cast<uint32_t>(segment.start) + static_cast<uint32_t>(segment.tokens.size());
  return {round_start + static_cast<uint32_t>(draft_idx), round_start};
}

template <class Process>
void StepSampling::for_each_row(const TeamContext& context, int n, StepPart part, Process process) {
  for (int i; (i = next_row_.fetch_add(1, std::memory_order_relaxed)) < n;) process(sampler(context), i);
  end_part(profile_, context, part);
  if (context.thread_idx() == 0) next_row_.store(0, std::memory_order_relaxed);
  context.barrier();
}

ProposableTokens StepSampling::proposable_tokens(int segment_idx) const {
  const PromptHead* prompt_head = plan_->segments[static_cast<size_t>(segment_idx)].prompt_head;
  const std::span<const int32_t> vocabulary = shape_.draft_vocabulary;
  return {prompt_head == nullptr ? vocabulary : prompt_head->proposable(), vocabulary.size()};
}

void StepSampling::draft_rows(const TeamContext& context, std::span<const int> segments, const float* logits) {
  for_each_row(context, static_cast<int>(segments.size()), StepPart::kDraft, [&](RowSampler& row_sampler, int i) {
    draft_row(row_sampler, segments[static_cast<size_t>(i)], logits + static_cast<ptrdiff_t>(i) * shape_.draft_row_len);
  });
}

void StepSampling::draft_row(RowSampler& row_sampler, int segment_idx, const float* logits) {
  const auto i = static_cast<size_t>(segment_idx);
  const SamplingParams& params = plan_->segments[i].sampling;
  Draft& draft = drafts_[i];
  const ProposableTokens tokens = proposable_tokens(segment_idx);
  const int n_entries = tokens.is_all() ? shape_.n_draft_tokens : static_cast<int>(tokens.ids.size());
  RowDistribution q =
      row_sampler.build(logits, n_entries, params, history(segment_idx, draft.n), Normalise::kNo, tokens);
  if (q.is_degenerate && plan_->segments[i].constraint != nullptr) return end_draft(segment_idx);
  const float confidence = draft_confidence(logits, q);
  draft.confidences[static_cast<size_t>(draft.n_confidences++)] = confidence;
  const DraftStop& stop = plan_->segments[i].stop;
  draft.survival = stop.survival_behind(draft.survival, confidence);
  draft.has_ended = stop.drops(draft.survival);
  if (draft.has_ended) return;  // before the token is drawn
  draft.has_ended = stop.ends_behind(draft.survival);
  if (draft.has_likely_tokens) keep_likely_tokens(row_sampler, q, logits, segment_idx);
  if (draft.has_stored_rows) q = store_draft_row(row_sampler, q, stored_row(draft, draft.n));
  take_drafted(segment_idx, draft_token(*kernels_, q, params, round_position(segment_idx, draft.n)));
}

void StepSampling::take_drafted(int segment_idx, TokenId token) {
  const SegmentPlan& segment = plan_->segments[static_cast<size_t>(segment_idx)];
  Draft& draft = drafts_[static_cast<size_t>(segment_idx)];
  draft.tokens[static_cast<size_t>(draft.n++)] = token;
  if (segment.constraint == nullptr) return;
  follow(segment, draft.n - 1, &draft);
  draft.has_ended |= draft.states[static_cast<size_t>(draft.n)] == TokenConstraint::kDead;
}

void StepSampling::keep_likely_tokens(RowSampler& row_sampler, const RowDistribution& q, const float* logits,
                                      int segment_idx) {
  Draft& draft = drafts_[static_cast<size_t>(segment_idx)];
  draft.n_likely[static_cast<size_t>(draft.n)] =
      likely_tokens(row_sampler, q, logits, likely_tokens_of(segment_idx, draft.n));
}

void StepSampling::want(const WantedRow& row) {
  wanted_.push_back(row);
  wanted_rows_.push_back(row.row);
}

void StepSampling::want_rows(std::span<const int> first_rows) {
  wanted_.clear();
  wanted_rows_.clear();
  for (size_t i = 0; i < plan_->segments.size(); ++i) {
    const SegmentPlan& segment = plan_->segments[i];
    const auto segment_idx = static_cast<int>(i);
    const auto n_known = static_cast<int>(segment.tokens.size());
    for (int k = 0; k < static_cast<int>(segment.targets.size()); ++k) {
      want({segment_idx, first_rows[i] + k, k, false, false});
    }
    if (segment.wants_top5) want({segment_idx, first_rows[i] + n_known - 1, n_known - 1, false, true});
    if (!segment.wants_sample) continue;
    for (int k = 0; k <= drafts_[i].n_verified(); ++k) {
      want({segment_idx, first_rows[i] + n_known - 1 + k, k, true, false});
    }
  }
  verdicts_.assign(wanted_.size(), RowVerdict{});
  chances_.assign(wanted_.size(), 0.0f);
  find_block_rounds();
  looked_at_.assign(block_begins_.empty() ? 0 : wanted_.size(), LookedAt{});
}

void StepSampling::find_block_rounds() {
  block_begins_.clear();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const bool is_in_order = is_block_row(wanted_[i]) || (traces_drafts_ && wanted_[i].is_decode);
    if (is_in_order && (wanted_[i].idx == 0 || i % kLogitsBlockRows == 0)) block_begins_.push_back(i);
  }
}

void StepSampling::verify_rows(const TeamContext& context, size_t begin, size_t end, const float* logits) {
  if (context.thread_idx() == 0) logits_ = logits;
  context.barrier();
  for_each_row(context, static_cast<int>(end - begin), StepPart::kSample,
               [&](RowSampler& row_sampler, int i) { process_row(row_sampler, begin + static_cast<size_t>(i)); });
  const auto first = std::lower_bound(block_begins_.begin(), block_begins_.end(), begin);
  const auto n_rounds = static_cast<int>(std::lower_bound(first, block_begins_.end(), end) - first);
  if (n_rounds == 0) return;
  for_each_row(context, n_rounds, StepPart::kSample, [&](RowSampler& row_sampler, int i) {
    if (traces_drafts_) {
      trace_rows(row_sampler, first[i], end);
    } else {
      verify_block_rows(row_sampler, first[i], end);
    }
  });
}

void StepSampling::process_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  if (!wanted.is_decode) {
    score_row(row_sampler, wanted_idx, row_logits(wanted_idx));
  } else if (traces_drafts_) {
    return;  // in order: trace_rows
  } else if (is_block_row(wanted)) {
    look_at_block_row(row_sampler, wanted_idx);
  } else {
    verify_wanted_row(row_sampler, wanted_idx);
  }
  const Draft& draft = drafts_[static_cast<size_t>(wanted.segment)];
  if (draft.is_look && draft.n > 0 && wanted.is_decode) look(row_sampler, wanted_idx);
  if (!wanted.wants_top5) tell_top(row_sampler, wanted, row_logits(wanted_idx));
}

// Of rows behind a round's end too, where that is not known yet: nobody asks for these.
void StepSampling::tell_top(RowSampler& row_sampler, const WantedRow& wanted, const float* logits) {
  const auto n_top = static_cast<size_t>(plan_->segments[static_cast<size_t>(wanted.segment)].n_top);
  if (n_top == 0 || (wanted.is_decode && is_behind_end(wanted))) return;
  const int n = shape_.n_main_tokens;
  const cpu::RowStats stats = row_sampler.kernels().row_stats(logits, n);
  auto place = segment_result(wanted.segment).top_logprobs.begin() + static_cast<ptrdiff_t>(wanted.idx * n_top);
  for (const RowSampler::Candidate& token : row_sampler.largest(logits, n, stats.max, static_cast<int>(n_top)))
    *place++ = {token.id, token.z - stats.log_sum_exp};
}

// Behind the verdict, so that it changes nothing of it.
void StepSampling::look(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(wanted.segment)].sampling;
  if (!knows_chances(params)) return;
  DecodeRow row;
  load_q(row_sampler, wanted, &row);
  row.p = row_sampler.build(row_logits(wanted_idx), shape_.n_main_tokens, params, history(wanted.segment, 0),
                            normalise_for_verification(params));
  chances_[wanted_idx] = needs_draft_distribution(params)
                             ? static_cast<float>(acceptance_chance(row_sampler, row.p, drafted_token(wanted, row)))
                             : match_chance(row_sampler, wanted_idx, row.p);
}

StepSampling::DecodeRow StepSampling::load_decode_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(wanted.segment)].sampling;
  DecodeRow row;
  row.is_extra = wanted.idx == drafts_[static_cast<size_t>(wanted.segment)].n_verified();
  load_q(row_sampler, wanted, &row);  // p must be last
  row.p = row_sampler.build(row_logits(wanted_idx), shape_.n_main_tokens, params, history(wanted.segment, wanted.idx),
                            row.is_extra ? Normalise::kNo : normalise_for_verification(params));
  return row;
}

void StepSampling::load_q(RowSampler& row_sampler, const WantedRow& wanted, DecodeRow* row) {
  const Draft& draft = drafts_[static_cast<size_t>(wanted.segment)];
  row->has_q = !row->is_extra && draft.has_stored_rows;
  if (!row->has_q) return;
  row->q = load_draft_row(row_sampler, stored_row(draft, wanted.idx), shape_.n_draft_tokens,
                          proposable_tokens(wanted.segment));
}

// A row's verdict depends on its own numbers only, so rows of one sequence are verified at once; what lies behind the
// first rejected one is thrown away (or not computed, if that is known already).
void StepSampling::verify_wanted_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const auto i = static_cast<size_t>(wanted.segment);
  if (is_behind_end(wanted)) return;
  const SamplingParams& params = plan_->segments[i].sampling;
  const RoundPosition at = round_position(wanted.segment, wanted.idx);
  const float* logits = row_logits(wanted_idx);
  const DecodeRow row = load_decode_row(row_sampler, wanted_idx);
  RowVerdict& verdict = verdicts_[wanted_idx];
  if (row.is_extra) {
    verdict = regular_row(row_sampler, row.p, logits, params, at.position);
    return;
  }
  const DraftedToken draft = drafted_token(wanted, row);
  if (needs_draft_distribution(params)) {
    chances_[wanted_idx] = static_cast<float>(acceptance_chance(row_sampler, row.p, draft));
  }
  verdict = verify_row(row_sampler, row.p, logits, params, at, draft);
  if (knows_agreement(params)) chances_[wanted_idx] = match_chance(row_sampler, wanted_idx, row.p);
  if (!verdict.accepted) end_round_at(wanted);
}

// Where the bounds are wide, what became of the token is as right, on average.
float StepSampling::match_chance(RowSampler& row_sampler, size_t wanted_idx, const RowDistribution& p) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const Draft& draft = drafts_[static_cast<size_t>(wanted.segment)];
  const auto k = static_cast<size_t>(wanted.idx);
  const LikelyToken certain{draft.tokens[k], 1.0f};
  std::span<const LikelyToken> likely(&certain, 1);
  if (draft.has_likely_tokens) {
    likely = {likely_tokens_of(wanted.segment, wanted.idx), static_cast<size_t>(draft.n_likely[k])};
  }
  const std::optional<AgreementBounds> bounds = agreement_chance(row_sampler, p, row_logits(wanted_idx), likely);
  if (bounds && bounds->width() <= kWidestBounds) return static_cast<float>(bounds->estimate());
  return verdicts_[wanted_idx].token == draft.tokens[k] ? 1.0f : 0.0f;
}

void StepSampling::end_round_at(const WantedRow& wanted) {
  if (scripted_acceptance_) return;  // rows behind it may count
  const std::atomic_ref<int> last(last_rows_[static_cast<size_t>(wanted.segment)]);
  for (int known = last.load(std::memory_order_relaxed);
       wanted.idx < known && !last.compare_exchange_weak(known, wanted.idx, std::memory_order_relaxed);) {
  }
}

void StepSampling::score_row(RowSampler& row_sampler, size_t wanted_idx, const float* logits) {
  const WantedRow& wanted = wanted_[wanted_idx];
  SegmentResult& result = result_.segments[static_cast<size_t>(wanted.segment)];
  const cpu::RowStats stats = row_sampler.kernels().row_stats(logits, shape_.n_main_tokens);
  RowVerdict& verdict = verdicts_[wanted_idx];
  verdict.is_degenerate = !std::isfinite(stats.log_sum_exp);
  if (!wanted.wants_top5) {
    const TokenId target =
        plan_->segments[static_cast<size_t>(wanted.segment)].targets[static_cast<size_t>(wanted.idx)];
    result.target_logprobs[static_cast<size_t>(wanted.idx)] = logits[target] - stats.log_sum_exp;
    result.target_argmax[static_cast<size_t>(wanted.idx)] = stats.argmax;
    return;
  }
  for (const RowSampler::Candidate& token : row_sampler.largest(logits, shape_.n_main_tokens, stats.max, kScoringTop))
    result.top5.emplace_back(token.id, token.z - stats.log_sum_exp);
}

}  // namespace bass
