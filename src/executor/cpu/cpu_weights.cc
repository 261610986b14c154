#include "executor/cpu/cpu_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "executor/executor.h"
#include "kernels/cpu/pack.h"

namespace bass {

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

namespace cpu {
namespace {

constexpr size_t kAlignment = 64;

size_t padded_bytes(const MatrixRef& ref) {
  return (packed_bytes(ref.type, ref.n_out, ref.n_in) + kAlignment - 1) / kAlignment * kAlignment;
}

const float* data_or_null(const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); }

CpuNorm norm_of(const NormRef& ref) { return {data_or_null(ref.weight), data_or_null(ref.bias)}; }

}  // namespace

Result<std::shared_ptr<const CpuWeights>> CpuWeights::pack(const ModelFile& file, ThreadTeam* team,
                                                           std::shared_ptr<const CpuWeights> main) {
  BASS_CHECK(file.config.main.has_value() == (main != nullptr));
  std::shared_ptr<CpuWeights> weights(new CpuWeights(file, std::move(main)));
  BASS_RETURN_IF_ERROR(weights->pack_all(team));
  return std::shared_ptr<const CpuWeights>(std::move(weights));
}

Status CpuWeights::pack_all(ThreadTeam* team) {
  const WeightRefs& refs = file_->weights;
  borrows_head_ = config().main && refs.head.n_out == 0;
  size_t total_bytes = padded_bytes(refs.embedding) + (refs.is_head_tied ? 0 : padded_bytes(refs.head));
  total_bytes += padded_bytes(refs.draft_input.tap) + padded_bytes(refs.draft_input.input);
  const size_t position_bytes = config().has_learned_positions ? padded_bytes(refs.positions) : 0;
  total_bytes += position_bytes;
  for (const LayerRefs& layer : refs.layers) {
    for_each_matrix(layer, [&](const MatrixRef& ref) { total_bytes += padded_bytes(ref); });
  }
  memory_ = AlignedBuffer(total_bytes);
  if (!memory_.ok()) {
    return resource_exhausted(
        fmt::format("{}: no memory for {} MiB of weights", file_->gguf->path(), total_bytes >> 20));
  }
  std::byte* cursor = memory_.data();
  if (config().main) pack_draft_input(team, &cursor);
  for (const LayerRefs& layer : refs.layers) pack_layer(layer, team, &cursor);
  if (!config().main) pack_matrix(refs.embedding, team, &cursor, &embedding_);
  if (config().has_learned_positions) pack_matrix(refs.positions, team, &cursor, &positions_);
  head_ = embedding_;
  if (borrows_head_) {
    BASS_RETURN_IF_ERROR(borrow_head(team));
    total_bytes += packed_bytes(head_.type, head_.n_out, head_.n_in);
  } else if (!refs.is_head_tied) {
    pack_matrix(refs.head, team, &cursor, &head_);
  }
  count_work(head_, StepPart::kHead);
  output_norm_ = norm_of(refs.output_norm);
  step_bytes_ =
      static_cast<int64_t>(total_bytes - position_bytes - (refs.is_head_tied ? 0 : padded_bytes(refs.embedding)));
  return ok_status();
}

Status CpuWeights::borrow_head(ThreadTeam* team) {
  const MainModelUse& use = *config().main;
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

void CpuWeights::pack_draft_input(ThreadTeam* team, std::byte** cursor) {
  const DraftInputRefs& refs = file_->weights.draft_input;
  draft_input_.tap_norm = data_or_null(refs.tap_norm);
  draft_input_.feature_norm = data_or_null(refs.feature_norm);
  draft_input_.embed_norm = data_or_null(refs.embed_norm);
  if (refs.input.n_out > 0) pack_matrix(refs.input, team, cursor, &draft_input_.input);
  if (refs.tap.n_out > 0) pack_matrix(refs.tap, team, cursor, &draft_input_.tap);
}

void CpuWeights::pack_layer(const LayerRefs& refs, ThreadTeam* team, std::byte** cursor) {
  CpuLayer packed;
  packed.attention_norm = norm_of(refs.attention_norm);
  packed.feed_forward_norm = norm_of(refs.feed_forward_norm);
  packed.attention_post_norm = norm_of(refs.attention_post_norm);
  packed.feed_forward_post_norm = norm_of(refs.feed_forward_post_norm);
  packed.q_norm = data_or_null(refs.q_norm);
  packed.k_norm = data_or_null(refs.k_norm);
  const auto pack = [&](const MatrixRef& ref, PackedMatrix* matrix, StepPart part, double share = 1.0) {
    if (ref.n_out == 0) return;
    pack_matrix(ref, team, cursor, matrix);
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
  const double share = static_cast<double>(config().n_experts_used) / std::max(config().n_experts, 1);
  for (const ExpertRefs& expert : refs.experts) {
    CpuExpert& packed_expert = packed.experts.emplace_back();
    pack(expert.gate, &packed_expert.gate, StepPart::kGateUp, share);
    pack(expert.up, &packed_expert.up, StepPart::kGateUp, share);
    pack(expert.down, &packed_expert.down, StepPart::kDown, share);
    has_floats_ = true;  // rows are gathered for the experts from their floats
  }
  layers_.push_back(std::move(packed));
}

void CpuWeights::pack_matrix(const MatrixRef& ref, ThreadTeam* team, std::byte** cursor, PackedMatrix* out) {
  std::byte* destination = *cursor;
  *out = {packed_type(ref.type), ref.n_out, ref.n_in, destination, data_or_null(ref.bias)};
  *cursor += padded_bytes(ref);
  const PackSource source{ref.type, ref.n_out, ref.n_in, ref.data.data(), ref.row_bytes(), ref.order};
  team->run([&](const TeamContext& context) { pack_tiles(source, context.share(out->n_tiles()), destination); });
  note_type(*out);
  if (file_->gguf != nullptr) release_pages(ref.data);  // a model that was made up has no file
}

void CpuWeights::note_type(const PackedMatrix& matrix) {
  (matrix.is_quantised() ? has_quantised_ : has_floats_) = true;
}

void CpuWeights::count_work(const PackedMatrix& matrix, StepPart part, double share) {
  Work& work = row_work_[static_cast<size_t>(part)];
  work.bytes += static_cast<double>(packed_bytes(matrix.type, matrix.n_out, matrix.n_in));
  work[matrix.is_quantised() ? OperationClass::kInt8Dot : OperationClass::kF32Fma] +=
      2.0 * share * matrix.n_out * matrix.n_in;
}

void CpuWeights::embed(TokenId token, float* out) const {
  unpack_row(main_ != nullptr ? main_->embedding_ : embedding_, token, out);
}

// A draft model's sequence may be longer than the model knows positions.
void CpuWeights::embed_position(int position, float* out) const {
  unpack_row(positions_, std::min(position, positions_.n_out - 1), out);
}

}  // namespace cpu
}  // namespace bass
