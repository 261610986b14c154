#include "executor/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/memory.h"
#include "base/populate.h"

namespace bass {

Status check_cpu_activations(ActivationKind kind) {
  if (kind == ActivationKind::kInt8 || kind == ActivationKind::kInt16) return ok_status();
  return invalid_argument(
      "--activations bf16, w8a8 and fp8: a GPU's library multiplies so; on the CPU use int8 or int16");
}

Status check_cpu_kv(KvKind kind) {
  if (!is_float(kind)) return ok_status();
  return invalid_argument("--kv-type f16 and bf16: a GPU's caches; on the CPU use int16, which is more exact, or int8");
}

Result<std::unique_ptr<Executor>> make_cpu_executor(const ModelFile& main, const ModelFile* draft,
                                                    const ExecutorOptions& options) {
  return cpu::CpuExecutor::create(main, draft, options);
}

namespace cpu {
CpuExecutor::CpuExecutor(const ExecutorOptions& options) : options_(options), team_(options.n_threads) {}

Result<std::unique_ptr<Executor>> CpuExecutor::create(const ModelFile& main, const ModelFile* draft,
                                                      const ExecutorOptions& options) {
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(options));
  BASS_RETURN_IF_ERROR(executor->load(main, draft));
  return std::unique_ptr<Executor>(std::move(executor));
}

Status CpuExecutor::load(const ModelFile& main, const ModelFile* draft) {
  BASS_RETURN_IF_ERROR(check_cpu_activations(options_.activations));
  BASS_RETURN_IF_ERROR(check_cpu_kv(options_.kv));
  BASS_ASSIGN_OR_RETURN(kernels_, select_kernels());
  ForwardOptions forward;
  forward.max_rows = options_.max_rows();
  forward.n_planes = options_.activations == ActivationKind::kInt16 ? 2 : 1;
  forward.n_threads = options_.n_threads;
  forward.attention = options_.attention;
  if (options_.profile != nullptr) options_.profile->set_n_threads(options_.n_threads);

  if (draft != nullptr && draft->config.main) forward.tap_layers = draft->config.main->tap_layers;
  KvOptions kv{options_.kv, options_.n_main_pages, options_.context_len, static_cast<int>(forward.tap_layers.size())};
  BASS_ASSIGN_OR_RETURN(std::shared_ptr<const CpuWeights> weights, weights_of(main));
  BASS_ASSIGN_OR_RETURN(main_, CpuModel::create(std::move(weights), kv));
  forward.profile = options_.profile;
  main_forward_ = std::make_unique<CpuForward>(main_.get(), kernels_, forward);
  SamplingShape shape;
  shape.n_main_tokens = static_cast<int>(main.vocab.tokens.size());
  shape.main_vocab_size = main.config.vocab_size;
  if (draft != nullptr) {
    forward.profile = nullptr;  // a draft model's pass is one part of the step
    BASS_RETURN_IF_ERROR(load_draft(*draft, forward, &shape));
  }
  const int row_len = std::max(shape.main_vocab_size, shape.draft_row_len);
  logits_ = AlignedBuffer(static_cast<size_t>(kLogitsBlockRows) * static_cast<size_t>(row_len) * sizeof(float));
  sampling_.emplace(kernels_, options_);
  if (!sampling_->open(shape) || !logits_.ok() || !main_forward_->ok() || (draft_forward_ && !draft_forward_->ok())) {
    return resource_exhausted(
        fmt::format("no memory for the workspace of {} rows; lower --max-batch", forward.max_rows));
  }
  draft_row_len_ = shape.draft_row_len;
  return ok_status();
}

Status CpuExecutor::load_draft(const ModelFile& draft, const ForwardOptions& forward, SamplingShape* shape) {
  const KvOptions kv{options_.kv, options_.n_draft_pages, options_.context_len};
  const CpuModel* main = draft.config.main ? main_.get() : nullptr;
  BASS_ASSIGN_OR_RETURN(std::shared_ptr<const CpuWeights> weights,
                        weights_of(draft, main != nullptr ? main->shared_weights() : nullptr));
  BASS_ASSIGN_OR_RETURN(draft_, CpuModel::create(std::move(weights), kv, main));
  ForwardOptions draft_options = forward;
  draft_options.tap_layers.clear();
  draft_forward_ = std::make_unique<CpuForward>(draft_.get(), kernels_, draft_options);
  if (draft_->weights().has_part_of_head()) draft_forward_->make_room_for_more();
  describe_draft(draft, draft_->weights().has_part_of_head(), shape);
  return ok_status();
}

Result<std::shared_ptr<const CpuWeights>> CpuExecutor::weights_of(const ModelFile& file,
                                                                  std::shared_ptr<const CpuWeights> main) {
  if (const auto* other = dynamic_cast<const CpuExecutor*>(options_.weights_from)) {
    for (const CpuModel* model : {other->main_.get(), other->draft_.get()}) {
      const bool is_same = model != nullptr && &model->weights().file() == &file;
      if (is_same && model->weights().main() == main.get()) return model->shared_weights();
    }
  }
  return CpuWeights::pack(file, &team_, std::move(main));
}

Ticket CpuExecutor::submit(const StepPlan& plan) {
  prepare(plan);
  team_.run([this](const TeamContext& context) { run_step(context); });
  sampling_->collect();
  sampling_->result().attention_s = main_forward_->attention_s() - attention_s_before_;
  collect_work();
  return ++last_ticket_;
}

const StepResult& CpuExecutor::wait(Ticket ticket) {
  BASS_CHECK(ticket == last_ticket_);  // the CPU has answered already
  return sampling_->result();
}

std::unique_ptr<PromptHead> CpuExecutor::make_prompt_head(std::span<const TokenId> prompt) {
  if (!draft_ || !draft_->weights().has_part_of_head()) return nullptr;
  const std::vector<int32_t>& vocabulary = draft_->config().main->vocabulary;
  const std::vector<int32_t> ids = tokens_beside(vocabulary, prompt, kMaxPromptHeadTokens);
  if (ids.empty()) return nullptr;
  Result<HeadRows> rows = draft_->weights().more_head_rows(ids, &team_);
  if (!rows.ok()) return nullptr;  // it only drafts less well
  return std::make_unique<CpuPromptHead>(vocabulary, ids, std::move(rows).value());
}

Status CpuExecutor::populate_kv(int n_pages) {
  const std::span<std::byte> caches[] = {main_->first_pages(n_pages),
                                         draft_ ? draft_->first_pages(n_pages) : std::span<std::byte>()};
  size_t n_absent = 0;
  for (const std::span<std::byte> cache : caches) n_absent += absent_bytes(cache);
  if (n_absent == 0) return ok_status();
  // The system promises more memory than there is and ends programs that take it.
  const auto n_available = static_cast<size_t>(available_memory_bytes());
  if (n_absent > n_available / 2) {
    return resource_exhausted(fmt::format("{} MiB of KV caches are more than half of the {} MiB that are available",
                                          n_absent >> 20, n_available >> 20));
  }
  for (const std::span<std::byte> cache : caches) BASS_RETURN_IF_ERROR(populate(cache, options_.n_threads));
  return ok_status();
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
  sampling_->prepare(plan);
  batches_.start(plan, draft_reads_taps(), draft_ && draft_->main() == nullptr ? draft_->config().vocab_size : 0);
  work_before_ = work_so_far();
  attention_s_before_ = main_forward_->attention_s();
  draft_logit_more_.reserve(plan.segments.size());
  const int n_positions = plan.n_positions();
  int most_positions = 0;  // of what the texts may become: room for all of it, so that no later step allocates
  for (const SegmentPlan& segment : plan.segments) most_positions = std::max(most_positions, segment.max_text_len);
  const auto max_chunks = static_cast<size_t>(std::max(n_positions, most_positions) / kKvPageLen + 1);
  main_->prepare_positions(n_positions);
  main_forward_->reserve(plan.segments.size(), max_chunks);
  if (!draft_) return;
  draft_->prepare_positions(n_positions);
  draft_forward_->reserve(plan.segments.size(), max_chunks);
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

void CpuExecutor::draft(const TeamContext& context) {
  if (!draft_) return;
  for (int step_idx = 0;; ++step_idx) {
    if (context.thread_idx() == 0) fill_draft_batch(step_idx);
    end_part(options_.profile, context, StepPart::kPlan);  // the first time the whole team has woken up
    if (draft_forward_->n_rows() == 0) return;
    if (context.thread_idx() == 0) draft_pass_begin_ = std::chrono::steady_clock::now();
    draft_forward_->run(context);
    const std::span<const int> rows = batches_.logit_rows();
    draft_forward_->keep_hidden(context, rows);
    for (size_t begin = 0; begin < rows.size(); begin += kLogitsBlockRows) {
      const auto block = rows.subspan(begin, std::min<size_t>(kLogitsBlockRows, rows.size() - begin));
      const auto more = std::span<const PackedMatrix* const>(draft_logit_more_).subspan(begin, block.size());
      draft_forward_->logits(context, block, more, draft_row_len_, logits_.as<float>());
      sampling_->draft_rows(context, batches_.logit_segments().subspan(begin, block.size()), logits_.as<float>());
    }
    if (rows.empty()) end_part(options_.profile, context, StepPart::kDraft);  // it only caught up
    if (context.thread_idx() == 0) count_draft_pass(step_idx);
  }
}

void CpuExecutor::count_draft_pass(int step_idx) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - draft_pass_begin_;
  DraftTimes& times = sampling_->result().draft_times;
  ++(step_idx == 0 ? times.n_first : times.n_later);
  (step_idx == 0 ? times.first_s : times.later_s) += elapsed.count();
}

void CpuExecutor::fill_draft_batch(int step_idx) {
  batches_.fill_draft(step_idx, *draft_forward_, drafted_,
                      [this](int segment) { return sampling_->draft(segment).has_ended; });
  draft_logit_more_.clear();
  for (const int segment : batches_.logit_segments()) {
    const auto* head = static_cast<const CpuPromptHead*>(plan_->segments[static_cast<size_t>(segment)].prompt_head);
    draft_logit_more_.push_back(head == nullptr ? nullptr : &head->matrix());
  }
}

void CpuExecutor::prefill_draft(const TeamContext& context) {
  if (!batches_.has_draft_prefill()) return;
  if (context.thread_idx() == 0) batches_.fill_draft_prefill(*draft_forward_);
  context.barrier();
  draft_forward_->run(context);
  end_part(options_.profile, context, StepPart::kDraft);
}

void CpuExecutor::fill_main_batch() {
  batches_.fill_main(
      *main_forward_, [this](int segment) { return sampling_->draft(segment).n_verified(); }, drafted_);
  sampling_->want_rows(batches_.first_rows());
}

void CpuExecutor::forward_and_verify(const TeamContext& context) {
  if (context.thread_idx() == 0) fill_main_batch();
  end_part(options_.profile, context, StepPart::kPlan);
  main_forward_->run(context);
  prefill_draft(context);
  const std::span<const int> rows = sampling_->wanted_rows();
  for (size_t begin = 0; begin < rows.size(); begin += kLogitsBlockRows) {
    const size_t end = std::min(rows.size(), begin + kLogitsBlockRows);
    main_forward_->logits(context, rows.subspan(begin, end - begin), logits_.as<float>());
    sampling_->verify_rows(context, begin, end, logits_.as<float>());
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
  Work& all = sampling_->result().work;
  all = {};
  for (size_t i = 0; i < kStepParts; ++i) {
    const Work part = work[i] - work_before_[i];
    all.add(part);
    if (options_.profile != nullptr) options_.profile->add_work(static_cast<StepPart>(i), part);
  }
  if (options_.profile == nullptr) return;
  const double logits_bytes =
      1.0 * sizeof(float) * static_cast<double>(sampling_->wanted_rows().size()) * main_->config().vocab_size;
  options_.profile->add_work(StepPart::kSample, {.bytes = logits_bytes});
}

}  // namespace cpu
}  // namespace bass
