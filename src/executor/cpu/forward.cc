#include "executor/cpu/forward.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/prefetch.h"

namespace bass::cpu {
namespace {

constexpr int kGateUpTiles = kGroupLen / kTileLen;  // tiles that give one group of activations
constexpr int kMatmulOps = 4;                       // of a layer that are shared out: qkv, output, gate and up, down
constexpr int kGateUpRows = 96;                     // rows of gate and up that are computed at once; whole row blocks

size_t aligned(size_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

void add_to(float* x, const float* y, int n) {
  for (int i = 0; i < n; ++i) x[i] += y[i];
}

}  // namespace

CpuForward::CpuForward(const CpuModel* model, const Kernels* kernels, const ForwardOptions& options)
    : model_(model),
      kernels_(kernels),
      options_(options),
      thread_rows_(options.n_threads),
      result_plan_(model->kv_shape(), options.n_threads, model->config().layer(model->config().n_layers - 1).window) {
  const ModelConfig& config = model->config();
  const auto max_rows = static_cast<size_t>(options.max_rows);
  tokens_.reserve(max_rows);
  positions_.reserve(max_rows);
  row_segments_.reserve(max_rows);
  page_batches_.resize(static_cast<size_t>(model->n_pages()));
  residual_ = AlignedBuffer(max_rows * static_cast<size_t>(config.d_model) * sizeof(float));
  qkv_ = AlignedBuffer(max_rows * static_cast<size_t>(config.q_dim() + 2 * config.kv_dim()) * sizeof(float));
  attention_out_ = AlignedBuffer(max_rows * static_cast<size_t>(config.q_dim()) * sizeof(float));
  thread_floats_ = aligned(
      std::max(size_t{kRowBlock} * static_cast<size_t>(config.d_model), size_t{3} * kGateUpRows * kGroupLen) + 16);
  thread_memory_ = AlignedBuffer(static_cast<size_t>(options.n_threads) * thread_floats_ * sizeof(float));
  normed_ = make_stage(options.max_rows, config.d_model);
  own_normed_ = make_stage(options.n_threads * kOwnRows, config.d_model);
  own_normed_.rows.panels = nullptr;  // of few rows
  attention_states_ = AlignedBuffer(AttentionPlan::max_states(max_rows, model->kv_shape()) *
                                    static_cast<size_t>(attention_state_len(config.head_dim)) * sizeof(float));
  if (config.has_post_norms) added_ = AlignedBuffer(max_rows * static_cast<size_t>(config.d_model) * sizeof(float));
  attended_ = make_stage(options.max_rows, config.q_dim(), attention_out_.as<float>());
  gated_ = make_stage(options.max_rows, config.d_ff);
  head_input_ = make_stage(kLogitsBlockRows, config.d_model);
  next_chunks_ = std::vector<WorkCounter>(size_t{kMatmulOps} * static_cast<size_t>(config.n_layers) + 1);
  next_units_ = std::vector<WorkCounter>(static_cast<size_t>(options.n_threads));
  next_late_units_ = std::vector<WorkCounter>(static_cast<size_t>(options.n_threads));
  attention_s_.resize(static_cast<size_t>(options.n_threads));
  make_plans();
  count_row_cost();
  if (config.n_experts > 0) make_experts();
  if (config.main) make_draft_input();
}

void CpuForward::make_plans() {
  const ModelConfig& config = model_->config();
  for (int i = 0; i < config.n_layers; ++i) {
    const int window = config.layer(i).window;
    size_t plan = 0;
    while (plan < attention_plans_.size() && attention_plans_[plan].window() != window) ++plan;
    if (plan == attention_plans_.size()) attention_plans_.emplace_back(model_->kv_shape(), options_.n_threads, window);
    layer_plans_.push_back(plan);
  }
  if (!can_be_apart()) return;
  thread_plans_.resize(static_cast<size_t>(options_.n_threads));
  for (std::vector<AttentionPlan>& plans : thread_plans_) {
    for (const AttentionPlan& plan : attention_plans_) plans.emplace_back(model_->kv_shape(), 1, plan.window());
  }
}

bool CpuForward::ok() const {
  for (const AlignedBuffer* buffer : {&residual_,
                                      &qkv_,
                                      &attention_out_,
                                      &added_,
                                      &attention_states_,
                                      &thread_memory_,
                                      &normed_.memory,
                                      &own_normed_.memory,
                                      &attended_.memory,
                                      &gated_.memory,
                                      &head_input_.memory,
                                      &more_input_.memory,
                                      &experts_.probabilities,
                                      &experts_.results,
                                      &experts_.input.memory,
                                      &draft_input_.taps.memory,
                                      &draft_input_.features,
                                      &draft_input_.joined.memory,
                                      &draft_input_.hidden,
                                      &draft_input_.row}) {
    if (!buffer->ok()) return false;
  }
  return true;
}

CpuForward::Stage CpuForward::make_stage(int n_rows, int n_cols, float* shared_f32) const {
  const auto rows = static_cast<size_t>(n_rows);
  const auto cols = static_cast<size_t>(n_cols);
  const bool quantised = model_->weights().has_quantised() && n_cols % kGroupLen == 0;
  const bool has_f32 = model_->weights().has_floats();
  const size_t f32_bytes = has_f32 && shared_f32 == nullptr ? aligned(rows * cols * sizeof(float)) : 0;
  const bool has_panels = quantised && kernels_->min_panel_rows > 0;
  const size_t group_bytes = quantised ? aligned(activation_bytes(n_rows, n_cols, options_.n_planes)) : 0;
  Stage stage;
  stage.memory =
      AlignedBuffer(f32_bytes + group_bytes + (has_panels ? panel_bytes(n_rows, n_cols, options_.n_planes) : 0));
  stage.rows.n_cols = n_cols;
  if (!stage.memory.ok()) return stage;
  if (has_f32) stage.rows.f32 = shared_f32 != nullptr ? shared_f32 : stage.memory.as<float>();
  if (!quantised) return stage;
  stage.rows.n_planes = options_.n_planes;
  stage.rows.groups = stage.memory.data() + f32_bytes;
  if (has_panels) stage.rows.panels = stage.panels = stage.rows.groups + group_bytes;
  return stage;
}

void CpuForward::begin_batch() {
  has_read_head_ = false;
  tokens_.clear();
  positions_.clear();
  row_segments_.clear();
  draft_input_.hidden_rows.clear();
  segments_.clear();
}

void CpuForward::reserve(size_t n_segments, size_t max_chunks) {
  segments_.reserve(n_segments);
  const auto reserve = [&](AttentionPlan* plan) {
    plan->reserve(static_cast<size_t>(options_.max_rows), n_segments, max_chunks);
  };
  for (AttentionPlan& plan : attention_plans_) reserve(&plan);
  for (std::vector<AttentionPlan>& plans : thread_plans_) {
    for (AttentionPlan& plan : plans) reserve(&plan);
  }
  reserve(&result_plan_);
  if (can_be_apart()) thread_rows_.reserve(n_segments);
  results_.reserve(static_cast<size_t>(options_.max_rows), n_segments);
}

void CpuForward::add_segment(int start, bool is_decode, std::span<const PageId> pages, int max_text_len,
                             std::span<const PageId> main_pages) {
  segments_.push_back({n_rows(), 0, start, is_decode, pages, max_text_len, main_pages});
}

void CpuForward::add_token(TokenId token, int hidden_row) {
  BASS_CHECK(n_rows() < options_.max_rows);
  ForwardSegment& segment = segments_.back();
  tokens_.push_back(token);
  positions_.push_back(segment.start + segment.n_tokens);
  row_segments_.push_back(static_cast<int>(segments_.size()) - 1);
  if (model_->config().main) draft_input_.hidden_rows.push_back(hidden_row);
  ++segment.n_tokens;
  ++segment.n_results;
}

void CpuForward::want_results(int n_rows) {
  const std::vector<int32_t>& taps = options_.tap_layers;
  if (!taps.empty() && is_last(taps.back())) return;  // of all rows
  segments_.back().n_results = n_rows;
}

void CpuForward::end_batch() {
  // Few rows' panels would be written for nobody.
  const bool has_panels = n_rows() >= kernels_->min_panel_rows;
  for (Stage* stage : batch_stages()) stage->rows.panels = has_panels ? stage->panels : nullptr;
  results_.build(segments_);
  if (can_be_apart()) thread_rows_.split(segments_, row_cost_);
  build_plans();
  count_work();
}

double CpuForward::attention_s() const {
  double sum = 0;
  for (const Seconds& seconds : attention_s_) sum += seconds.value;
  return sum / options_.n_threads;
}

void CpuForward::count_row_cost() {
  constexpr double kFloatCost = 4;     // of an operation, in those of int8
  constexpr double kPositionCost = 3;  // of an operation in int16, with what else attention does for it
  const ModelConfig& config = model_->config();
  for (const StepPart part : {StepPart::kQkv, StepPart::kOutput, StepPart::kGateUp, StepPart::kDown}) {
    const Work& work = model_->weights().row_work()[static_cast<size_t>(part)];
    row_cost_.products +=
        work[OperationClass::kInt8Dot] * options_.n_planes + work[OperationClass::kF32Fma] * kFloatCost;
  }
  for (size_t i = 0; i < attention_plans_.size(); ++i) {
    const auto n_layers = static_cast<double>(std::count(layer_plans_.begin(), layer_plans_.end(), i));
    row_cost_.attention.push_back({attention_plans_[i].window(), kPositionCost * 4.0 * config.q_dim() * n_layers});
  }
}

void CpuForward::build_plans() {
  const auto build = [&](std::span<const ForwardSegment> segments, AttentionPlan* plan) {
    plan->build(options_.attention, segments, model_->page(0), model_->page_bytes());
  };
  for (size_t i = 0; i < attention_plans_.size(); ++i) {
    if (n_layers_of(i) == 0) continue;
    if (!thread_rows_.is_apart()) build(segments_, &attention_plans_[i]);
    for (int t = 0; thread_rows_.is_apart() && t < options_.n_threads; ++t) {
      build(thread_rows_.segments(t), &thread_plans_[static_cast<size_t>(t)][i]);
    }
  }
  if (!results_.is_all()) build(results_.segments(), &result_plan_);
}

int CpuForward::n_layers_of(size_t plan_idx) const {
  const auto end = layer_plans_.end() - (results_.is_all() ? 0 : 1);
  return static_cast<int>(std::count(layer_plans_.begin(), end, plan_idx));
}

void CpuForward::run(const TeamContext& context) {
  if (context.thread_idx() == 0) {  // before the first barrier: nobody takes any yet, nor any more of the last run's
    for (WorkCounter& counter : next_chunks_) counter.reset();
  }
  CpuOps ops(*this, context);
  if (thread_rows_.is_apart()) ops.take_own_rows();
  decoder_forward(model_->config(), ops);
  ops.share_again();
}

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

void CpuForward::logits(const TeamContext& context, std::span<const int> rows, float* out) {
  logits(context, rows, {}, model_->config().vocab_size, out);
}

void CpuForward::logits(const TeamContext& context, std::span<const int> rows,
                        std::span<const PackedMatrix* const> more, int row_len, float* out) {
  const ModelConfig& config = model_->config();
  const auto n_rows = static_cast<int>(rows.size());
  CpuOps ops(*this, context);
  ops.norm_head_rows(rows, more);
  ops.end(StepPart::kHead);
  const PackedMatrix& head = model_->weights().head();
  ops.share_tiles(head.n_tiles(), n_rows, &next_chunks_.back(), [&](WorkRange tiles) {
    kernels_->matmul(head, head_input(n_rows), n_rows, tiles, out, row_len, 0, false, nullptr);
    if (config.logit_cap == 0) return;
    const int first = tiles.begin * kTileLen;
    const int n = std::min(tiles.end * kTileLen, config.vocab_size) - first;
    for (ptrdiff_t i = 0; i < n_rows; ++i) kernels_->soft_cap(out + i * row_len + first, n, config.logit_cap);
  });
  ops.multiply_more(more, row_len, out);
  if (context.thread_idx() == 0) {
    count_matmul(StepPart::kHead, n_rows, has_read_head_ ? 0 : 1);
    has_read_head_ = true;
  }
  ops.end(StepPart::kHead);
}

const float* CpuForward::result(int row) const {
  return residual_.as<float>() + static_cast<ptrdiff_t>(results_.place(row)) * model_->config().d_model;
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
