#include "executor/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "kernels/sampling/draft_row.h"

namespace bass {

Result<std::unique_ptr<Executor>> make_cpu_executor(const ModelFile& main, const ModelFile* draft,
                                                    const ExecutorOptions& options) {
  return cpu::CpuExecutor::create(main, draft, options);
}

namespace cpu {
namespace {

constexpr size_t kTop = 5;  // tokens that scoring reports
// Memory for draft distributions, touched only as far as it is used. 680 drafts of a vocabulary of 49152.
constexpr size_t kStoredBytes = size_t{64} << 20;

}  // namespace

CpuExecutor::CpuExecutor(const ExecutorOptions& options) : options_(options), team_(options.n_threads) {}

Result<std::unique_ptr<Executor>> CpuExecutor::create(const ModelFile& main, const ModelFile* draft,
                                                      const ExecutorOptions& options) {
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(options));
  BASS_RETURN_IF_ERROR(executor->load(main, draft));
  return std::unique_ptr<Executor>(std::move(executor));
}

Status CpuExecutor::load(const ModelFile& main, const ModelFile* draft) {
  BASS_ASSIGN_OR_RETURN(kernels_, select_kernels());
  ForwardOptions forward;
  forward.max_rows = options_.max_rows();
  forward.n_planes = options_.activations == ActivationKind::kInt16 ? 2 : 1;
  forward.n_threads = options_.n_threads;
  forward.attention = options_.attention;
  if (options_.profile != nullptr) options_.profile->set_n_threads(options_.n_threads);

  if (draft != nullptr && draft->config.main) forward.tap_layers = draft->config.main->tap_layers;
  KvOptions kv{options_.kv, options_.n_main_pages, options_.context_len, static_cast<int>(forward.tap_layers.size())};
  BASS_ASSIGN_OR_RETURN(main_, CpuModel::load(main, kv, &team_));
  forward.profile = options_.profile;
  main_forward_ = std::make_unique<CpuForward>(main_.get(), kernels_, forward);
  n_main_tokens_ = static_cast<int>(main.vocab.tokens.size());
  int vocab_size = main.config.vocab_size;
  if (draft != nullptr) {
    forward.profile = nullptr;  // a draft model's pass is one part of the step
    BASS_RETURN_IF_ERROR(load_draft(*draft, forward));
    vocab_size = std::max(vocab_size, draft->config.vocab_size);
  }
  logits_ = AlignedBuffer(static_cast<size_t>(kLogitsBlockRows) * static_cast<size_t>(vocab_size) * sizeof(float));
  if (!logits_.ok() || !stored_memory_.ok() || !main_forward_->ok() || (draft_forward_ && !draft_forward_->ok())) {
    return resource_exhausted(
        fmt::format("no memory for the workspace of {} rows; lower --max-batch", forward.max_rows));
  }
  for (int i = 0; i < options_.n_threads; ++i) samplers_.push_back(std::make_unique<RowSampler>(kernels_, vocab_size));
  return ok_status();
}

Status CpuExecutor::load_draft(const ModelFile& draft, const ForwardOptions& forward) {
  const KvOptions kv{options_.kv, options_.n_draft_pages, options_.context_len};
  BASS_ASSIGN_OR_RETURN(draft_, CpuModel::load(draft, kv, &team_, draft.config.main ? main_.get() : nullptr));
  ForwardOptions draft_options = forward;
  draft_options.tap_layers.clear();
  draft_forward_ = std::make_unique<CpuForward>(draft_.get(), kernels_, draft_options);
  n_draft_tokens_ = n_main_tokens_;
  if (!draft.config.main) n_draft_tokens_ = std::min(n_main_tokens_, static_cast<int>(draft.vocab.tokens.size()));
  draft_row_len_ = draft.config.vocab_size;
  if (draft_->has_part_of_head()) {
    draft_row_len_ = std::min(draft_row_len_ + kMaxPromptHeadTokens, main_->config().vocab_size);
    draft_forward_->make_room_for_more();
  }
  n_draft_entries_ = std::min(draft_row_len_, n_draft_tokens_);
  stored_memory_ = AlignedBuffer(kStoredBytes);
  n_stored_rows_ = static_cast<int>(kStoredBytes / (sizeof(uint16_t) * static_cast<size_t>(n_draft_entries_)));
  return ok_status();
}

Ticket CpuExecutor::submit(const StepPlan& plan) {
  prepare(plan);
  team_.run([this](const TeamContext& context) { run_step(context); });
  collect_results();
  return ++last_ticket_;
}

const StepResult& CpuExecutor::wait(Ticket ticket) {
  BASS_CHECK(ticket == last_ticket_);  // the CPU has answered already
  return result_;
}

std::unique_ptr<PromptHead> CpuExecutor::make_prompt_head(std::span<const TokenId> prompt) {
  if (!draft_ || !draft_->has_part_of_head()) return nullptr;
  const std::vector<int32_t> ids = tokens_beside(draft_vocabulary(), prompt, kMaxPromptHeadTokens);
  if (ids.empty()) return nullptr;
  Result<HeadRows> rows = draft_->more_head_rows(ids, &team_);
  if (!rows.ok()) return nullptr;  // it only drafts less well
  return std::make_unique<CpuPromptHead>(draft_vocabulary(), ids, std::move(rows).value());
}

void CpuExecutor::run_step(const TeamContext& context) noexcept {
  copy_pages(context);
  const bool is_timed = options_.profile != nullptr && context.thread_idx() == 0;
  if (is_timed) options_.profile->end_part(StepPart::kPlan);
  draft(context);
  forward_and_verify(context);
}

void CpuExecutor::prepare(const StepPlan& plan) {
  plan_ = &plan;
  result_.draft_times = {};
  const size_t n_segments = plan.segments.size();
  has_draft_prefill_ = draft_reads_taps() && std::any_of(plan.segments.begin(), plan.segments.end(), [](const auto& s) {
                         return !s.wants_sample && !s.draft_tokens.empty();
                       });
  drafts_.assign(n_segments, Draft{});
  last_rows_.assign(n_segments, std::numeric_limits<int>::max());
  block_rounds_.assign(n_segments, BlockVerification{});
  work_before_ = work_so_far();
  size_t n_stored = 0;
  for (size_t i = 0; i < n_segments; ++i) {
    const SegmentPlan& segment = plan.segments[i];
    Draft& draft = drafts_[i];
    draft.n = static_cast<int>(segment.proposed.size());
    std::copy(segment.proposed.begin(), segment.proposed.end(), draft.tokens.begin());
    if (segment.n_model_drafts == 0 || !needs_draft_distribution(segment.sampling)) continue;
    draft.has_stored_rows = true;
    draft.stored_begin = n_stored;
    n_stored += static_cast<size_t>(segment.n_model_drafts);
  }
  BASS_CHECK(n_stored <= static_cast<size_t>(n_stored_rows_));
  reserve_for(plan);
}

// After this a running team allocates nothing; what is thrown here leaves executor and team as they were.
void CpuExecutor::reserve_for(const StepPlan& plan) {
  const size_t n_segments = plan.segments.size();
  size_t n_rows = 0;
  int n_positions = 0;
  if (result_.segments.size() < n_segments) result_.segments.resize(n_segments);
  for (size_t i = 0; i < n_segments; ++i) {
    const SegmentPlan& segment = plan.segments[i];
    n_rows += segment.tokens.size() + static_cast<size_t>(segment.n_drafts()) + 1;
    n_positions = std::max(n_positions, segment.start + static_cast<int>(segment.tokens.size()) + segment.n_drafts());
    SegmentResult& result = result_.segments[i];
    result.n_accepted = 0;
    result.failed = false;
    result.tokens.clear();
    result.target_logprobs.assign(segment.targets.size(), 0.0f);
    result.target_argmax.assign(segment.targets.size(), 0);
    result.top5.clear();
    result.top5.reserve(kTop + 1);
    result.labels.clear();
    result.labels.reserve(kMaxDraftLen);
    result.evidence.clear();
    if (options_.traces_drafts) result.evidence.reserve(kMaxDraftLen);
  }
  for (auto* rows : {&wanted_rows_, &draft_logit_rows_, &draft_logit_segments_}) rows->reserve(n_rows);
  draft_logit_more_.reserve(n_rows);
  wanted_.reserve(n_rows);
  verdicts_.reserve(n_rows);
  looked_at_.reserve(n_rows);
  chances_.reserve(n_rows);
  block_begins_.reserve(n_rows);
  const auto max_chunks = static_cast<size_t>(n_positions / kKvPageLen + 1);
  main_->prepare_positions(n_positions);
  main_forward_->reserve(n_segments, max_chunks);
  if (!draft_) return;
  draft_->prepare_positions(n_positions);
  draft_forward_->reserve(n_segments, max_chunks);
}

void CpuExecutor::copy_pages(const TeamContext& context) {
  if (plan_->main_copies.empty() && plan_->draft_copies.empty()) return;
  const auto copy_share = [&](const CpuModel& model, const std::vector<PageCopy>& copies) {
    const WorkRange mine = context.share(static_cast<int>(copies.size()));
    for (int i = mine.begin; i < mine.end; ++i) model.copy_page(copies[static_cast<size_t>(i)]);
  };
  copy_share(*main_, plan_->main_copies);
  if (draft_) copy_share(*draft_, plan_->draft_copies);
  context.barrier();
}

TokenHistory CpuExecutor::history(int segment_idx, int n_drafted) const {
  const auto i = static_cast<size_t>(segment_idx);
  const SegmentPlan& segment = plan_->segments[i];
  return {segment.prompt, segment.output,
          std::span<const TokenId>(drafts_[i].tokens).first(static_cast<size_t>(n_drafted))};
}

RoundPosition CpuExecutor::round_position(int segment_idx, int draft_idx) const {
  const SegmentPlan& segment = plan_->segments[static_cast<size_t>(segment_idx)];
  const auto round_start = static_cast<uint32_t>(segment.start) + static_cast<uint32_t>(segment.tokens.size());
  return {round_start + static_cast<uint32_t>(draft_idx), round_start};
}

template <class Process>
void CpuExecutor::for_each_row(const TeamContext& context, int n, StepPart part, Process process) {
  for (int i; (i = next_row_.fetch_add(1, std::memory_order_relaxed)) < n;) process(sampler(context), i);
  end_part(options_.profile, context, part);
  if (context.thread_idx() == 0) next_row_.store(0, std::memory_order_relaxed);
  context.barrier();
}

// The first pass brings the draft model up to date and drafts the first token; each further one drafts one more.
void CpuExecutor::draft(const TeamContext& context) {
  if (!draft_) return;
  for (int step_idx = 0;; ++step_idx) {
    if (context.thread_idx() == 0) fill_draft_batch(step_idx);
    end_part(options_.profile, context, StepPart::kPlan);  // the first time the whole team has woken up
    if (draft_forward_->n_rows() == 0) return;
    if (context.thread_idx() == 0) draft_pass_begin_ = std::chrono::steady_clock::now();
    draft_forward_->run(context);
    const std::span<const int> rows = draft_logit_rows_;
    draft_forward_->keep_hidden(context, rows);
    for (size_t begin = 0; begin < rows.size(); begin += kLogitsBlockRows) {
      const auto block = rows.subspan(begin, std::min<size_t>(kLogitsBlockRows, rows.size() - begin));
      const auto more = std::span<const PackedMatrix* const>(draft_logit_more_).subspan(begin, block.size());
      draft_forward_->logits(context, block, more, draft_row_len_, logits_.as<float>());
      for_each_row(context, static_cast<int>(block.size()), StepPart::kDraft, [&](RowSampler& row_sampler, int i) {
        draft_row(row_sampler, draft_logit_segments_[begin + static_cast<size_t>(i)],
                  logits_.as<float>() + static_cast<ptrdiff_t>(i) * draft_row_len_);
      });
    }
    if (rows.empty()) end_part(options_.profile, context, StepPart::kDraft);  // it only caught up
    if (context.thread_idx() == 0) count_draft_pass(step_idx);
  }
}

void CpuExecutor::count_draft_pass(int step_idx) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - draft_pass_begin_;
  DraftTimes& times = result_.draft_times;
  ++(step_idx == 0 ? times.n_first : times.n_later);
  (step_idx == 0 ? times.first_s : times.later_s) += elapsed.count();
}

void CpuExecutor::fill_draft_batch(int step_idx) {
  draft_forward_->begin_batch();
  draft_logit_rows_.clear();
  draft_logit_segments_.clear();
  draft_logit_more_.clear();
  for (size_t i = 0; i < plan_->segments.size(); ++i) {
    const SegmentPlan& segment = plan_->segments[i];
    if (segment.draft_tokens.empty() || (step_idx > 0 && segment.n_model_drafts <= step_idx)) continue;
    if (!segment.wants_sample && draft_reads_taps()) continue;  // its turn comes after the main model's
    Draft& draft = drafts_[i];
    if (step_idx == 0) {
      add_unseen_tokens(segment);
    } else {
      const int n_known = segment.draft_start + static_cast<int>(segment.draft_tokens.size());
      draft_forward_->add_segment(n_known + step_idx - 1, /*is_decode=*/true, segment.draft_pages,
                                  segment.max_text_len);
      draft_forward_->add_token(draft.tokens[static_cast<size_t>(step_idx - 1)], draft.hidden_row);
    }
    if (segment.n_model_drafts == 0) continue;
    draft.hidden_row = static_cast<int>(draft_logit_rows_.size());
    add_draft_logits_row(static_cast<int>(i));
  }
  draft_forward_->end_batch();
}

void CpuExecutor::add_draft_logits_row(int segment_idx) {
  const auto* prompt_head = plan_->segments[static_cast<size_t>(segment_idx)].prompt_head;
  draft_logit_rows_.push_back(draft_forward_->n_rows() - 1);
  draft_logit_segments_.push_back(segment_idx);
  draft_logit_more_.push_back(prompt_head == nullptr ? nullptr
                                                     : &static_cast<const CpuPromptHead*>(prompt_head)->matrix());
}

ProposableTokens CpuExecutor::proposable_tokens(int segment_idx) const {
  const auto* prompt_head =
      static_cast<const CpuPromptHead*>(plan_->segments[static_cast<size_t>(segment_idx)].prompt_head);
  const std::span<const int32_t> vocabulary = draft_vocabulary();
  return {prompt_head == nullptr ? vocabulary : prompt_head->proposable(), vocabulary.size()};
}

void CpuExecutor::add_unseen_tokens(const SegmentPlan& segment) {
  draft_forward_->add_segment(segment.draft_start, segment.wants_sample, segment.draft_pages, segment.max_text_len,
                              segment.pages);
  // Padding ids of the main model may be unknown to the draft; what it drafts after another token is still a draft.
  const bool has_main_ids = draft_->main() != nullptr;
  for (const TokenId token : segment.draft_tokens) {
    draft_forward_->add_token(has_main_ids || token < draft_->config().vocab_size ? token : 0);
  }
}

// The hidden states of a prompt's tokens are there now.
void CpuExecutor::fill_draft_prefill() {
  draft_forward_->begin_batch();
  for (const SegmentPlan& segment : plan_->segments) {
    if (!segment.wants_sample && !segment.draft_tokens.empty()) add_unseen_tokens(segment);
  }
  draft_forward_->end_batch();
}

void CpuExecutor::prefill_draft(const TeamContext& context) {
  if (!has_draft_prefill_) return;
  if (context.thread_idx() == 0) fill_draft_prefill();
  context.barrier();
  draft_forward_->run(context);
  end_part(options_.profile, context, StepPart::kDraft);
}

void CpuExecutor::draft_row(RowSampler& row_sampler, int segment_idx, const float* logits) {
  const auto i = static_cast<size_t>(segment_idx);
  const SamplingParams& params = plan_->segments[i].sampling;
  Draft& draft = drafts_[i];
  const ProposableTokens tokens = proposable_tokens(segment_idx);
  const int n_entries = tokens.is_all() ? n_draft_tokens_ : static_cast<int>(tokens.ids.size());
  RowDistribution q =
      row_sampler.build(logits, n_entries, params, history(segment_idx, draft.n), Normalise::kNo, tokens);
  if (draft.has_stored_rows) q = store_draft_row(row_sampler, q, stored_row(draft, draft.n));
  draft.tokens[static_cast<size_t>(draft.n)] = draft_token(*kernels_, q, params, round_position(segment_idx, draft.n));
  ++draft.n;
}

void CpuExecutor::fill_main_batch() {
  main_forward_->begin_batch();
  wanted_.clear();
  wanted_rows_.clear();
  const auto want = [this](const WantedRow& row) {
    wanted_.push_back(row);
    wanted_rows_.push_back(row.row);
  };
  for (size_t i = 0; i < plan_->segments.size(); ++i) {
    const SegmentPlan& segment = plan_->segments[i];
    const auto segment_idx = static_cast<int>(i);
    const int first_row = main_forward_->n_rows();
    const auto n_known = static_cast<int>(segment.tokens.size());
    main_forward_->add_segment(segment.start, segment.wants_sample, segment.pages, segment.max_text_len);
    for (const TokenId token : segment.tokens) main_forward_->add_token(token);
    for (int k = 0; k < static_cast<int>(segment.targets.size()); ++k)
      want({segment_idx, first_row + k, k, false, false});
    if (segment.wants_top5) want({segment_idx, first_row + n_known - 1, n_known - 1, false, true});
    if (!segment.wants_sample) continue;
    for (int k = 0; k <= drafts_[i].n; ++k) {
      if (k > 0) main_forward_->add_token(drafts_[i].tokens[static_cast<size_t>(k - 1)]);
      want({segment_idx, first_row + n_known - 1 + k, k, true, false});
    }
  }
  main_forward_->end_batch();
  verdicts_.assign(wanted_.size(), RowVerdict{});
  chances_.assign(wanted_.size(), 0.0f);
  find_block_rounds();
  looked_at_.assign(block_begins_.empty() ? 0 : wanted_.size(), LookedAt{});
}

void CpuExecutor::find_block_rounds() {
  block_begins_.clear();
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const bool is_in_order = is_block_row(wanted_[i]) || (options_.traces_drafts && wanted_[i].is_decode);
    if (is_in_order && (wanted_[i].idx == 0 || i % kLogitsBlockRows == 0)) block_begins_.push_back(i);
  }
}

void CpuExecutor::forward_and_verify(const TeamContext& context) {
  if (context.thread_idx() == 0) fill_main_batch();
  end_part(options_.profile, context, StepPart::kPlan);
  main_forward_->run(context);
  prefill_draft(context);
  const std::span<const int> rows = wanted_rows_;
  size_t round = 0;
  for (size_t begin = 0; begin < rows.size(); begin += kLogitsBlockRows) {
    const auto block = rows.subspan(begin, std::min<size_t>(kLogitsBlockRows, rows.size() - begin));
    main_forward_->logits(context, block, logits_.as<float>());
    for_each_row(context, static_cast<int>(block.size()), StepPart::kSample,
                 [&](RowSampler& row_sampler, int i) { process_row(row_sampler, begin + static_cast<size_t>(i)); });
    const size_t first_round = round;
    while (round < block_begins_.size() && block_begins_[round] < begin + block.size()) ++round;
    if (round == first_round) continue;
    const auto n_rounds = static_cast<int>(round - first_round);
    for_each_row(context, n_rounds, StepPart::kSample, [&](RowSampler& row_sampler, int i) {
      const size_t round_begin = block_begins_[first_round + static_cast<size_t>(i)];
      if (options_.traces_drafts) {
        trace_rows(row_sampler, round_begin, begin + block.size());
      } else {
        verify_block_rows(row_sampler, round_begin, begin + block.size());
      }
    });
  }
}

void CpuExecutor::process_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  if (!wanted.is_decode) {
    score_row(row_sampler, wanted_idx, row_logits(wanted_idx));
  } else if (options_.traces_drafts) {
    return;  // in order: trace_rows
  } else if (is_block_row(wanted)) {
    look_at_block_row(row_sampler, wanted_idx);
  } else {
    verify_wanted_row(row_sampler, wanted_idx);
  }
}

CpuExecutor::DecodeRow CpuExecutor::load_decode_row(RowSampler& row_sampler, size_t wanted_idx) {
  const WantedRow& wanted = wanted_[wanted_idx];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(wanted.segment)].sampling;
  DecodeRow row;
  row.is_extra = wanted.idx == drafts_[static_cast<size_t>(wanted.segment)].n;
  load_q(row_sampler, wanted, &row);  // p must be last
  row.p = row_sampler.build(row_logits(wanted_idx), n_main_tokens_, params, history(wanted.segment, wanted.idx),
                            row.is_extra ? Normalise::kNo : normalise_for_verification(params));
  return row;
}

void CpuExecutor::load_q(RowSampler& row_sampler, const WantedRow& wanted, DecodeRow* row) {
  const Draft& draft = drafts_[static_cast<size_t>(wanted.segment)];
  row->has_q = !row->is_extra && draft.has_stored_rows;
  if (!row->has_q) return;
  row->q =
      load_draft_row(row_sampler, stored_row(draft, wanted.idx), n_draft_tokens_, proposable_tokens(wanted.segment));
}

// A row's verdict depends on its own numbers only, so rows of one sequence are verified at once; what lies behind the
// first rejected one is thrown away (or not computed, if that is known already).
void CpuExecutor::verify_wanted_row(RowSampler& row_sampler, size_t wanted_idx) {
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
  if (!verdict.accepted) end_round_at(wanted);
}

void CpuExecutor::end_round_at(const WantedRow& wanted) {
  const std::atomic_ref<int> last(last_rows_[static_cast<size_t>(wanted.segment)]);
  for (int known = last.load(std::memory_order_relaxed);
       wanted.idx < known && !last.compare_exchange_weak(known, wanted.idx, std::memory_order_relaxed);) {
  }
}

void CpuExecutor::score_row(RowSampler& row_sampler, size_t wanted_idx, const float* logits) {
  const WantedRow& wanted = wanted_[wanted_idx];
  SegmentResult& result = result_.segments[static_cast<size_t>(wanted.segment)];
  const RowStats stats = row_sampler.kernels().row_stats(logits, n_main_tokens_);
  RowVerdict& verdict = verdicts_[wanted_idx];
  verdict.is_degenerate = !std::isfinite(stats.log_sum_exp);
  if (!wanted.wants_top5) {
    const TokenId target =
        plan_->segments[static_cast<size_t>(wanted.segment)].targets[static_cast<size_t>(wanted.idx)];
    result.target_logprobs[static_cast<size_t>(wanted.idx)] = logits[target] - stats.log_sum_exp;
    result.target_argmax[static_cast<size_t>(wanted.idx)] = stats.argmax;
    return;
  }
  auto& top = result.top5;  // insertion keeps the best kTop; room is reserved
  for (TokenId id = 0; id < n_main_tokens_; ++id) {
    const float logprob = logits[id] - stats.log_sum_exp;
    if (top.size() == kTop && !(logprob > top.back().second)) continue;
    const auto place = std::find_if(top.begin(), top.end(), [&](const auto& entry) { return logprob > entry.second; });
    top.insert(place, {id, logprob});
    if (top.size() > kTop) top.pop_back();
  }
}

void CpuExecutor::collect_results() {
  collect_work();
  for (size_t i = 0; i < plan_->segments.size(); ++i) {
    result_.segments[i].n_drafted = drafts_[i].n;
    result_.segments[i].n_draft_cached = draft_reads_taps() ? 0 : std::max(drafts_[i].n - 1, 0);
  }
  int last_segment = -1;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const WantedRow& wanted = wanted_[i];
    if (!wanted.is_decode) {
      result_.segments[static_cast<size_t>(wanted.segment)].failed |= verdicts_[i].is_degenerate;
    } else if (wanted.segment != last_segment) {
      last_segment = wanted.segment;
      const auto segment = static_cast<size_t>(wanted.segment);
      if (options_.traces_drafts) {
        collect_decode(wanted.segment, i);
        continue;
      }
      if (is_judged_as_block(plan_->segments[segment].sampling)) {
        const BlockVerification& block = block_rounds_[segment];
        verdicts_[i + static_cast<size_t>(block.round.n_accepted)] = block.stop;
      }
      collect_decode(wanted.segment, i);
      collect_labels(wanted.segment, i);
    }
  }
}

WorkByPart CpuExecutor::work_so_far() const {
  WorkByPart work = main_forward_->work();
  Work& drafting = work[static_cast<size_t>(StepPart::kDraft)];
  if (draft_forward_) drafting = std::accumulate(draft_forward_->work().begin(), draft_forward_->work().end(), Work{});
  return work;
}

// A sampled row of logits is in a cache: reading it is part of the sampling's own limit, but not of the step's.
void CpuExecutor::collect_work() {
  const WorkByPart work = work_so_far();
  result_.work = {};
  for (size_t i = 0; i < kStepParts; ++i) {
    const Work part = work[i] - work_before_[i];
    result_.work.add(part);
    if (options_.profile != nullptr) options_.profile->add_work(static_cast<StepPart>(i), part);
  }
  if (options_.profile == nullptr) return;
  const double logits_bytes = 1.0 * sizeof(float) * static_cast<double>(wanted_.size()) * n_main_tokens_;
  options_.profile->add_work(StepPart::kSample, {.bytes = logits_bytes});
}

void CpuExecutor::collect_decode(int segment_idx, size_t first_wanted) {
  SegmentResult& result = result_.segments[static_cast<size_t>(segment_idx)];
  for (int k = 0;; ++k) {
    const RowVerdict& verdict = verdicts_[first_wanted + static_cast<size_t>(k)];
    TokenOrigin origin = TokenOrigin::kAccepted;
    if (!verdict.accepted) {
      origin = result.n_drafted == 0  ? TokenOrigin::kRegular
               : k < result.n_drafted ? TokenOrigin::kCorrection
                                      : TokenOrigin::kBonus;
    }
    result.failed |= verdict.is_degenerate;
    result.tokens.push_back({verdict.token, verdict.logprob, origin});
    if (!verdict.accepted) return;  // of the extra row too
    ++result.n_accepted;
  }
}

// Under `block` a token behind a rejected one may be accepted in the end; it counts by the chance p_i of that.
void CpuExecutor::collect_labels(int segment_idx, size_t first_wanted) {
  SegmentResult& result = result_.segments[static_cast<size_t>(segment_idx)];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(segment_idx)].sampling;
  if (!needs_draft_distribution(params)) return;
  const bool is_block = is_judged_as_block(params);
  double weight = 1;
  for (int k = 0; k < result.n_drafted && weight > 0; ++k) {
    const size_t row = first_wanted + static_cast<size_t>(k);
    result.labels.push_back({chances_[row], static_cast<float>(weight)});
    if (is_block) {
      const BlockRow& seen = looked_at_[row].row;
      weight = next_joint(weight, seen.p_x, seen.q_x);
    } else {
      weight = k < result.n_accepted ? 1 : 0;
    }
  }
}

}  // namespace cpu
}  // namespace bass
