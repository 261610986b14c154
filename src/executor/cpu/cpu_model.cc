#include "executor/cpu/cpu_model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

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
  shape.layer_bytes = static_cast<size_t>(config.n_kv_heads) * shape.head_bytes();
  return shape;
}
}  // namespace

int64_t cpu_page_bytes(const ModelConfig& config, KvKind kv) {
  return static_cast<int64_t>(make_kv_shape(config, kv).layer_bytes) * config.n_layers;
}

static_assert(kCpuPageLen == cpu::kKvPageLen);

namespace cpu {
namespace {

constexpr size_t kAlignment = 64;

size_t padded_bytes(const MatrixRef& ref) {
  return (packed_bytes(ref.type, ref.n_out, ref.n_in) + kAlignment - 1) / kAlignment * kAlignment;
}

template <class Visit>
void for_each_layer_matrix(const LayerRefs& refs, Visit visit) {
  for (const MatrixRef* ref : {&refs.q, &refs.k, &refs.v, &refs.output, &refs.gate, &refs.up, &refs.down}) visit(*ref);
}

}  // namespace

Result<std::unique_ptr<CpuModel>> CpuModel::load(const ModelFile& file, const KvOptions& kv, ThreadTeam* team) {
  std::unique_ptr<CpuModel> model(new CpuModel());
  model->config_ = &file.config;
  model->context_len_ = kv.context_len;
  model->kv_shape_ = make_kv_shape(file.config, kv.kind);
  model->page_bytes_ = static_cast<size_t>(cpu_page_bytes(file.config, kv.kind));
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
  size_t total_bytes = padded_bytes(refs.embedding) + (refs.is_head_tied ? 0 : padded_bytes(refs.head));
  for (const LayerRefs& layer : refs.layers) {
    for_each_layer_matrix(layer, [&](const MatrixRef& ref) { total_bytes += padded_bytes(ref); });
  }
  weights_ = AlignedBuffer(total_bytes);
  if (!weights_.ok()) {
    return resource_exhausted(
        fmt::format("{}: no memory for {} MiB of weights", file.gguf->file().path(), total_bytes >> 20));
  }
  std::byte* cursor = weights_.data();
  for (const LayerRefs& layer : refs.layers) {
    CpuLayer packed;
    packed.attention_norm = layer.attention_norm.data();
    packed.feed_forward_norm = layer.feed_forward_norm.data();
    pack_matrix(file, layer.q, team, &cursor, &packed.q);
    pack_matrix(file, layer.k, team, &cursor, &packed.k);
    pack_matrix(file, layer.v, team, &cursor, &packed.v);
    pack_matrix(file, layer.output, team, &cursor, &packed.output);
    pack_matrix(file, layer.gate, team, &cursor, &packed.gate);
    pack_matrix(file, layer.up, team, &cursor, &packed.up);
    pack_matrix(file, layer.down, team, &cursor, &packed.down);
    for (const PackedMatrix* matrix : {&packed.q, &packed.k, &packed.v}) count_work(*matrix, StepPart::kQkv);
    count_work(packed.output, StepPart::kOutput);
    for (const PackedMatrix* matrix : {&packed.gate, &packed.up}) count_work(*matrix, StepPart::kGateUp);
    count_work(packed.down, StepPart::kDown);
    layers_.push_back(packed);
  }
  pack_matrix(file, refs.embedding, team, &cursor, &embedding_);
  head_ = embedding_;
  if (!refs.is_head_tied) pack_matrix(file, refs.head, team, &cursor, &head_);
  count_work(head_, StepPart::kHead);
  output_norm_ = refs.output_norm.data();
  step_weight_bytes_ = static_cast<int64_t>(total_bytes - (refs.is_head_tied ? 0 : padded_bytes(refs.embedding)));
  return ok_status();
}

void CpuModel::pack_matrix(const ModelFile& file, const MatrixRef& ref, ThreadTeam* team, std::byte** cursor,
                           PackedMatrix* out) {
  std::byte* destination = *cursor;
  *out = {packed_type(ref.type), ref.n_out, ref.n_in, destination};
  *cursor += padded_bytes(ref);
  const DTypeInfo& info = dtype_info(ref.type);
  const auto row_bytes = static_cast<size_t>(ref.n_in / info.block_len) * static_cast<size_t>(info.block_bytes);
  const PackSource source{ref.type, ref.n_out, ref.n_in, ref.data.data(), row_bytes};
  team->run([&](const TeamContext& context) { pack_tiles(source, context.share(out->n_tiles()), destination); });
  if (file.gguf != nullptr) file.gguf->file().release(ref.data);  // a model that was made up has no file
  (out->is_quantised() ? has_quantised_weights_ : has_float_weights_) = true;
}

void CpuModel::count_work(const PackedMatrix& matrix, StepPart part) {
  Work& work = row_work_[static_cast<size_t>(part)];
  work.bytes += static_cast<double>(packed_bytes(matrix.type, matrix.n_out, matrix.n_in));
  work[matrix.is_quantised() ? OperationClass::kInt8Dot : OperationClass::kF32Fma] += 2.0 * matrix.n_out * matrix.n_in;
}

Status CpuModel::reserve_rope_tables() {
  const int dim = config_->rope_dim;
  rope_ = AlignedBuffer(2 * static_cast<size_t>(context_len_) * static_cast<size_t>(dim) * sizeof(float));
  if (!rope_.ok()) {
    return resource_exhausted(fmt::format("no memory for rope tables of {} positions; lower --context", context_len_));
  }
  for (int pair = 0; pair < dim / 2; ++pair) {
    rope_frequencies_.push_back(std::pow(static_cast<double>(config_->rope_base), -2.0 * pair / dim));
  }
  return ok_status();
}

void CpuModel::prepare_positions(int n_positions) {
  BASS_CHECK(n_positions <= context_len_);
  for (; n_rope_positions_ < n_positions; ++n_rope_positions_) {
    auto* cos_pair = const_cast<float*>(rope_cos(n_rope_positions_));
    auto* sin_pair = const_cast<float*>(rope_sin(n_rope_positions_));
    for (const double frequency : rope_frequencies_) {
      const auto cosine = static_cast<float>(std::cos(n_rope_positions_ * frequency));
      const auto sine = static_cast<float>(std::sin(n_rope_positions_ * frequency));
      *cos_pair++ = cosine;
      *cos_pair++ = cosine;
      *sin_pair++ = -sine;
      *sin_pair++ = sine;
    }
  }
}

const float* CpuModel::rope_cos(int position) const {
  return rope_.as<float>() + static_cast<size_t>(position) * static_cast<size_t>(config_->rope_dim);
}

const float* CpuModel::rope_sin(int position) const {
  return rope_cos(position) + static_cast<size_t>(context_len_) * static_cast<size_t>(config_->rope_dim);
}

void CpuModel::embed(TokenId token, float* out) const { unpack_row(embedding_, token, out); }

void CpuModel::copy_page(const PageCopy& copy) const { std::memcpy(page(copy.to), page(copy.from), page_bytes_); }

}  // namespace cpu
}  // namespace bass
