#include "executor/cpu/cpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "executor/executor.h"
#include "kernels/cpu/pack.h"

namespace bass {

namespace {
cpu::KvShape make_kv_shape(const ModelConfig& config, KvKind kind) {
  cpu::KvShape shape;
  shape.n_heads = config.n_heads;
  shape.n_kv_heads = config.n_kv_heads;
  shape.head_dim = config.head_dim;
  shape.number_bytes = kind == KvKind::kInt8 ? 1 : 2;
  shape.score_scale = config.attention_scale;
  shape.score_cap = config.attention_cap;
  shape.layer_bytes = static_cast<size_t>(config.n_kv_heads) * shape.head_bytes();
  return shape;
}
}  // namespace

int64_t cpu_weight_bytes(const ModelFile& model) {
  int64_t n_bytes = 0;
  for (const TensorInfo& tensor : model.gguf->tensors()) {
    const int64_t n_in = tensor.shape.front();
    int64_t n_out = 1;
    for (size_t i = 1; i < tensor.shape.size(); ++i) n_out *= tensor.shape[i];
    const bool is_matrix = n_out > 1 && n_out <= INT_MAX && n_in <= INT_MAX;
    n_bytes +=
        static_cast<int64_t>(is_matrix ? cpu::packed_bytes(tensor.type, static_cast<int>(n_out), static_cast<int>(n_in))
                                       : tensor.data.size());
  }
  return n_bytes;
}

int64_t cpu_page_bytes(const ModelConfig& config, KvKind kv, int n_taps) {
  constexpr int64_t kAlignment = 64;
  const int64_t tap_bytes = int64_t{cpu::kKvPageLen} * n_taps * config.d_model * int64_t{sizeof(uint16_t)};
  const auto kv_bytes = static_cast<int64_t>(make_kv_shape(config, kv).layer_bytes) * config.n_layers;
  return kv_bytes + (tap_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static_assert(kCpuPageLen == cpu::kKvPageLen);

namespace cpu {
namespace {

constexpr size_t kAlignment = 64;

size_t padded_bytes(const MatrixRef& ref) {
  return (packed_bytes(ref.type, ref.n_out, ref.n_in) + kAlignment - 1) / kAlignment * kAlignment;
}

const float* data_or_null(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

CpuNorm norm_of(const NormRef& ref) { return {data_or_null(ref.weight), data_or_null(ref.bias)}; }

}  // namespace

Result<std::unique_ptr<CpuModel>> CpuModel::load(const ModelFile& file, const KvOptions& kv, ThreadTeam* team,
                                                 const CpuModel* main) {
  BASS_CHECK(file.config.main.has_value() == (main != nullptr));
  std::unique_ptr<CpuModel> model(new CpuModel());
  model->config_ = &file.config;
  model->context_len_ = kv.context_len;
  model->kv_shape_ = make_kv_shape(file.config, kv.kind);
  model->page_bytes_ = static_cast<size_t>(cpu_page_bytes(file.config, kv.kind, kv.n_taps));
  model->n_tap_values_ = static_cast<size_t>(kv.n_taps) * static_cast<size_t>(file.config.d_model);
  model->main_ = main;
  BASS_RETURN_IF_ERROR(model->pack_weights(file, team));
  const size_t kv_bytes = model->page_bytes_ * static_cast<size_t>(kv.n_pages);
  model->kv_memory_ = AlignedBuffer(kv_bytes);
  if (!model->kv_memory_.ok()) {
    return resource_exhausted(fmt::format("no memory for a KV cache of {} MiB; lower --kv-memory", kv_bytes >> 20));
  }
  BASS_RETURN_IF_ERROR(model->reserve_rope_tables());
  return model;
}

Status CpuModel::pack_weights(const ModelFile& file, ThreadTeam* team) {
  const WeightRefs& refs = file.weights;
  borrows_head_ = config_->main && refs.head.n_out == 0;
  size_t total_bytes = padded_bytes(refs.embedding) + (refs.is_head_tied ? 0 : padded_bytes(refs.head));
  total_bytes += padded_bytes(refs.draft_input.tap) + padded_bytes(refs.draft_input.input);
  const size_t position_bytes = config_->has_learned_positions ? padded_bytes(refs.positions) : 0;
  total_bytes += position_bytes;
  for (const LayerRefs& layer : refs.layers) {
    for_each_matrix(layer, [&](const MatrixRef& ref) { total_bytes += padded_bytes(ref); });
  }
  weights_ = AlignedBuffer(total_bytes);
  if (!weights_.ok()) {
    return resource_exhausted(fmt::format("{}: no memory for {} MiB of weights", file.gguf->path(), total_bytes >> 20));
  }
  std::byte* cursor = weights_.data();
  if (config_->main) pack_draft_input(file, team, &cursor);
  for (const LayerRefs& layer : refs.layers) pack_layer(file, layer, team, &cursor);
  if (!config_->main) pack_matrix(file, refs.embedding, team, &cursor, &embedding_);
  if (config_->has_learned_positions) pack_matrix(file, refs.positions, team, &cursor, &positions_);
  head_ = embedding_;
  if (borrows_head_) {
    BASS_RETURN_IF_ERROR(borrow_head(team));
    total_bytes += packed_bytes(head_.type, head_.n_out, head_.n_in);
  } else if (!refs.is_head_tied) {
    pack_matrix(file, refs.head, team, &cursor, &head_);
  }
  count_work(head_, StepPart::kHead);
  output_norm_ = norm_of(refs.output_norm);
  step_weight_bytes_ =
      static_cast<int64_t>(total_bytes - position_bytes - (refs.is_head_tied ? 0 : padded_bytes(refs.embedding)));
  return ok_status();
}

Status CpuModel::borrow_head(ThreadTeam* team) {
  const MainModelUse& use = *config_->main;
  head_ = main_->head();
  if (!use.vocabulary.empty() || use.head_type) {
    std::vector<int32_t> ids = use.vocabulary;
    if (ids.empty()) {
      ids.resize(static_cast<size_t>(head_.n_out));
      std::iota(ids.begin(), ids.end(), 0);
    }
    BASS_ASSIGN_OR_RETURN(head_rows_, HeadRows::pack(head_, ids, use.head_type, team));
    head_ = head_rows_.matrix();
  }
  note_type(head_);
  return ok_status();
}

void CpuModel::pack_draft_input(const ModelFile& file, ThreadTeam* team, std::byte** cursor) {
  const DraftInputRefs& refs = file.weights.draft_input;
  draft_input_.tap_norm = data_or_null(refs.tap_norm);
  draft_input_.feature_norm = data_or_null(refs.feature_norm);
  draft_input_.embed_norm = data_or_null(refs.embed_norm);
  if (refs.input.n_out > 0) pack_matrix(file, refs.input, team, cursor, &draft_input_.input);
  if (refs.tap.n_out > 0) pack_matrix(file, refs.tap, team, cursor, &draft_input_.tap);
}

void CpuModel::pack_layer(const ModelFile& file, const LayerRefs& refs, ThreadTeam* team, std::byte** cursor) {
  CpuLayer packed;
  packed.attention_norm = norm_of(refs.attention_norm);
  packed.feed_forward_norm = norm_of(refs.feed_forward_norm);
  packed.attention_post_norm = norm_of(refs.attention_post_norm);
  packed.feed_forward_post_norm = norm_of(refs.feed_forward_post_norm);
  packed.q_norm = data_or_null(refs.q_norm);
  packed.k_norm = data_or_null(refs.k_norm);
  const auto pack = [&](const MatrixRef& ref, PackedMatrix* matrix, StepPart part, double share = 1.0) {
    if (ref.n_out == 0) return;
    pack_matrix(file, ref, team, cursor, matrix);
    count_work(*matrix, part, share);
  };
  pack(refs.q, &packed.q, StepPart::kQkv);
  pack(refs.k, &packed.k, StepPart::kQkv);
  pack(refs.v, &packed.v, StepPart::kQkv);
  pack(refs.output, &packed.output, StepPart::kOutput);
  pack(refs.gate, &packed.gate, StepPart::kGateUp);
  pack(refs.up, &packed.up, StepPart::kGateUp);
  pack(refs.down, &packed.down, StepPart::kDown);
  pack(refs.router, &packed.router, StepPart::kGateUp);
  const double share = static_cast<double>(config_->n_experts_used) / std::max(config_->n_experts, 1);
  for (const ExpertRefs& expert : refs.experts) {
    CpuExpert& packed_expert = packed.experts.emplace_back();
    pack(expert.gate, &packed_expert.gate, StepPart::kGateUp, share);
    pack(expert.up, &packed_expert.up, StepPart::kGateUp, share);
    pack(expert.down, &packed_expert.down, StepPart::kDown, share);
    has_float_weights_ = true;  // rows are gathered for the experts from their floats
  }
  layers_.push_back(std::move(packed));
}

void CpuModel::pack_matrix(const ModelFile& file, const MatrixRef& ref, ThreadTeam* team, std::byte** cursor,
                           PackedMatrix* out) {
  std::byte* destination = *cursor;
  *out = {packed_type(ref.type), ref.n_out, ref.n_in, destination, data_or_null(ref.bias)};
  *cursor += padded_bytes(ref);
  const PackSource source{ref.type, ref.n_out, ref.n_in, ref.data.data(), ref.row_bytes(), ref.order};
  team->run([&](const TeamContext& context) { pack_tiles(source, context.share(out->n_tiles()), destination); });
  note_type(*out);
  if (file.gguf != nullptr) release_pages(ref.data);  // a model that was made up has no file
}

void CpuModel::note_type(const PackedMatrix& matrix) {
  (matrix.is_quantised() ? has_quantised_weights_ : has_float_weights_) = true;
}

void CpuModel::count_work(const PackedMatrix& matrix, StepPart part, double share) {
  Work& work = row_work_[static_cast<size_t>(part)];
  work.bytes += static_cast<double>(packed_bytes(matrix.type, matrix.n_out, matrix.n_in));
  work[matrix.is_quantised() ? OperationClass::kInt8Dot : OperationClass::kF32Fma] +=
      2.0 * share * matrix.n_out * matrix.n_in;
}

Status CpuModel::reserve_rope_tables() {
  const auto dim = static_cast<size_t>(config_->rope_dim);
  rope_ = AlignedBuffer(2 * config_->ropes.size() * static_cast<size_t>(context_len_) * dim * sizeof(float));
  if (!rope_.ok()) {
    return resource_exhausted(fmt::format("no memory for rope tables of {} positions; lower --context", context_len_));
  }
  for (const RopeConfig& rope : config_->ropes) {
    for (size_t pair = 0; pair < dim / 2; ++pair) {
      const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(dim);
      const double factor = rope.factor * (rope.factors.empty() ? 1.0 : rope.factors[pair]);
      rope_frequencies_.push_back(std::pow(static_cast<double>(rope.base), exponent) / factor);
    }
  }
  return ok_status();
}

void CpuModel::prepare_positions(int n_positions) {
  BASS_CHECK(n_positions <= context_len_);
  for (; n_rope_positions_ < n_positions; ++n_rope_positions_) {
    for (size_t i = 0; i < config_->ropes.size(); ++i) prepare_position(n_rope_positions_, static_cast<int>(i));
  }
}

void CpuModel::prepare_position(int position, int rope) {
  auto* cos_pair = const_cast<float*>(rope_cos(position, rope));
  auto* sin_pair = const_cast<float*>(rope_sin(position, rope));
  const auto n_pairs = static_cast<size_t>(config_->rope_dim / 2);
  const double magnitude = config_->ropes[static_cast<size_t>(rope)].magnitude;
  for (const double frequency : std::span(rope_frequencies_).subspan(static_cast<size_t>(rope) * n_pairs, n_pairs)) {
    const auto cosine = static_cast<float>(magnitude * std::cos(position * frequency));
    const auto sine = static_cast<float>(magnitude * std::sin(position * frequency));
    *cos_pair++ = cosine;
    *cos_pair++ = cosine;
    *sin_pair++ = -sine;
    *sin_pair++ = sine;
  }
}

const float* CpuModel::rope_cos(int position, int rope) const {
  const auto table = 2 * static_cast<size_t>(rope) * static_cast<size_t>(context_len_);
  return rope_.as<float>() + (table + static_cast<size_t>(position)) * static_cast<size_t>(config_->rope_dim);
}

const float* CpuModel::rope_sin(int position, int rope) const {
  return rope_cos(position, rope) + static_cast<size_t>(context_len_) * static_cast<size_t>(config_->rope_dim);
}

void CpuModel::embed(TokenId token, float* out) const {
  unpack_row(main_ != nullptr ? main_->embedding_ : embedding_, token, out);
}

// A draft model's sequence may be longer than the model knows positions.
void CpuModel::embed_position(int position, float* out) const {
  unpack_row(positions_, std::min(position, positions_.n_out - 1), out);
}

void CpuModel::copy_page(const PageCopy& copy) const { std::memcpy(page(copy.to), page(copy.from), page_bytes_); }

}  // namespace cpu
}  // namespace bass
