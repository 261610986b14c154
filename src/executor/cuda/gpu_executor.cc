#include "executor/cuda/gpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "executor/cpu/prompt_head.h"
#include "kernels/cuda/attention/fused_plan.h"
#include "kernels/cuda/emulator/emulated_device.h"

namespace bass::cuda {
namespace {

constexpr char kEmulateGpu[] = "BASS_EMULATE_GPU";

class GpuPromptHead final : public PromptHead {
 public:
  GpuPromptHead(std::span<const int32_t> vocabulary, std::span<const int32_t> ids, GpuModel::HeadRows rows)
      : PromptHead(vocabulary, ids), rows_(std::move(rows)) {}
  [[nodiscard]] const DeviceMatrix& matrix() const { return rows_.matrix; }

 private:
  GpuModel::HeadRows rows_;
};

// Of a step's draft passes, its prompts' and the main model's.
size_t step_bytes(size_t n_rows, size_t n_segments, size_t n_pages, size_t n_drafts) {
  return 3 * GpuForward::staged_bytes(n_rows, n_segments, n_pages) +
         n_drafts * GpuForward::staged_bytes(n_segments, n_segments, n_pages);
}

// Our kernels' products, or the library's of such numbers.
LibraryNumbers library_numbers(ActivationKind activations) {
  switch (activations) {
    case ActivationKind::kBf16:
      return LibraryNumbers::kBf16;
    case ActivationKind::kW8A8:
      return LibraryNumbers::kInt8;
    case ActivationKind::kFp8:
      return LibraryNumbers::kFp8;
    case ActivationKind::kInt8:
    case ActivationKind::kInt16:
      break;
  }
  return LibraryNumbers::kNone;
}

}  // namespace

bool emulates_gpu() { return std::getenv(kEmulateGpu) != nullptr; }

Result<std::unique_ptr<Device>> open_device(int idx) {
  if (!emulates_gpu()) return open_gpu(idx);
  if (idx != 0) return invalid_argument(fmt::format("there is no GPU {}: the only one is emulated, and is 0", idx));
  EmulatedDeviceOptions options;
  const int n_mib = std::atoi(std::getenv(kEmulateGpu));
  if (n_mib > 1) options.total_bytes = static_cast<size_t>(n_mib) << 20;
  return open_emulated_device(options);
}

Result<size_t> gpu_weight_bytes(Device* device, const ModelFile& main, const ModelFile* draft,
                                ActivationKind activations) {
  return GpuModel::weight_bytes(device, main, draft, library_numbers(activations));
}

Result<std::unique_ptr<Executor>> make_gpu_executor(std::unique_ptr<Device> device, const ModelFile& main,
                                                    const ModelFile* draft, const ExecutorOptions& options) {
  auto executor = std::make_unique<GpuExecutor>(std::move(device), options);
  BASS_RETURN_IF_ERROR(executor->load(main, draft));
  return std::unique_ptr<Executor>(std::move(executor));
}

Status GpuExecutor::load(const ModelFile& main, const ModelFile* draft) {
  BASS_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, cpu::select_kernels());
  if (options_.profile != nullptr) options_.profile->set_n_threads(options_.n_threads);
  GpuForwardOptions forward;
  forward.max_rows = options_.max_rows();
  forward.max_segments = options_.max_batch + 1;
  forward.n_planes = options_.activations == ActivationKind::kInt16 ? 2 : 1;
  forward.attention = options_.attention;
  forward.context_len = options_.context_len;
  forward.uses_graphs = std::getenv("BASS_NO_GRAPHS") == nullptr;
  if (draft != nullptr && draft->config.main) forward.tap_layers = draft->config.main->tap_layers;
  const GpuKvOptions kv{options_.kv, options_.n_main_pages, options_.context_len,
                        static_cast<int>(forward.tap_layers.size())};
  BASS_RETURN_IF_ERROR(check_batch());
  BASS_RETURN_IF_ERROR(open_library());
  BASS_ASSIGN_OR_RETURN(main_, GpuModel::load(device_.get(), main, kv, &team_, library()));
  main_forward_ = std::make_unique<GpuForward>(device_.get(), main_.get(), &staging_, forward);
  SamplingShape shape;
  shape.n_main_tokens = static_cast<int>(main.vocab.tokens.size());
  shape.main_vocab_size = main.config.vocab_size;
  if (draft != nullptr) BASS_RETURN_IF_ERROR(load_draft(*draft, forward, &shape));
  sampling_.emplace(kernels, options_);
  return make_workspace(shape);
}

Status GpuExecutor::check_batch() const {
  const int most = PlanFused::max_segments(device_->info().max_shared_bytes) - 1;
  if (options_.attention != AttentionKind::kFused || options_.max_batch <= most) return ok_status();
  return invalid_argument(fmt::format(
      "--max-batch {}: --attention fused is planned in the memory of one block, which holds {} sequences on "
      "{}; lower it, or take --attention split-grouped",
      options_.max_batch, most, device_->info().name));
}

LibraryNumbers GpuExecutor::library() const { return library_numbers(options_.activations); }

Status GpuExecutor::open_library() {
  constexpr int kFp8Capability = 89;
  if (library() == LibraryNumbers::kNone) return ok_status();
  const DeviceInfo& info = device_->info();
  const auto lacks = [&](std::string_view what, int capability) {
    return unavailable(fmt::format("--activations fp8 needs a GPU of compute capability 8.9 or later; {} {} {}.{}",
                                   info.name, what, capability / 10, capability % 10));
  };
  if (library() == LibraryNumbers::kFp8 && info.compute_capability < kFp8Capability) {
    return lacks("has", info.compute_capability);
  }
  if (library() == LibraryNumbers::kFp8 && info.code_capability < kFp8Capability) {
    return lacks("runs code that this build has compiled for", info.code_capability);
  }
  return device_->open_library();
}

Status GpuExecutor::load_draft(const ModelFile& draft, const GpuForwardOptions& forward, SamplingShape* shape) {
  const GpuKvOptions kv{options_.kv, options_.n_draft_pages, options_.context_len};
  BASS_ASSIGN_OR_RETURN(
      draft_, GpuModel::load(device_.get(), draft, kv, &team_, library(), draft.config.main ? main_.get() : nullptr));
  GpuForwardOptions draft_options = forward;
  draft_options.tap_layers.clear();
  draft_forward_ = std::make_unique<GpuForward>(device_.get(), draft_.get(), &staging_, draft_options);
  describe_draft(draft, draft_->has_part_of_head(), shape);
  draft_reads_taps_ = shape->draft_reads_taps;
  return ok_status();
}

Status GpuExecutor::make_workspace(const SamplingShape& shape) {
  main_row_len_ = shape.main_vocab_size;
  draft_row_len_ = shape.draft_row_len;
  const size_t logits_bytes =
      size_t{kLogitsBlockRows} * static_cast<size_t>(std::max(main_row_len_, draft_row_len_)) * sizeof(float);
  logits_ = DeviceBuffer(device_.get(), logits_bytes);
  const bool is_on_device = !options_.traces_drafts;
  bool is_there = sampling_->open(shape, is_on_device) && staging_.reserve(max_staged_bytes());
  size_t n_bytes =
      main_forward_->n_bytes() + (draft_ ? draft_forward_->n_bytes() : 0) + logits_bytes + max_staged_bytes();
  if (is_on_device) {
    device_sampling_.emplace(device_.get(), &*sampling_, shape, options_);
    main_forward_->read_drafted_from(device_sampling_->drafted());
    if (draft_) draft_forward_->read_drafted_from(device_sampling_->drafted());
    n_bytes += device_sampling_->n_bytes();
    is_there = is_there && device_sampling_->ok();
  } else {
    host_logits_ = DeviceBuffer(device_.get(), logits_bytes, /*of_host=*/true);
  }
  if (is_there && logits_.ok() && host_logits_.ok() && main_forward_->ok() && (!draft_ || draft_forward_->ok())) {
    return ok_status();
  }
  return resource_exhausted(fmt::format(
      "the workspace of {} rows needs {} MiB of the GPU's memory beside the models, {} MiB are free now; lower "
      "--max-batch or --kv-memory",
      options_.max_rows(), n_bytes >> 20, device_->free_bytes() >> 20));
}

std::unique_ptr<PromptHead> GpuExecutor::make_prompt_head(std::span<const TokenId> prompt) {
  if (!draft_ || !draft_->has_part_of_head() || !lost_.ok()) return nullptr;
  const std::vector<int32_t>& vocabulary = draft_->config().main->vocabulary;
  const std::vector<int32_t> ids = cpu::tokens_beside(vocabulary, prompt, kMaxPromptHeadTokens);
  if (ids.empty()) return nullptr;
  Result<GpuModel::HeadRows> rows = draft_->more_head_rows(ids, &team_);
  if (!rows.ok()) return nullptr;  // it only drafts less well
  return std::make_unique<GpuPromptHead>(vocabulary, ids, std::move(rows).value());
}

Ticket GpuExecutor::submit(const StepPlan& plan) {
  // An exception may have come between a step's submit and its end: what it queued reads memory that is written now.
  if (!std::exchange(is_waited_for_, false)) (void)device_->synchronize();
  sampling_->prepare(plan);
  step_ = lost_;
  if (step_.ok()) step_ = prepare(plan);
  if (step_.ok()) step_ = queue_step();
  return ++last_ticket_;
}

const StepResult& GpuExecutor::wait(Ticket ticket) {
  BASS_CHECK(ticket == last_ticket_);
  if (std::exchange(is_waited_for_, true)) return sampling_->result();
  // A step without room for what it asks for ends its requests; an error of the device is the end of all.
  if (lost_.ok()) lost_ = step_.ok() ? finish_step() : device_->synchronize();
  if (step_.ok()) step_ = lost_;
  if (step_.ok()) {
    sampling_->collect();
  } else {
    sampling_->fail(step_);
  }
  return sampling_->result();
}

Status GpuExecutor::prepare(const StepPlan& plan) {
  plan_ = &plan;
  batches_.start(plan, draft_reads_taps_, draft_ && draft_->main() == nullptr ? draft_->config().vocab_size : 0);
  more_.reserve(plan.segments.size());
  if (!staging_.begin(staged_bytes(plan))) return resource_exhausted("no memory of the GPU for a step's plan");
  const int n_positions = plan.n_positions();
  main_->prepare_positions(n_positions);
  if (draft_) draft_->prepare_positions(n_positions);
  return ok_status();
}

size_t GpuExecutor::staged_bytes(const StepPlan& plan) const {
  size_t n_rows = 0;
  size_t n_pages = 0;
  int n_drafts = 0;
  for (const SegmentPlan& segment : plan.segments) {
    n_rows += segment.tokens.size() + static_cast<size_t>(segment.n_drafts()) + segment.draft_tokens.size();
    n_pages += segment.pages.size() + segment.draft_pages.size();
    n_drafts = std::max(n_drafts, segment.n_model_drafts);
  }
  const size_t n_segments = plan.segments.size();
  return step_bytes(n_rows, n_segments, n_pages, static_cast<size_t>(n_drafts));
}

// Any step's: the main model's rows and the draft's, which may be of prompts too.
size_t GpuExecutor::max_staged_bytes() const {
  const size_t n_segments = static_cast<size_t>(options_.max_batch) + 1;
  const size_t n_models = draft_ ? 2 : 1;
  const size_t n_pages = n_models * n_segments * static_cast<size_t>(n_chunks_of(options_.context_len));
  return step_bytes(n_models * static_cast<size_t>(options_.max_rows()), n_segments, n_pages,
                    draft_ ? StepSampling::kMaxDraftLen : 0);
}

// All of a step. Where the CPU draws (drafts are traced) it has waited for all but what is behind the last rows; where
// a sequence drafts that follows a grammar, for the drafts.
Status GpuExecutor::queue_step() {
  for (const PageCopy& copy : plan_->main_copies) main_->copy_page(copy);
  for (const PageCopy& copy : plan_->draft_copies) draft_->copy_page(copy);
  const Work before_main = main_forward_->work();
  const Work before_draft = draft_ ? draft_forward_->work() : Work{};
  const GraphCounts graphs_before = graph_counts();
  if (device_sampling_) BASS_RETURN_IF_ERROR(device_sampling_->begin(*plan_));
  end_part(StepPart::kPlan);
  BASS_RETURN_IF_ERROR(draft());
  BASS_RETURN_IF_ERROR(verify());
  Work& work = sampling_->result().work;
  work = main_forward_->work() - before_main;
  if (draft_) work.add(draft_forward_->work() - before_draft);
  sampling_->result().graphs = graph_counts().add(graphs_before, -1);
  return ok_status();
}

Status GpuExecutor::finish_step() {
  BASS_RETURN_IF_ERROR(device_sampling_ ? device_sampling_->finish() : device_->synchronize());
  if (device_sampling_) end_part(StepPart::kSample);  // and all parts in front of it that nothing has waited for
  time_draft_passes();
  return ok_status();
}

GraphCounts GpuExecutor::graph_counts() const {
  GraphCounts counts = main_forward_->graphs();
  return draft_ ? counts.add(draft_forward_->graphs()) : counts;
}

// Where the device draws, all passes are queued at once: each finds on the device what the one in front of it drafted.
// Grammars have to know it before (GpuSampling::draft_rows).
Status GpuExecutor::draft() {
  n_draft_passes_ = 0;
  if (!draft_) return ok_status();
  device_->mark(0);
  for (int step_idx = 0;; ++step_idx) {
    batches_.fill_draft(
        step_idx, *draft_forward_, [this](int segment, int idx) { return drafted(segment, idx); },
        [this](int segment) { return sampling_->draft(segment).has_ended; });
    if (draft_forward_->n_rows() == 0) return ok_status();
    draft_forward_->run();
    const std::span<const int> rows = batches_.logit_rows();
    draft_forward_->keep_hidden(rows);
    for (size_t begin = 0; begin < rows.size(); begin += kLogitsBlockRows) {
      const size_t n = std::min<size_t>(kLogitsBlockRows, rows.size() - begin);
      BASS_RETURN_IF_ERROR(draft_block(rows.subspan(begin, n), batches_.logit_segments().subspan(begin, n)));
    }
    device_->mark(++n_draft_passes_);
  }
}

// After the device has been waited for. A pass's time ends where the next one's begins, so it has in it what the device
// waited for the host.
void GpuExecutor::time_draft_passes() {
  static_assert(StepSampling::kMaxDraftLen < Device::kMaxMarks);
  DraftTimes& times = sampling_->result().draft_times;
  for (int pass = 0; pass < n_draft_passes_; ++pass) {
    ++(pass == 0 ? times.n_first : times.n_later);
    (pass == 0 ? times.first_s : times.later_s) += device_->seconds_between(pass, pass + 1);
  }
}

Status GpuExecutor::draft_block(std::span<const int> rows, std::span<const int> segments) {
  more_.clear();
  for (const int segment : segments) {
    const auto* head = static_cast<const GpuPromptHead*>(plan_->segments[static_cast<size_t>(segment)].prompt_head);
    more_.push_back(head == nullptr ? nullptr : &head->matrix());
  }
  draft_forward_->logits(rows, more_, draft_row_len_, logits_.as<float>());
  if (device_sampling_) return device_sampling_->draft_rows(segments, logits_.as<float>());
  BASS_RETURN_IF_ERROR(fetch_logits(rows.size(), draft_row_len_));
  team_.run(
      [&](const TeamContext& context) noexcept { sampling_->draft_rows(context, segments, host_logits_.as<float>()); });
  return ok_status();
}

Status GpuExecutor::verify() {
  batches_.fill_main(
      *main_forward_, [this](int segment) { return sampling_->draft(segment).n; },
      [this](int segment, int idx) { return drafted(segment, idx); });
  sampling_->want_rows(batches_.first_rows());
  main_forward_->run();
  if (batches_.has_draft_prefill()) {
    batches_.fill_draft_prefill(*draft_forward_);
    draft_forward_->run();
  }
  const std::span<const int> rows = sampling_->wanted_rows();
  if (device_sampling_) BASS_RETURN_IF_ERROR(device_sampling_->begin_rows());
  for (size_t begin = 0; begin < rows.size(); begin += kLogitsBlockRows) {
    const size_t end = std::min(rows.size(), begin + kLogitsBlockRows);
    main_forward_->logits(rows.subspan(begin, end - begin), {}, main_row_len_, logits_.as<float>());
    if (device_sampling_) {
      device_sampling_->verify_rows(begin, end, logits_.as<float>());
      continue;
    }
    BASS_RETURN_IF_ERROR(fetch_logits(end - begin, main_row_len_));
    end_part(StepPart::kHead);  // and all parts of the pass in front of it
    team_.run([&](const TeamContext& context) noexcept {
      sampling_->verify_rows(context, begin, end, host_logits_.as<float>());
    });
  }
  if (device_sampling_) device_sampling_->fetch();
  return ok_status();
}

Status GpuExecutor::fetch_logits(size_t n_rows, int row_len) {
  device_->download(host_logits_.data(), logits_.data(), n_rows * static_cast<size_t>(row_len) * sizeof(float));
  return device_->synchronize();
}

}  // namespace bass::cuda
