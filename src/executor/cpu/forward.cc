#include "executor/cpu/forward.h"

#include <algorithm>

#include "base/check.h"

namespace bass::cpu {
namespace {

constexpr int kMatmulOps = 4;  // of a layer that are shared out: qkv, output, gate and up, down

size_t aligned(size_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

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

}  // namespace bass::cpu
