#include "executor/cuda/gpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "executor/executor.h"
#include "kernels/cuda/attention/attention_tile.h"
#include "kernels/cuda/experts/route_rows.h"
#include "kernels/cuda/matmul/product_choice.h"
#include "kernels/cuda/rows/norm_rows.h"

namespace bass::cuda {
namespace {

size_t row_bytes(const ModelConfig& config) { return static_cast<size_t>(config.rope_dim / 2) * sizeof(float); }

Status no_room(const std::string& what, size_t n_bytes, const Device& device) {
  return resource_exhausted(fmt::format("{} need {} MiB of the GPU's memory, {} of {} MiB are free", what,
                                        n_bytes >> 20, device.free_bytes() >> 20, device.info().total_bytes >> 20));
}

KvNumbers kv_numbers(KvKind kind) {
  switch (kind) {
    case KvKind::kInt16:
      return KvNumbers::kInt16;
    case KvKind::kInt8:
      return KvNumbers::kInt8;
    case KvKind::kF16:
      return KvNumbers::kF16;
    case KvKind::kBf16:
      return KvNumbers::kBf16;
  }
  BASS_CHECK(false);
}

}  // namespace

DeviceKv describe_heads(int n_heads, int n_kv_heads, int head_dim, KvKind kind) {
  DeviceKv kv;
  kv.n_heads = n_heads;
  kv.n_kv_heads = n_kv_heads;
  kv.head_dim = head_dim;
  kv.numbers = kv_numbers(kind);
  cpu::KvShape shape;
  shape.head_dim = head_dim;
  shape.number_bytes = bytes_of(kv.numbers);
  if (is_float(kv.numbers)) shape.scale_bytes = 0;
  kv.head_bytes = static_cast<int64_t>(shape.head_bytes());
  kv.layer_bytes = n_kv_heads * kv.head_bytes;
  kv.score_factor = kLog2E / std::sqrt(static_cast<float>(head_dim));
  return kv;
}

Result<std::unique_ptr<GpuModel>> GpuModel::load(Device* device, const ModelFile& file, const GpuKvOptions& kv,
                                                 ThreadTeam* team, LibraryNumbers library, const GpuModel* main) {
  BASS_CHECK(file.config.main.has_value() == (main != nullptr));
  std::unique_ptr<GpuModel> model(new GpuModel(device, file, library, main));
  BASS_RETURN_IF_ERROR(model->check_supported());
  WeightArena arena(device, team, library);
  model->place_weights(&arena);
  model->step_weight_bytes_ = 0;
  const size_t weight_bytes = arena.n_bytes();
  const size_t kv_bytes =
      static_cast<size_t>(cpu_page_bytes(file.config, kv.kind, kv.n_taps)) * (static_cast<size_t>(kv.n_pages) + 1);
  model->context_len_ = std::max(kv.context_len, kPageLen);  // rows of no sequence are on a page's positions
  const size_t rope_bytes =
      2 * file.config.ropes.size() * static_cast<size_t>(model->context_len_) * row_bytes(file.config);
  const size_t n_bytes = weight_bytes + kv_bytes + rope_bytes;
  if (n_bytes > device->free_bytes() || !arena.open()) {
    return no_room(fmt::format("{}: the weights ({} MiB) and the KV cache", file.gguf->path(), weight_bytes >> 20),
                   n_bytes, *device);
  }
  model->place_weights(&arena);
  BASS_RETURN_IF_ERROR(arena.status());
  model->weights_ = arena.take_memory();
  model->kv_memory_ = DeviceBuffer(device, kv_bytes);
  model->rope_memory_ = DeviceBuffer(device, rope_bytes);
  if (!model->kv_memory_.ok() || !model->rope_memory_.ok()) {
    return no_room(
        fmt::format("{}: the KV cache and the tables of rotations; lower --kv-memory: they", file.gguf->path()),
        kv_bytes + rope_bytes, *device);
  }
  model->rope_tables_.resize(rope_bytes / sizeof(float));
  model->describe_kv(kv);
  // Chunks are read whole, also behind a text's end: what is there counts for nothing, but must be numbers' bytes.
  device->fill(model->kv_memory_.data(), 0, kv_bytes);
  BASS_RETURN_IF_ERROR(device->synchronize());
  BASS_RETURN_IF_ERROR(model->choose_kernels());
  return model;
}

Result<size_t> GpuModel::weight_bytes(Device* device, const ModelFile& main, const ModelFile* draft,
                                      LibraryNumbers library) {
  WeightArena arena(device, /*team=*/nullptr, library);  // never opened, so it packs nothing
  GpuModel main_model(device, main, library, nullptr);
  BASS_RETURN_IF_ERROR(main_model.check_supported());
  main_model.place_weights(&arena);
  if (draft != nullptr) {
    GpuModel draft_model(device, *draft, library, draft->config.main ? &main_model : nullptr);
    BASS_RETURN_IF_ERROR(draft_model.check_supported());
    draft_model.place_weights(&arena);
  }
  return arena.n_bytes();
}

// Experts' products have one kernel.
Status GpuModel::choose_kernels() {
  std::vector<DeviceMatrix*> matrices{&draft_input_.tap, &draft_input_.input, &head_};
  for (GpuLayer& layer : layers_) {
    for (DeviceMatrix& matrix : layer.qkv) matrices.push_back(&matrix);
    for (DeviceMatrix& matrix : layer.gate_up) matrices.push_back(&matrix);
    matrices.insert(matrices.end(), {&layer.output, &layer.down});
  }
  std::erase_if(matrices, [](const DeviceMatrix* matrix) { return matrix->n_out == 0; });
  return choose_all_products(device_, std::move(matrices));
}

Status GpuModel::check_supported() const {
  const ModelConfig& config = file_->config;
  const auto lacks = [&](const std::string& what) {
    return invalid_argument(
        fmt::format("{}: the GPU backend cannot compute {} yet; use --device cpu", file_->gguf->path(), what));
  };
  if (config.n_experts > kMaxGpuExperts) return lacks(fmt::format("layers of {} experts", config.n_experts));
  if (config.n_experts > 0 && uses_library()) {
    return invalid_argument(
        fmt::format("{}: models with experts cannot be multiplied by the library, which would have to know how many "
                    "rows each expert gets; use --activations int8 or int16",
                    file_->gguf->path()));
  }
  for (const int n : {config.d_model, config.q_dim(), config.d_ff}) {
    if (!has_byte_numbers(library_) || n % kLibraryAlignment == 0) continue;
    return invalid_argument(
        fmt::format("{}: has rows of {} weights; the library multiplies bytes where they are multiples of {}; use "
                    "--activations int8, int16 or bf16",
                    file_->gguf->path(), n, kLibraryAlignment));
  }
  if (config.head_dim % 16 != 0 || config.head_dim > kMaxGpuHeadDim) {
    return lacks(fmt::format("heads of {} numbers", config.head_dim));
  }
  const DraftInputRefs& input = file_->weights.draft_input;
  for (const int64_t n : {int64_t{config.d_model}, int64_t{input.tap.n_in}, int64_t{input.input.n_in}}) {
    const size_t n_bytes = SharedBytes().add<float>(static_cast<int>(n)).add<float>(kRowScratch).bytes();
    if (n_bytes <= device_->info().max_shared_bytes) continue;
    return lacks(fmt::format("rows of {} numbers, of which a block of {} holds {}", n, device_->info().name,
                             device_->info().max_shared_bytes / sizeof(float) - kRowScratch));
  }
  return ok_status();
}

// Called twice (WeightArena): all that it sets is set again.
void GpuModel::place_weights(WeightArena* arena) {
  const WeightRefs& refs = file_->weights;
  layers_.clear();
  row_operations_ = 0;
  if (file_->config.main) {
    draft_input_ = {arena->floats(refs.draft_input.tap_norm), arena->floats(refs.draft_input.feature_norm),
                    arena->floats(refs.draft_input.embed_norm), place_product(refs.draft_input.tap, arena),
                    place_product(refs.draft_input.input, arena)};
  }
  for (const LayerRefs& layer : refs.layers) place_layer(layer, arena);
  if (!file_->config.main) embedding_ = arena->matrix(refs.embedding);
  if (file_->config.has_learned_positions) positions_ = arena->matrix(refs.positions);
  place_head(arena);
  output_norm_ = arena->norm(refs.output_norm);
}

void GpuModel::place_head(WeightArena* arena) {
  const WeightRefs& refs = file_->weights;
  if (refs.is_head_tied && uses_library()) {  // the embedding is looked up by our own kernels
    head_ = place_product(refs.embedding, arena);
    return;
  }
  if (refs.is_head_tied) {
    head_ = embedding_;
  } else if (!file_->config.main || refs.head.n_out > 0) {
    head_ = place_product(refs.head, arena);
    return;
  } else {
    const MainModelUse& use = *file_->config.main;
    const WeightRefs& main_refs = main_->file_->weights;
    if (use.vocabulary.empty() && !use.head_type) {
      head_ = main_->head_;
    } else {
      const MatrixRef& main_head = main_refs.is_head_tied ? main_refs.embedding : main_refs.head;
      std::vector<int32_t> ids = use.vocabulary;
      if (ids.empty()) {
        ids.resize(static_cast<size_t>(main_head.n_out));
        std::iota(ids.begin(), ids.end(), 0);
      }
      const HeadPart part{ids, use.head_type};
      head_ = place_product(main_head, arena, &part);
      return;
    }
  }
  const size_t bits = head_.library != LibraryNumbers::kNone ? 8 * library_number_bytes(head_.library)
                                                             : static_cast<size_t>(std::max(head_.bits, 16));
  count_product(head_, static_cast<size_t>(head_.n_out) * static_cast<size_t>(head_.n_in) * bits / 8);
}

void GpuModel::count_product(const DeviceMatrix& matrix, size_t n_bytes, double share) {
  if (matrix.library == LibraryNumbers::kNone)
    (matrix.is_quantised() ? has_quantised_weights_ : has_float_weights_) = true;
  step_weight_bytes_ += static_cast<int64_t>(share * static_cast<double>(n_bytes));
  row_operations_ += share * 2.0 * matrix.n_out * matrix.n_in;
}

DeviceMatrix GpuModel::place_product(const MatrixRef& ref, WeightArena* arena, const HeadPart* part) {
  const size_t before = arena->n_bytes();
  const DeviceMatrix matrix = arena->product(ref, part);
  if (matrix.n_out > 0) count_product(matrix, arena->n_bytes() - before);
  return matrix;
}

std::vector<DeviceMatrix> GpuModel::place_joint(std::vector<const MatrixRef*> refs, WeightArena* arena) {
  std::erase_if(refs, [](const MatrixRef* ref) { return ref->n_out == 0; });
  std::vector<DeviceMatrix> matrices;
  if (WeightArena::can_join(refs)) {
    const size_t before = arena->n_bytes();
    matrices.push_back(arena->joint_product(refs));
    count_product(matrices.back(), arena->n_bytes() - before);
    return matrices;
  }
  for (const MatrixRef* ref : refs) matrices.push_back(place_product(*ref, arena));
  return matrices;
}

GpuExpertMatrix GpuModel::place_experts(const std::vector<ExpertRefs>& experts, MatrixRef ExpertRefs::*kind,
                                        WeightArena* arena) {
  std::vector<DeviceMatrix> matrices;
  for (const ExpertRefs& expert : experts) {
    const size_t before = arena->n_bytes();
    matrices.push_back(arena->product(expert.*kind));
    count_product(matrices.back(), arena->n_bytes() - before,
                  static_cast<double>(config().n_experts_used) / config().n_experts);
  }
  return {matrices.front(), arena->matrices(matrices)};
}

void GpuModel::place_layer(const LayerRefs& refs, WeightArena* arena) {
  GpuLayer& layer = layers_.emplace_back();
  layer.attention_norm = arena->norm(refs.attention_norm);
  layer.feed_forward_norm = arena->norm(refs.feed_forward_norm);
  layer.attention_post_norm = arena->norm(refs.attention_post_norm);
  layer.feed_forward_post_norm = arena->norm(refs.feed_forward_post_norm);
  layer.q_norm = arena->floats(refs.q_norm);
  layer.k_norm = arena->floats(refs.k_norm);
  layer.qkv = place_joint({&refs.q, &refs.k, &refs.v}, arena);
  layer.output = place_product(refs.output, arena);
  if (refs.experts.empty()) {
    layer.gate_up = place_joint({&refs.gate, &refs.up}, arena);
    layer.down = place_product(refs.down, arena);
    return;
  }
  layer.router = place_product(refs.router, arena);
  layer.expert_gate = place_experts(refs.experts, &ExpertRefs::gate, arena);
  layer.expert_up = place_experts(refs.experts, &ExpertRefs::up, arena);
  layer.expert_down = place_experts(refs.experts, &ExpertRefs::down, arena);
}

void GpuModel::describe_kv(const GpuKvOptions& kv) {
  const ModelConfig& config = file_->config;
  spare_page_ = kv.n_pages;
  kv_ = describe_heads(config.n_heads, config.n_kv_heads, config.head_dim, kv.kind);
  kv_.pages = kv_memory_.data();
  kv_.page_bytes = cpu_page_bytes(config, kv.kind, kv.n_taps);
  if (config.attention_scale > 0) kv_.score_factor = kLog2E * config.attention_scale;
  kv_.score_cap = config.attention_cap > 0 ? config.attention_cap * kLog2E : 0.0f;
  taps_ = {kv_.pages, kv_.page_bytes, kv_.layer_bytes * config.n_layers, kv.n_taps * config.d_model};
  for (const RopeConfig& rope : config.ropes) {
    for (int pair = 0; pair < config.rope_dim / 2; ++pair) {
      const double exponent = -2.0 * pair / config.rope_dim;
      const double factor = rope.factor * (rope.factors.empty() ? 1.0 : rope.factors[static_cast<size_t>(pair)]);
      rope_frequencies_.push_back(std::pow(static_cast<double>(rope.base), exponent) / factor);
    }
  }
}

bool GpuModel::has_part_of_head() const {
  return main_ != nullptr && file_->weights.head.n_out == 0 && !file_->config.main->vocabulary.empty();
}

Result<GpuModel::HeadRows> GpuModel::more_head_rows(std::span<const int32_t> ids, ThreadTeam* team) const {
  const WeightRefs& refs = main_->file_->weights;
  const HeadPart part{ids, file_->config.main->head_type};
  WeightArena arena(device_, team, library_);
  const MatrixRef& head = refs.is_head_tied ? refs.embedding : refs.head;
  arena.product(head, &part);
  if (!arena.open()) return resource_exhausted("no memory of the GPU for a prompt's rows of the head");
  HeadRows rows;
  rows.matrix = arena.product(head, &part);
  BASS_RETURN_IF_ERROR(arena.status());
  rows.memory = arena.take_memory();
  return rows;
}

void GpuModel::copy_page(const PageCopy& copy) const {
  device_->copy(kv_.pages + copy.to * kv_.page_bytes, kv_.pages + copy.from * kv_.page_bytes,
                static_cast<size_t>(kv_.page_bytes));
}

// Texts grow: the tables are filled for twice the positions that are asked for, and copied then.
void GpuModel::prepare_positions(int n_positions) {
  BASS_CHECK(n_positions <= context_len_);
  const auto n_pairs = static_cast<size_t>(config().rope_dim / 2);
  if (n_positions <= n_rope_positions_ || n_pairs == 0) return;
  const int end = std::min(context_len_, std::max(2 * n_positions, 256));
  const size_t table_floats = static_cast<size_t>(context_len_) * n_pairs;
  for (size_t i = 0; i < config().ropes.size(); ++i) {
    const double magnitude = config().ropes[i].magnitude;
    float* cosines = rope_tables_.data() + 2 * i * table_floats;
    for (int position = n_rope_positions_; position < end; ++position) {
      for (size_t pair = 0; pair < n_pairs; ++pair) {
        const double angle = position * rope_frequencies_[i * n_pairs + pair];
        const size_t at = static_cast<size_t>(position) * n_pairs + pair;
        cosines[at] = static_cast<float>(magnitude * std::cos(angle));
        cosines[table_floats + at] = static_cast<float>(magnitude * std::sin(angle));
      }
    }
    for (const float* table : {cosines, cosines + table_floats}) {
      const size_t first = static_cast<size_t>(n_rope_positions_) * n_pairs;
      const auto offset = static_cast<size_t>(table - rope_tables_.data()) + first;
      device_->upload(rope_memory_.as<float>() + offset, table + first,
                      (static_cast<size_t>(end) * n_pairs - first) * sizeof(float));
    }
  }
  n_rope_positions_ = end;
}

DeviceRope GpuModel::rope(int layer) const {
  DeviceRope rope{rope_memory_.as<float>(), context_len_, config().rope_dim, config().layer(layer).rope};
  if (rope.table < 0) return rope;
  const RopeConfig& usual = config().ropes[static_cast<size_t>(rope.table)];
  rope.long_table = usual.long_rope;
  rope.long_from = usual.original_context_len;
  return rope;
}

}  // namespace bass::cuda
