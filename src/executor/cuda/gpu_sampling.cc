#include "executor/cuda/gpu_sampling.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/step_rows.h"

namespace bass::cuda {

static_assert(kMaxRoundDrafts == StepSampling::kMaxDraftLen);

GpuSampling::GpuSampling(Device* device, StepSampling* sampling, const SamplingShape& shape,
                         const ExecutorOptions& options)
    : device_(device),
      sampling_(sampling),
      shape_(shape),
      max_segments_(options.max_batch + 1),
      all_rows_count_(options.scripted_acceptance.has_value()),
      tasks_(device),
      draft_rows_(device),
      masks_(device),
      rows_(device),
      vocabulary_(device, shape.draft_vocabulary.size_bytes()) {
  const auto row_len = static_cast<size_t>(std::max(shape.main_vocab_size, shape.draft_row_len));
  const auto n_segments = static_cast<size_t>(max_segments_);
  scratch_ = DeviceBuffer(device, size_t{3} * kLogitsBlockRows * row_len * sizeof(float));
  keys_ = DeviceBuffer(device, size_t{kLogitsBlockRows} * row_len * sizeof(uint64_t));
  stored_ = DeviceBuffer(device, static_cast<size_t>(sampling->max_kept_distributions()) *
                                     static_cast<size_t>(shape.n_draft_entries()) * sizeof(uint16_t));
  drafted_ = DeviceBuffer(device, n_segments * kMaxRoundDrafts * sizeof(TokenId));
  host_drafted_ = DeviceBuffer(device, drafted_.n_bytes(), /*of_host=*/true);
  last_rows_ = DeviceBuffer(device, n_segments * sizeof(int32_t));
  judged_ = DeviceBuffer(device, n_segments * sizeof(JudgedRound));
  host_judged_ = DeviceBuffer(device, judged_.n_bytes(), /*of_host=*/true);
  outcomes_ = DeviceBuffer(device, static_cast<size_t>(options.max_rows()) * sizeof(RowOutcome));
  host_outcomes_ = DeviceBuffer(device, outcomes_.n_bytes(), /*of_host=*/true);
  has_staging_ = reserve_staging(options) && reserve_tops(n_segments * kScoringTop);
  if (!ok()) return;
  device->fill(judged_.data(), 0, judged_.n_bytes());      // downloaded as a whole, whichever rounds `block` has judged
  device->fill(outcomes_.data(), 0, outcomes_.n_bytes());  // the gaps in a struct are downloaded too
  device->upload(vocabulary_.data(), shape.draft_vocabulary.data(), shape.draft_vocabulary.size_bytes());
}

bool GpuSampling::ok() const {
  return vocabulary_.ok() && scratch_.ok() && keys_.ok() && stored_.ok() && drafted_.ok() && host_drafted_.ok() &&
         last_rows_.ok() && judged_.ok() && host_judged_.ok() && outcomes_.ok() && host_outcomes_.ok() && has_staging_;
}

size_t GpuSampling::n_bytes() const {
  return vocabulary_.n_bytes() + scratch_.n_bytes() + keys_.n_bytes() + stored_.n_bytes() + drafted_.n_bytes() +
         last_rows_.n_bytes() + judged_.n_bytes() + outcomes_.n_bytes() + tasks_.n_bytes() + draft_rows_.n_bytes() +
         rows_.n_bytes() + tops_.n_bytes();
}

// For any step whose requests bias and ban few tokens: lists of those may be as long as the vocabulary.
bool GpuSampling::reserve_staging(const ExecutorOptions& options) {
  constexpr size_t kListedTokens = 512;  // of a request
  const auto n_segments = static_cast<size_t>(max_segments_);
  const auto n_rows = static_cast<size_t>(options.max_rows());
  const size_t n_rounds = n_segments + n_rows / kLogitsBlockRows + 1;  // blocks of logits cut some of them
  row_tasks_.reserve(n_rows);
  round_tasks_.reserve(n_rounds);
  round_rows_.reserve(n_rounds);
  const size_t n_proposable =
      shape_.draft_vocabulary.empty() ? 0 : shape_.draft_vocabulary.size() + kMaxPromptHeadTokens;
  const size_t task_bytes =
      sizeof(SequenceTask) + kListedTokens * (sizeof(LogitBias) + sizeof(TokenId)) +
      sizeof(TokenId) * (static_cast<size_t>(options.context_len) + n_proposable + 2 * kMaxRoundDrafts) +
      8 * Staging::kAlignment;
  return tasks_.reserve(n_segments * task_bytes) &&
         draft_rows_.reserve(n_segments * kMaxRoundDrafts * Staging::kAlignment) &&
         rows_.reserve(row_bytes(n_rows, n_rounds));
}

Status GpuSampling::begin(const StepPlan& plan) {
  plan_ = &plan;
  BASS_CHECK(static_cast<int>(plan.segments.size()) <= max_segments_);
  size_t n_bytes = Staging::aligned(plan.segments.size() * sizeof(SequenceTask));
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const SegmentPlan& segment = plan.segments[i];
    const SamplingParams& params = segment.sampling;
    n_bytes += Staging::aligned(static_cast<size_t>(params.n_bias) * sizeof(LogitBias)) +
               Staging::aligned(static_cast<size_t>(params.n_banned) * sizeof(TokenId)) +
               Staging::aligned(segment.prompt.size_bytes()) + Staging::aligned(segment.output.size_bytes()) +
               Staging::aligned(sampling_->proposable_tokens(static_cast<int>(i)).ids.size_bytes()) +
               Staging::aligned(segment.draft_tokens.size() * sizeof(int32_t) + kMaxRoundDrafts * sizeof(int32_t));
  }
  if (!tasks_.begin(n_bytes) || !draft_rows_.begin(draft_rows_bytes()) || !masks_.begin(masks_bytes())) {
    return resource_exhausted("no memory of the GPU for a step's sampling");
  }
  mask_places_.clear();
  n_model_drafted_.assign(plan.segments.size(), 0);
  sequence_tasks_.clear();
  auto* drafted = host_drafted_.as<TokenId>();
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const std::span<const TokenId> proposed = plan.segments[i].proposed;
    std::copy(proposed.begin(), proposed.end(), drafted + i * kMaxRoundDrafts);
    sequence_tasks_.push_back(task_of(static_cast<int>(i)));
  }
  device_->upload(drafted_.data(), drafted, plan.segments.size() * kMaxRoundDrafts * sizeof(TokenId));
  device_tasks_ = tasks_.append(std::span<const SequenceTask>(sequence_tasks_));
  tasks_.upload();
  return ok_status();
}

std::span<const TokenId> GpuSampling::staged(std::span<const TokenId> tokens) {
  if (tokens.empty()) return {};
  return {tasks_.append(tokens), tokens.size()};
}

SequenceTask GpuSampling::task_of(int segment_idx) {
  const auto i = static_cast<size_t>(segment_idx);
  const SegmentPlan& segment = plan_->segments[i];
  const StepSampling::Draft& draft = sampling_->draft(segment_idx);
  SequenceTask task;
  task.params = segment.sampling;
  task.params.bias = tasks_.append(std::span(task.params.bias, static_cast<size_t>(task.params.n_bias)));
  task.params.banned = tasks_.append(std::span(task.params.banned, static_cast<size_t>(task.params.n_banned)));
  if (task.params.has_penalties()) {
    task.prompt = staged(segment.prompt);
    task.output = staged(segment.output);
  }
  task.round_start = sampling_->round_position(segment_idx, 0).round_start;
  task.drafted = drafted_.as<TokenId>() + i * kMaxRoundDrafts;
  if (draft.has_stored_rows) {
    task.stored_stride = shape_.n_draft_entries();
    task.stored = stored_.as<uint16_t>() + static_cast<int64_t>(draft.stored_begin) * task.stored_stride;
  }
  task.n_draft_tokens = shape_.n_draft_tokens;
  const ProposableTokens tokens = sampling_->proposable_tokens(segment_idx);
  const bool is_vocabulary = tokens.ids.data() == shape_.draft_vocabulary.data();
  task.tokens.n_vocabulary = tokens.n_vocabulary;
  if (tokens.is_all() || segment.n_model_drafts == 0) return task;
  task.tokens.ids =
      is_vocabulary ? std::span<const TokenId>(vocabulary_.as<TokenId>(), tokens.ids.size()) : staged(tokens.ids);
  return task;
}

LogitsBlock GpuSampling::logits_block(const float* logits, int64_t stride, size_t n_rows) const {
  return {logits,
          stride,
          static_cast<int32_t>(n_rows),
          shape_.n_main_tokens,
          scratch_.as<float>(),
          keys_.as<uint64_t>(),
          std::max(shape_.main_vocab_size, shape_.draft_row_len)};
}

// Each row of a segment's round has one. Prompts' chunks have none.
size_t GpuSampling::masks_bytes() const {
  const size_t mask_bytes = Staging::aligned(TokenMask::n_words(shape_.n_main_tokens) * sizeof(uint32_t));
  size_t n_bytes = 0;
  for (const SegmentPlan& segment : plan_->segments) {
    if (segment.constraint == nullptr || !segment.wants_sample) continue;
    n_bytes += (1 + std::max(segment.proposed.size(), static_cast<size_t>(segment.n_model_drafts))) * mask_bytes;
  }
  return n_bytes;
}

// TokenHistory::allowed, in device memory when the masks have been uploaded. Places of equal state have one mask.
const uint32_t* GpuSampling::allowed(int segment_idx, int n_drafted) {
  const uint32_t* words = sampling_->history(segment_idx, n_drafted).allowed;
  if (words == nullptr) return nullptr;
  const uint32_t*& place = mask_places_[words];
  if (place == nullptr) place = masks_.append(std::span(words, TokenMask::n_words(shape_.n_main_tokens)));
  return place;
}

// All rows of a pass draft the same place of their rounds.
Status GpuSampling::draft_rows(std::span<const int> segments, const float* logits) {
  const int idx = n_model_drafted_[static_cast<size_t>(segments.front())];
  bool is_waited_for = false;
  draft_tasks_.clear();
  for (const int segment : segments) {
    draft_tasks_.push_back({segment, allowed(segment, idx)});
    is_waited_for |= plan_->segments[static_cast<size_t>(segment)].constraint != nullptr;
  }
  const DraftRows kernel{logits_block(logits, shape_.draft_row_len, segments.size()), device_tasks_,
                         draft_rows_.append(std::span<const DraftTask>(draft_tasks_)), idx};
  draft_rows_.upload();
  masks_.upload();
  launch(*device_, kernel, kernel.shape());
  if (is_waited_for) {
    fetch_drafted();
    BASS_RETURN_IF_ERROR(device_->synchronize());
  }
  for (const int segment : segments) take_draft(segment, idx);
  return ok_status();
}

void GpuSampling::fetch_drafted() {
  const size_t n_bytes = plan_->segments.size() * kMaxRoundDrafts * sizeof(TokenId);
  device_->download(host_drafted_.data(), drafted_.data(), n_bytes);
}

void GpuSampling::take_draft(int segment_idx, int idx) {
  const auto i = static_cast<size_t>(segment_idx);
  BASS_CHECK(n_model_drafted_[i] == idx);
  TokenId token = drafted_later(segment_idx * kMaxRoundDrafts + idx);
  if (plan_->segments[i].constraint != nullptr) {
    token = host_drafted_.as<TokenId>()[i * kMaxRoundDrafts + static_cast<size_t>(idx)];
    if (token == kNoDraft) return sampling_->end_draft(segment_idx);
  }
  ++n_model_drafted_[i];
  sampling_->take_drafted(segment_idx, token);
}

// Each pass's segments, in blocks of logits.
size_t GpuSampling::draft_rows_bytes() const {
  size_t n_bytes = 0;
  for (const SegmentPlan& segment : plan_->segments) {
    n_bytes += static_cast<size_t>(segment.n_model_drafts) * Staging::kAlignment;
  }
  return n_bytes;
}

void GpuSampling::settle_drafts() {
  const auto* drafted = host_drafted_.as<TokenId>();
  for (size_t i = 0; i < n_model_drafted_.size(); ++i) {
    for (int k = 0; k < n_model_drafted_[i]; ++k) {
      sampling_->settle_drafted(static_cast<int>(i), k, drafted[i * kMaxRoundDrafts + static_cast<size_t>(k)]);
    }
  }
}

}  // namespace bass::cuda
