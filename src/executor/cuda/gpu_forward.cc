#include "executor/cuda/gpu_forward.h"

#include <algorithm>

#include "base/check.h"
#include "executor/executor.h"

namespace bass::cuda {

GpuAttentionKind gpu_attention_kind(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kPad:
      return GpuAttentionKind::kPad;
    case AttentionKind::kSplit:
      return GpuAttentionKind::kSplit;
    case AttentionKind::kSplitGrouped:
      return GpuAttentionKind::kSplitGrouped;
    case AttentionKind::kFused:
      break;
  }
  return GpuAttentionKind::kFused;
}

GpuForward::GpuForward(Device* device, GpuModel* model, Staging* staging, const GpuForwardOptions& options)
    : device_(device), model_(model), staging_(staging), options_(options), graphs_(device) {
  const ModelConfig& config = model->config();
  open_batch();
  const int64_t max_rows = options_.max_rows;
  residual_ = floats(max_rows * config.d_model);
  qkv_ = floats(max_rows * (config.q_dim() + 2 * config.kv_dim()));
  attended_ = floats(max_rows * config.q_dim());
  const int64_t feed_forward_rows = max_rows * std::max(config.n_experts_used, 1);
  gate_up_ = floats(feed_forward_rows * config.d_ff * (config.is_gated ? 2 : 1));
  if (config.has_post_norms) added_ = floats(max_rows * config.d_model);
  make_library_sums();
  normed_ = make_stage(options_.max_rows, config.d_model);
  attended_stage_ = make_stage(options_.max_rows, config.q_dim(), attended_.as<float>());
  gated_ = make_stage(static_cast<int>(feed_forward_rows), config.d_ff);
  head_input_ = make_stage(kLogitsBlockRows, config.d_model);
  if (config.main) make_draft_input();
  if (config.n_experts > 0) make_experts();
  make_attentions();
}

// What a pass launches must depend on its sizes alone: not so with the paper's layouts, where it follows the lengths.
void GpuForward::open_batch() {
  options_.uses_graphs &=
      options_.attention == AttentionKind::kFused || options_.attention == AttentionKind::kSplitGrouped;
  const GpuModel* main = model_->main();
  const int n_pages = n_chunks_of(options_.context_len);
  GpuBatchOptions batch;
  batch.max_rows = options_.max_rows;
  batch.max_segments = options_.max_segments;
  batch.max_pages = main != nullptr ? 2 * n_pages : n_pages;
  batch.rounds_up = options_.uses_graphs;
  batch.plans_by_len = options_.attention == AttentionKind::kFused;
  batch.spare_page = model_->spare_page();
  if (main != nullptr) batch.main_spare_page = main->spare_page();
  batch_.emplace(device_, staging_, batch);
  options_.max_rows = batch_->row_capacity();
  options_.max_segments = batch_->segment_capacity();
}

void GpuForward::make_attentions() {
  for (int i = 0; i < model_->config().n_layers; ++i) {
    const int window = model_->config().layer(i).window;
    if (std::any_of(attentions_.begin(), attentions_.end(), [&](const auto& a) { return a.window == window; }))
      continue;
    GpuAttentionOptions attention;
    attention.kv = model_->kv();
    attention.kind = gpu_attention_kind(options_.attention);
    attention.max_rows = options_.max_rows;
    attention.max_segments = options_.max_segments;
    attention.max_decode_rows = 1 + SpeculationStats::kMaxDraftLen;
    attention.max_kv_len = options_.context_len;
    attentions_.push_back({window, std::make_unique<GpuAttention>(device_, attention)});
  }
}

void GpuForward::make_draft_input() {
  const ModelConfig& config = model_->config();
  const GpuModel::Input& weights = model_->draft_input();
  if (weights.input.n_out > 0) joined_ = make_stage(options_.max_rows, weights.input.n_in);
  if (weights.tap.n_out == 0) return;
  taps_ = make_stage(options_.max_rows, weights.tap.n_in);
  features_ = floats(int64_t{options_.max_rows} * config.d_model);
  hidden_ = floats(int64_t{options_.max_segments} * config.d_model);
}

GpuStage GpuForward::make_stage(int n_rows, int n_cols, float* shared_f32) {
  const auto n = static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols);
  const LibraryNumbers library = model_->library();
  const bool has_tokens = has_byte_numbers(library);
  // A product may begin at any row.
  const auto n_rows_multiplied = static_cast<size_t>(n_rows + (has_tokens ? kLibraryAlignment : 0));
  const size_t library_bytes =
      library != LibraryNumbers::kNone
          ? Staging::aligned(n_rows_multiplied * static_cast<size_t>(n_cols) * library_number_bytes(library))
          : 0;
  const size_t token_scale_bytes = has_tokens ? Staging::aligned(static_cast<size_t>(n_rows) * sizeof(float)) : 0;
  const bool quantised = model_->has_quantised_weights() && n_cols % kGroupLen == 0;
  const bool has_f32 = model_->has_float_weights();
  const size_t f32_bytes = has_f32 && shared_f32 == nullptr ? n * sizeof(float) : 0;
  const size_t q_bytes = quantised ? n * static_cast<size_t>(options_.n_planes) : 0;
  const size_t n_groups = quantised ? n / kGroupLen : 0;
  GpuStage stage;
  stage.memory = DeviceBuffer(device_, library_bytes + token_scale_bytes + f32_bytes + q_bytes + n_groups * 12);
  stage.rows.n_cols = n_cols;
  if (!stage.memory.ok()) return stage;
  std::byte* place = stage.memory.data();
  if (has_tokens) {
    device_->fill(place, 0, library_bytes);
    stage.rows.token = {library, reinterpret_cast<uint8_t*>(place), reinterpret_cast<float*>(place + library_bytes),
                        library_sums_.data()};
  } else if (library_bytes > 0) {
    stage.rows.bf16 = reinterpret_cast<uint16_t*>(place);
  }
  place += library_bytes + token_scale_bytes;
  if (has_f32) stage.rows.f32 = shared_f32 != nullptr ? shared_f32 : reinterpret_cast<float*>(place);
  if (!quantised) return stage;
  place += f32_bytes;
  stage.rows.n_planes = options_.n_planes;
  stage.rows.plane_stride = static_cast<int64_t>(n);
  stage.rows.q = reinterpret_cast<int8_t*>(place);
  stage.rows.scale = reinterpret_cast<float*>(place + q_bytes);
  stage.rows.sums = reinterpret_cast<int32_t*>(stage.rows.scale + n_groups);
  return stage;
}

// Of any product: of all rows with the layers' matrices, or of a block of them with the head's and a prompt's.
void GpuForward::make_library_sums() {
  if (!has_byte_numbers(model_->library())) return;
  const ModelConfig& config = model_->config();
  const auto n_sums = [&](int n_rows, int n_out) {
    return static_cast<size_t>(n_rows + kLibraryAlignment) *
           static_cast<size_t>(library_padded(n_out, model_->library()));
  };
  const int widest = std::max({config.d_model, config.q_dim() + 2 * config.kv_dim(), 2 * config.d_ff});
  const int head = std::max(model_->head().n_out, kMaxPromptHeadTokens);
  library_sums_ = DeviceBuffer(
      device_, std::max(n_sums(options_.max_rows, widest), n_sums(kLogitsBlockRows, head)) * sizeof(int32_t));
}

std::vector<const DeviceBuffer*> GpuForward::buffers() const {
  std::vector<const DeviceBuffer*> all{&batch_->memory(), &residual_, &qkv_,    &attended_,    &gate_up_,
                                       &added_,           &features_, &hidden_, &library_sums_};
  const GpuExpertRows& e = experts_;
  all.insert(all.end(), {&e.probabilities, &e.chosen, &e.weights, &e.slots, &e.rows, &e.begins, &e.results});
  for (const GpuStage* stage : {&normed_, &attended_stage_, &gated_, &head_input_, &taps_, &joined_, &e.input}) {
    all.push_back(&stage->memory);
  }
  return all;
}

bool GpuForward::ok() const {
  const auto own = buffers();
  return std::all_of(own.begin(), own.end(), [](const DeviceBuffer* buffer) { return buffer->ok(); }) &&
         std::all_of(attentions_.begin(), attentions_.end(), [](const auto& a) { return a.attention->ok(); });
}

size_t GpuForward::n_bytes() const {
  size_t n = 0;
  for (const DeviceBuffer* buffer : buffers()) n += buffer->n_bytes();
  for (const Attention& attention : attentions_) n += attention.attention->n_bytes();
  return n;
}

size_t GpuForward::staged_bytes(size_t n_rows, size_t n_segments, size_t n_pages) {
  return GpuBatch::staged_bytes(n_rows, n_segments, n_pages) + 2 * n_rows * sizeof(int32_t) +
         (n_rows / kLogitsBlockRows + 2) * 2 * Staging::kAlignment;
}

void GpuForward::end_batch() {
  batch_->end();
  if (n_rows() > 0) count_work();
}

// Weights and cached tokens are read once a batch.
void GpuForward::count_work() {
  const ModelConfig& config = model_->config();
  const OperationClass cached = is_float(model_->kv().numbers) ? OperationClass::kF32Fma : OperationClass::kInt16Dot;
  work_.bytes += static_cast<double>(model_->step_weight_bytes());
  const double products = model_->row_operations() * n_rows();
  work_[model_->has_quantised_weights() ? OperationClass::kInt8Dot : OperationClass::kF32Fma] +=
      products * (model_->has_quantised_weights() ? options_.n_planes : 1);
  for (const DeviceSegment& segment : batch_->segments()) {
    const double n_seen = segment.start + segment.n_rows;
    work_.bytes += static_cast<double>(model_->kv().layer_bytes) * config.n_layers / kPageLen * n_seen;
    work_[cached] += 4.0 * config.q_dim() * config.n_layers * n_seen * segment.n_rows;
  }
}

GpuAttention& GpuForward::attention_of(int window) {
  for (Attention& attention : attentions_) {
    if (attention.window == window) return *attention.attention;
  }
  BASS_CHECK(false);
  return *attentions_.front().attention;
}

void GpuForward::run() {
  const DeviceBatch& batch = batch_->on_device();
  graphs_.run(batch, batch_->is_rounded(), [&] {
    for (Attention& attention : attentions_) attention.attention->plan(batch, batch_->all_segments(), attention.window);
    GpuOps ops(*this);
    decoder_forward(model_->config(), ops);
  });
}

void GpuForward::logits(std::span<const int> rows, std::span<const DeviceMatrix* const> more, int row_len, float* out) {
  const ModelConfig& config = model_->config();
  const auto n = static_cast<int32_t>(rows.size());
  NormRows norm;
  norm.x = residual_.as<float>();
  norm.x_stride = config.d_model;
  norm.ids = staging_->append(std::span<const int32_t>(rows));
  norm.n_rows = n;
  norm.n = config.d_model;
  norm.norm = model_->output_norm();
  norm.eps = config.norm_eps;
  norm.out = head_input_.rows;
  staging_->upload();
  launch(*device_, norm, norm.shape());
  launch_product(*device_, {model_->head(), head_input_.rows, out, row_len, n, 0});
  if (config.logit_cap > 0) {
    const CapRows cap{out, row_len, n, config.vocab_size, config.logit_cap};
    launch(*device_, cap, cap.shape());
  }
  for (size_t i = 0; i < more.size();) {  // neighbouring rows that have the same matrix
    size_t end = i;
    while (end < more.size() && more[end] == more[i]) ++end;
    if (more[i] != nullptr) {
      float* behind = out + static_cast<int64_t>(i) * row_len + config.vocab_size;
      launch_product(*device_, {*more[i], head_input_.rows.from_row(static_cast<int>(i)), behind, row_len,
                                static_cast<int32_t>(end - i), 0});
    }
    i = end;
  }
}

void GpuForward::keep_hidden(std::span<const int> rows) {
  if (hidden_.n_bytes() == 0 || rows.empty()) return;
  const int32_t* ids = staging_->append(std::span<const int32_t>(rows));
  staging_->upload();
  const GatherRows gather{residual_.as<float>(), ids, hidden_.as<float>(), static_cast<int32_t>(rows.size()),
                          model_->config().d_model};
  launch(*device_, gather, gather.shape());
}

}  // namespace bass::cuda
