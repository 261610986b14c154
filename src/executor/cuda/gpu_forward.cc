#include "executor/cuda/gpu_forward.h"

#include <algorithm>

#include "base/check.h"
#include "executor/executor.h"
#include "kernels/cuda/rows/quantise_tokens.h"

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
  work_.bytes += static_cast<double>(model_->step_weight_bytes());
  const double products = model_->row_operations() * n_rows();
  work_[model_->has_quantised_weights() ? OperationClass::kInt8Dot : OperationClass::kF32Fma] +=
      products * (model_->has_quantised_weights() ? options_.n_planes : 1);
  for (const DeviceSegment& segment : batch_->segments()) {
    const double n_seen = segment.start + segment.n_rows;
    work_.bytes += static_cast<double>(model_->kv().layer_bytes) * config.n_layers / kPageLen * n_seen;
    work_[OperationClass::kInt16Dot] += 4.0 * config.q_dim() * config.n_layers * n_seen * segment.n_rows;
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

// ---------------------------------------------------------------------------------------------------------------------

void GpuOps::multiply(const DeviceMatrix& weight, const DeviceActivations& input, float* out, int64_t stride,
                      bool accumulates) {
  launch_product(device_, {weight, input, out, stride, n_rows(), accumulates ? 1 : 0});
}

void GpuOps::embed() {
  if (config_.main) return embed_draft();
  EmbedRows embed;
  embed.embedding = model_.embedding();
  embed.positions = model_.positions();
  embed.rows = batch().rows;
  embed.drafted = f_.drafted_;
  embed.x = f_.residual_.as<float>();
  embed.n_rows = n_rows();
  embed.scale = config_.embedding_scale;
  launch(device_, embed, embed.shape());
}

// DraftInputRefs
void GpuOps::embed_draft() {
  const GpuModel::Input& weights = model_.draft_input();
  const ModelConfig& main = model_.main()->config();
  const bool reads_taps = weights.tap.n_out > 0;
  float* x = f_.residual_.as<float>();
  if (reads_taps) {
    FeatureRows features;
    features.batch = batch();
    features.taps = model_.main()->taps();
    features.d_main = main.d_model;
    features.tap_norm = weights.tap_norm;
    features.eps = config_.norm_eps;
    features.out = f_.taps_.rows;
    launch(device_, features, features.shape());
    multiply(weights.tap, f_.taps_.rows, f_.features_.as<float>(), config_.d_model);
  }
  if (weights.input.n_out == 0) {
    const EmbedRows embed{.embedding = model_.embedding(),
                          .rows = batch().rows,
                          .drafted = f_.drafted_,
                          .x = x,
                          .n_rows = n_rows(),
                          .scale = main.embedding_scale};
    launch(device_, embed, embed.shape());
    return;
  }
  JoinRows join;
  join.embedding = model_.embedding();
  join.rows = batch().rows;
  join.drafted = f_.drafted_;
  join.n_rows = n_rows();
  join.scale = main.embedding_scale;
  join.embed_norm = weights.embed_norm;
  join.feature_norm = reads_taps ? weights.feature_norm : nullptr;
  join.d_model = config_.d_model;
  join.features = f_.features_.as<float>();
  join.hidden = f_.hidden_.as<float>();
  join.eps = config_.norm_eps;
  join.out = f_.joined_.rows;
  launch(device_, join, join.shape());
  multiply(weights.input, f_.joined_.rows, x, config_.d_model);
}

void GpuOps::norm(int layer, NormKind kind) {
  const GpuLayer& weights = model_.layer(layer);
  NormRows norm;
  norm.x = f_.residual_.as<float>();
  norm.x_stride = config_.d_model;
  norm.n_rows = n_rows();
  norm.n = config_.d_model;
  norm.norm = kind == NormKind::kAttention ? weights.attention_norm : weights.feed_forward_norm;
  norm.eps = config_.norm_eps;
  norm.out = f_.normed_.rows;
  launch(device_, norm, norm.shape());
}

void GpuOps::project_qkv(int layer) {
  const GpuLayer& weights = model_.layer(layer);
  const int stride = config_.q_dim() + 2 * config_.kv_dim();
  float* out = f_.qkv_.as<float>();
  for (const DeviceMatrix& matrix : weights.qkv) {
    multiply(matrix, f_.normed_.rows, out, stride);
    out += matrix.n_out;
  }
}

// All heads of q, or of k, together, in place.
void GpuOps::norm_heads(const float* weight, int first_column, int n) {
  const int stride = config_.q_dim() + 2 * config_.kv_dim();
  NormRows norm;
  norm.x = f_.qkv_.as<float>() + first_column;
  norm.x_stride = stride;
  norm.n_rows = n_rows();
  norm.n = n;
  norm.norm.weight = weight;
  norm.eps = config_.norm_eps;
  norm.out.n_cols = n;
  norm.out.f32 = f_.qkv_.as<float>() + first_column;
  norm.out_stride = stride;
  launch(device_, norm, norm.shape());
}

void GpuOps::rope_and_write_kv(int layer) {
  const GpuLayer& weights = model_.layer(layer);
  if (weights.q_norm != nullptr && config_.qk_norm == QkNorm::kAllHeads) {
    norm_heads(weights.q_norm, 0, config_.q_dim());
    norm_heads(weights.k_norm, config_.q_dim(), config_.kv_dim());
  }
  RopeAndWriteKv rope;
  rope.batch = batch();
  rope.kv = model_.kv();
  rope.layer_offset = model_.layer_offset(layer);
  rope.qkv = f_.qkv_.as<float>();
  rope.rope = model_.rope(layer);
  if (config_.qk_norm == QkNorm::kEachHead) {
    rope.q_norm = weights.q_norm;
    rope.k_norm = weights.k_norm;
  }
  rope.eps = config_.norm_eps;
  launch(device_, rope, rope.shape());
}

void GpuOps::attend(int layer) {
  AttentionArguments arguments;
  arguments.kv = model_.kv();
  arguments.layer_offset = model_.layer_offset(layer);
  arguments.batch = batch();
  arguments.q = f_.qkv_.as<float>();
  arguments.q_stride = config_.q_dim() + 2 * config_.kv_dim();
  arguments.window = config_.layer(layer).window;
  arguments.out = f_.attended_.as<float>();
  f_.attention_of(arguments.window).attend(arguments);
  ActivatedRows rows;
  rows.gate = f_.attended_.as<float>();
  rows.stride = rows.n = config_.q_dim();
  rows.n_rows = n_rows();
  DeviceActivations out = f_.attended_stage_.rows;
  out.f32 = nullptr;  // it is there already
  activate(rows, out);
}

void GpuOps::activate(const ActivatedRows& rows, const DeviceActivations& out) {
  if (out.q != nullptr || out.bf16 != nullptr || out.f32 != nullptr) {
    const ActivateRows activate{rows, out};
    launch(device_, activate, activate.shape());
  }
  if (out.token.q == nullptr) return;
  const QuantiseTokens quantise{rows, out.token};
  launch(device_, quantise, quantise.shape());
}

void GpuOps::project_residual(const DeviceMatrix& weight, const DeviceNorm& post_norm, const DeviceActivations& input) {
  float* x = f_.residual_.as<float>();
  if (post_norm.weight == nullptr) return multiply(weight, input, x, config_.d_model, /*accumulates=*/true);
  multiply(weight, input, f_.added_.as<float>(), config_.d_model);
  NormRows norm;
  norm.x = f_.added_.as<float>();
  norm.x_stride = config_.d_model;
  norm.n_rows = n_rows();
  norm.n = config_.d_model;
  norm.norm = post_norm;
  norm.eps = config_.norm_eps;
  norm.out.n_cols = config_.d_model;
  norm.add_to = x;
  launch(device_, norm, norm.shape());
}

void GpuOps::project_output(int layer) {
  const GpuLayer& weights = model_.layer(layer);
  project_residual(weights.output, weights.attention_post_norm, f_.attended_stage_.rows);
}

void GpuOps::gate_up(int layer) {
  if (config_.n_experts > 0) return gate_up_experts(layer);
  // Rows of the gate's channels and behind them the other's.
  const int64_t stride = int64_t{config_.d_ff} * (config_.is_gated ? 2 : 1);
  float* out = f_.gate_up_.as<float>();
  for (const DeviceMatrix& matrix : model_.layer(layer).gate_up) {
    multiply(matrix, f_.normed_.rows, out, stride);
    out += matrix.n_out;
  }
  activate_gated(n_rows(), stride, config_.d_ff);
}

// up_offset: from a row's gate
void GpuOps::activate_gated(int n_rows, int64_t stride, int64_t up_offset) {
  ActivatedRows rows;
  rows.gate = f_.gate_up_.as<float>();
  rows.up = config_.is_gated ? rows.gate + up_offset : nullptr;
  rows.stride = stride;
  rows.n_rows = n_rows;
  rows.n = config_.d_ff;
  rows.kind = static_cast<ActivatedRows::Kind>(config_.activation);
  activate(rows, f_.gated_.rows);
}

void GpuOps::project_down(int layer) {
  if (config_.n_experts > 0) return project_down_experts(layer);
  const GpuLayer& weights = model_.layer(layer);
  project_residual(weights.down, weights.feed_forward_post_norm, f_.gated_.rows);
}

void GpuOps::tap(int layer) {
  const std::vector<int32_t>& layers = f_.options_.tap_layers;
  const auto found = std::find(layers.begin(), layers.end(), layer);
  if (found == layers.end()) return;
  TapRows tap;
  tap.batch = batch();
  tap.taps = model_.taps();
  tap.x = f_.residual_.as<float>();
  tap.n = config_.d_model;
  tap.first_value = static_cast<int32_t>(found - layers.begin()) * config_.d_model;
  launch(device_, tap, tap.shape());
}

}  // namespace bass::cuda
