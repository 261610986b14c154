// The operations of a layer as launches, but for experts, which have a file of their own.
#include "executor/cuda/gpu_forward.h"
#include "kernels/cuda/rows/quantise_tokens.h"

namespace bass::cuda {

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
