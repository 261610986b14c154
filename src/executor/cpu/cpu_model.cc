#include "executor/cpu/cpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "executor/executor.h"

namespace bass {

namespace {
cpu::KvShape make_kv_shape(const ModelConfig& config, KvKind kind) {
  cpu::KvShape shape;
  shape.n_heads = config.n_heads;
  shape.n_kv_heads = config.n_kv_heads;
  shape.head_dim = config.head_dim;
  shape.number_bytes = kind == KvKind::kInt8 ? 1 : 2;
  if (is_float(kind)) shape.scale_bytes = 0;
  shape.score_scale = config.attention_scale;
  shape.score_cap = config.attention_cap;
  shape.layer_bytes = static_cast<size_t>(config.n_kv_heads) * shape.head_bytes();
  return shape;
}
}  // namespace

int64_t cpu_page_bytes(const ModelConfig& config, KvKind kv, int n_taps) {
  constexpr int64_t kAlignment = 64;
  const int64_t tap_bytes = int64_t{cpu::kKvPageLen} * n_taps * config.d_model * int64_t{sizeof(uint16_t)};
  const auto kv_bytes = static_cast<int64_t>(make_kv_shape(config, kv).layer_bytes) * config.n_layers;
  return kv_bytes + (tap_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static_assert(kCpuPageLen == cpu::kKvPageLen);

namespace cpu {

Result<std::unique_ptr<CpuModel>> CpuModel::load(const ModelFile& file, const KvOptions& kv, ThreadTeam* team,
                                                 const CpuModel* main) {
  BASS_ASSIGN_OR_RETURN(std::shared_ptr<const CpuWeights> weights,
                        CpuWeights::pack(file, team, main != nullptr ? main->shared_weights() : nullptr));
  return create(std::move(weights), kv, main);
}

Result<std::unique_ptr<CpuModel>> CpuModel::create(std::shared_ptr<const CpuWeights> weights, const KvOptions& kv,
                                                   const CpuModel* main) {
  BASS_CHECK(weights->main() == (main != nullptr ? &main->weights() : nullptr));
  BASS_RETURN_IF_ERROR(check_cpu_kv(kv.kind));
  const ModelConfig& config = weights->config();
  std::unique_ptr<CpuModel> model(new CpuModel(std::move(weights), main));
  model->context_len_ = kv.context_len;
  model->kv_shape_ = make_kv_shape(config, kv.kind);
  model->page_bytes_ = static_cast<size_t>(cpu_page_bytes(config, kv.kind, kv.n_taps));
  model->n_tap_values_ = static_cast<size_t>(kv.n_taps) * static_cast<size_t>(config.d_model);
  const size_t kv_bytes = model->page_bytes_ * static_cast<size_t>(kv.n_pages);
  model->kv_memory_ = AlignedBuffer(kv_bytes);
  if (!model->kv_memory_.ok()) {
    return resource_exhausted(fmt::format("no memory for a KV cache of {} MiB; lower --kv-memory", kv_bytes >> 20));
  }
  BASS_RETURN_IF_ERROR(model->reserve_rope_tables());
  return model;
}

Status CpuModel::reserve_rope_tables() {
  const auto dim = static_cast<size_t>(config().rope_dim);
  rope_ = AlignedBuffer(2 * config().ropes.size() * static_cast<size_t>(context_len_) * dim * sizeof(float));
  if (!rope_.ok()) {
    return resource_exhausted(fmt::format("no memory for rope tables of {} positions; lower --context", context_len_));
  }
  for (const RopeConfig& rope : config().ropes) {
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
    for (size_t i = 0; i < config().ropes.size(); ++i) prepare_position(n_rope_positions_, static_cast<int>(i));
  }
}

void CpuModel::prepare_position(int position, int rope) {
  auto* cos_pair = const_cast<float*>(rope_cos(position, rope));
  auto* sin_pair = const_cast<float*>(rope_sin(position, rope));
  const auto n_pairs = static_cast<size_t>(config().rope_dim / 2);
  const double magnitude = config().ropes[static_cast<size_t>(rope)].magnitude;
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
  return rope_.as<float>() + (table + static_cast<size_t>(position)) * static_cast<size_t>(config().rope_dim);
}

const float* CpuModel::rope_sin(int position, int rope) const {
  return rope_cos(position, rope) + static_cast<size_t>(context_len_) * static_cast<size_t>(config().rope_dim);
}

void CpuModel::copy_page(const PageCopy& copy) const { std::memcpy(page(copy.to), page(copy.from), page_bytes_); }

}  // namespace cpu
}  // namespace bass
