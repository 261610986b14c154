// The operations of a layer for one thread of the team, but for attention, experts and a draft's input, which have
// files of their own.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/prefetch.h"
#include "executor/cpu/forward.h"

namespace bass::cpu {
namespace {

constexpr int kGateUpTiles = kGroupLen / kTileLen;  // tiles that give one group of activations

void add_to(float* x, const float* y, int n) {
  for (int i = 0; i < n; ++i) x[i] += y[i];
}

}  // namespace

void CpuOps::take_own_rows() {
  is_apart_ = true;
  rows_ = f_.thread_rows_.rows(context_.thread_idx());
}

void CpuOps::share_again() {
  if (!is_apart_) return;
  is_apart_ = false;
  rows_ = {0, n_rows_};
  end(StepPart::kDown);  // the last part of a layer
}

float* CpuOps::thread_memory() const {
  return f_.thread_memory_.as<float>() + static_cast<size_t>(context_.thread_idx()) * f_.thread_floats_;
}

void CpuOps::embed() {
  const ModelConfig& config = f_.model_->config();
  fetch_for_attention_of(0);
  if (config.main) return embed_draft();
  const WorkRange rows = my_rows();
  for (int row = rows.begin; row < rows.end; ++row) {
    const auto i = static_cast<size_t>(row);
    float* x = f_.residual_.as<float>() + i * static_cast<size_t>(config.d_model);
    f_.model_->weights().embed(f_.tokens_[i], x);
    if (config.embedding_scale != 1.0f) f_.kernels_->scale(x, config.embedding_scale, config.d_model, x);
    if (!config.has_learned_positions) continue;
    float* position = thread_memory();
    f_.model_->weights().embed_position(f_.positions_[i], position);
    add_to(x, position, config.d_model);
  }
  end(StepPart::kEmbed);
}

void CpuOps::normalise(const float* x, const CpuNorm& norm, float* out) const {
  const ModelConfig& config = f_.model_->config();
  if (config.norm == NormType::kLayer) {
    f_.kernels_->layer_norm(x, norm.weight, norm.bias, config.d_model, config.norm_eps, out);
  } else {
    f_.kernels_->rms_norm(x, norm.weight, config.d_model, config.norm_eps, out);
  }
}

void CpuOps::norm_block(std::span<const float* const> x, const CpuNorm& norm, int first_row,
                        const ActivationRows& out) {
  const int d_model = f_.model_->config().d_model;
  const auto n_rows = static_cast<int>(x.size());
  float* normed = out.f32 != nullptr ? out.f32 + static_cast<ptrdiff_t>(first_row) * d_model : thread_memory();
  if (out.groups != nullptr) prefetch_records_to_write(out, {first_row, first_row + n_rows}, {0, d_model / kGroupLen});
  for (int i = 0; i < n_rows; ++i) {
    normalise(x[static_cast<size_t>(i)], norm, normed + static_cast<ptrdiff_t>(i) * d_model);
  }
  if (out.groups == nullptr) return;
  f_.kernels_->quantise(normed, d_model, {first_row, first_row + n_rows}, {0, d_model}, without_f32(out));
}

// Whole row blocks: they are quantised faster, and two threads that wrote to one would wait for each other.
WorkRange CpuOps::share_rows(int n_rows) const {
  if (is_apart_) return rows_;
  const WorkRange blocks = context_.share((n_rows + kRowBlock - 1) / kRowBlock);
  return {blocks.begin * kRowBlock, std::min(blocks.end * kRowBlock, n_rows)};
}

void CpuOps::norm(int layer, NormKind kind) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  const auto d_model = static_cast<size_t>(f_.model_->config().d_model);
  const CpuNorm& norm = kind == NormKind::kAttention ? weights.attention_norm : weights.feed_forward_norm;
  const auto x = [&](int row) { return f_.residual_.as<float>() + static_cast<size_t>(row) * d_model; };
  const bool is_each = f_.norms_are_repeated(n_rows_);
  const WorkRange rows = is_each ? WorkRange{0, n_rows_} : share_rows(n_rows_);
  norm_rows(rows, x, norm, rows.begin, normed());
  // In parallel blocks the output of attention is added to x next.
  const bool reads_x_beside =
      kind == NormKind::kFeedForward && f_.model_->config().block_order == BlockOrder::kParallel;
  is_each && !reads_x_beside ? go_on(StepPart::kNorm) : end(StepPart::kNorm);
}

void CpuOps::project_qkv(int layer) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  const ModelConfig& config = f_.model_->config();
  const int stride = config.q_dim() + 2 * config.kv_dim();
  const PackedMatrix* matrices[] = {&weights.q, &weights.k, &weights.v};
  const int n_tiles = weights.q.n_tiles() + weights.k.n_tiles() + weights.v.n_tiles();
  const ActivationRows input = rows_from(normed(), rows_.begin);
  FetchQueue* fetch = fetch_before({});
  share_tiles(n_tiles, n_rows_, next_counter(), [&](WorkRange range) {
    int first_tile = 0;
    float* out = f_.qkv_.as<float>() + static_cast<ptrdiff_t>(rows_.begin) * stride;
    for (const PackedMatrix* matrix : matrices) {
      const WorkRange tiles{std::max(range.begin - first_tile, 0), std::min(range.end - first_tile, matrix->n_tiles())};
      if (tiles.begin < tiles.end) {
        f_.kernels_->matmul(*matrix, input, n_product_rows(), tiles, out, stride, 0, false, fetch);
      }
      first_tile += matrix->n_tiles();
      out += matrix->n_out;
    }
  });
  end(StepPart::kQkv);
}

// Each head of q and of k by itself, or all of them together.
void CpuOps::normalise_heads(const CpuLayer& weights, float* q) const {
  const ModelConfig& config = f_.model_->config();
  const bool is_each = config.qk_norm == QkNorm::kEachHead;
  const auto normalise_runs = [&](float* x, const float* weight, int dim) {
    const int n = is_each ? config.head_dim : dim;
    for (int i = 0; i < dim; i += n) f_.kernels_->rms_norm(x + i, weight + i, n, config.norm_eps, x + i);
  };
  normalise_runs(q, weights.q_norm, config.q_dim());
  normalise_runs(q + config.q_dim(), weights.k_norm, config.kv_dim());
}

std::byte* CpuOps::page_of(int row) const {
  const auto i = static_cast<size_t>(row);
  const ForwardSegment& segment = f_.segments_[static_cast<size_t>(f_.row_segments_[i])];
  return f_.model_->page(segment.pages[static_cast<size_t>(f_.positions_[i] / kKvPageLen)]);
}

void CpuOps::ask_for_kv(int layer, int row, int kv_head) const {
  f_.kernels_->ask_for_kv(f_.model_->kv_shape(), f_.positions_[static_cast<size_t>(row)] % kKvPageLen,
                          page_of(row) + f_.model_->head_offset(layer, kv_head));
}

// What is written next is asked for a row ahead: others have computed q and k, and nobody has touched the places in the

// What is written next is asked for a row ahead: others have computed q and k, and nobody has touched the places in the
// pages. The heads' lines are asked for one head after the other: all at once are more than a processor has in flight.
void CpuOps::rope_and_write_kv(int layer) {
  const ModelConfig& config = f_.model_->config();
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  const auto stride = static_cast<size_t>(config.q_dim() + 2 * config.kv_dim());
  const auto thread = static_cast<size_t>(context_.thread_idx());
  f_.next_units_[thread].reset();
  f_.next_late_units_[thread].reset();
  if (thread == 0) f_.next_finish_.reset();
  const WorkRange rows = my_rows();
  for (int head = 0; rows.begin < rows.end && head < config.n_kv_heads; ++head) ask_for_kv(layer, rows.begin, head);
  for (int row = rows.begin; row < rows.end; ++row) {
    const auto i = static_cast<size_t>(row);
    const int position = f_.positions_[i];
    const ForwardSegment& segment = f_.segments_[static_cast<size_t>(f_.row_segments_[i])];
    const int rope = config.rope(layer, segment.max_text_len);
    float* q = f_.qkv_.as<float>() + i * stride;
    if (row + 1 < rows.end) prefetch_to_write(q + stride, stride * sizeof(float));
    if (weights.q_norm != nullptr) normalise_heads(weights, q);
    if (rope != LayerConfig::kNoRope) {
      const float* cos_pairs = f_.model_->rope_cos(position, rope);
      const float* sin_pairs = f_.model_->rope_sin(position, rope);
      for (int head = 0; head < config.n_heads + config.n_kv_heads; ++head) {  // k follows q
        f_.kernels_->rope(q + head * config.head_dim, config.rope_dim, cos_pairs, sin_pairs);
      }
    }
    std::byte* page = page_of(row);
    const float* k = q + config.q_dim();
    const float* v = k + config.kv_dim();
    for (int head = 0; head < config.n_kv_heads; ++head) {
      if (row + 1 < rows.end) ask_for_kv(layer, row + 1, head);
      f_.kernels_->write_kv(f_.model_->kv_shape(), k + head * config.head_dim, v + head * config.head_dim,
                            position % kKvPageLen, page + f_.model_->head_offset(layer, head));
    }
  }
  if (is_apart_ && f_.thread_rows_.shares_keys()) {
    end_part(f_.options_.profile, context_, StepPart::kRopeAndWriteKv);
  } else {
    end(StepPart::kRopeAndWriteKv);
  }
}

// Rows move to their places in front of them, each thread a share of their columns.
bool CpuOps::keep_results() {
  const ResultRows& results = f_.results_;
  if (results.is_all()) return true;
  n_rows_ = results.n_rows();
  rows_ = {0, n_rows_};
  if (n_rows_ == 0) return false;
  const ModelConfig& config = f_.model_->config();
  const auto move = [&](float* values, int n_cols, int stride) {
    const WorkRange mine = context_.share(n_cols);
    for (int place = 0; place < n_rows_; ++place) {
      const float* from = values + static_cast<ptrdiff_t>(results.row(place)) * stride;
      std::memmove(values + static_cast<ptrdiff_t>(place) * stride + mine.begin, from + mine.begin,
                   static_cast<size_t>(mine.end - mine.begin) * sizeof(float));
    }
  };
  move(f_.qkv_.as<float>(), config.q_dim(), config.q_dim() + 2 * config.kv_dim());
  move(f_.residual_.as<float>(), config.d_model, config.d_model);
  end(StepPart::kRopeAndWriteKv);
  // Its feed-forward block reads the only norm, which stands in the rows of the whole batch.
  if (config.block_order == BlockOrder::kParallelOneNorm) norm(config.n_layers - 1, NormKind::kAttention);
  return true;
}

void CpuOps::project_residual(const PackedMatrix& weight, const CpuNorm& post_norm, const ActivationRows& input,
                              StepPart part, FetchQueue* fetch) {
  const int d_model = f_.model_->config().d_model;
  const bool is_normalised = post_norm.weight != nullptr;
  float* x = f_.residual_.as<float>();
  float* out = is_normalised ? f_.added_.as<float>() : x;
  const ActivationRows my_input = rows_from(input, rows_.begin);
  float* my_out = out + static_cast<ptrdiff_t>(rows_.begin) * d_model;
  share_tiles(weight.n_tiles(), n_rows_, next_counter(), [&](WorkRange tiles) {
    f_.kernels_->matmul(weight, my_input, n_product_rows(), tiles, my_out, d_model, 0, !is_normalised, fetch);
  });
  end(part);
  if (!is_normalised) return;
  const WorkRange rows = my_rows();
  for (int row = rows.begin; row < rows.end; ++row) {
    const ptrdiff_t at = static_cast<ptrdiff_t>(row) * d_model;
    normalise(out + at, post_norm, out + at);
    add_to(x + at, out + at, d_model);
  }
  end(StepPart::kNorm);
}

void CpuOps::project_output(int layer) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  FetchQueue* fetch = fetch_before({&weights.gate, &weights.up, &weights.down, &weights.q, &weights.k, &weights.v});
  project_residual(weights.output, weights.attention_post_norm, f_.attended_.rows, StepPart::kOutput, fetch);
}

void CpuOps::project_down(int layer) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  if (!weights.experts.empty()) return project_down_experts(layer);
  FetchQueue* fetch = fetch_before({&weights.q, &weights.k, &weights.v});
  project_residual(weights.down, weights.feed_forward_post_norm, f_.gated_.rows, StepPart::kDown, fetch);
}

void CpuOps::gate_up(int layer) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  const ModelConfig& config = f_.model_->config();
  if (!weights.experts.empty()) return gate_up_experts(layer);
  const PackedMatrix* gate = config.is_gated ? &weights.gate : nullptr;
  static_assert(kGateUpTiles == 2);
  const ActivationRows input = rows_from(normed(), rows_.begin);
  const ActivationRows out = rows_from(f_.gated_.rows, rows_.begin);
  FetchQueue* fetch = fetch_before({&weights.down, &weights.q, &weights.k, &weights.v});
  share_pairs((config.d_ff + kGroupLen - 1) / kGroupLen, n_rows_, next_counter(), [&](WorkRange groups) {
    for (int group = groups.begin; group < groups.end; ++group) {
      gate_up_group(gate, weights.up, group, n_product_rows(), input, out, fetch);
    }
  });
  end(StepPart::kGateUp);
}

void CpuOps::gate_up_group(const PackedMatrix* gate, const PackedMatrix& up, int group, int n_rows,
                           const ActivationRows& input, const ActivationRows& out, FetchQueue* fetch) {
  constexpr int kGateUpRows = CpuForward::kGateUpRows;
  const ModelConfig& config = f_.model_->config();
  const auto activate = f_.kernels_->activate[static_cast<size_t>(config.activation)];
  const auto d_ff = static_cast<size_t>(config.d_ff);
  float* first = thread_memory();
  float* second = first + kGateUpRows * kGroupLen;
  float* product = second + kGateUpRows * kGroupLen;
  const int first_channel = group * kGroupLen;
  const int n_channels = std::min(kGroupLen, config.d_ff - first_channel);
  const WorkRange tiles{group * kGateUpTiles, std::min((group + 1) * kGateUpTiles, up.n_tiles())};
  for (int row_begin = 0; row_begin < n_rows; row_begin += kGateUpRows) {
    const int n_block_rows = std::min(kGateUpRows, n_rows - row_begin);
    const ActivationRows block = rows_from(input, row_begin);
    if (out.groups != nullptr) {
      prefetch_records_to_write(out, {row_begin, row_begin + n_block_rows}, {group, group + 1});
    }
    f_.kernels_->matmul(gate != nullptr ? *gate : up, block, n_block_rows, tiles, first, kGroupLen, first_channel,
                        false, fetch);
    if (gate != nullptr) {
      f_.kernels_->matmul(up, block, n_block_rows, tiles, second, kGroupLen, first_channel, false, fetch);
    }
    activate(first, gate != nullptr ? second : nullptr, n_block_rows * kGroupLen, product);
    for (int r = 0; r < n_block_rows && out.f32 != nullptr; ++r) {
      std::memcpy(out.f32 + static_cast<size_t>(row_begin + r) * d_ff + first_channel, product + r * kGroupLen,
                  static_cast<size_t>(n_channels) * sizeof(float));
    }
    if (out.groups == nullptr) continue;
    f_.kernels_->quantise(product, kGroupLen, {row_begin, row_begin + n_block_rows},
                          {first_channel, first_channel + n_channels}, without_f32(out));
  }
}

}  // namespace bass::cpu
