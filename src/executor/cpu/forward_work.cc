// What a batch asks of the machine, by parts of a step.
#include <algorithm>

#include "executor/cpu/forward.h"
#include "kernels/cpu/pack.h"

namespace bass::cpu {

void CpuForward::count_matmul(StepPart part, double n_rows, double n_reads) {
  const Work& row = model_->weights().row_work()[static_cast<size_t>(part)];
  Work& work = work_[static_cast<size_t>(part)];
  work.bytes += n_reads * row.bytes;
  for (const OperationClass kind : {OperationClass::kInt8Dot, OperationClass::kF32Fma}) {
    work[kind] += row[kind] * n_rows * (kind == OperationClass::kInt8Dot ? options_.n_planes : 1);
  }
}

void CpuForward::count_more_head(const PackedMatrix& matrix, int n_rows) {
  Work& work = work_[static_cast<size_t>(StepPart::kHead)];
  work.bytes += static_cast<double>(packed_bytes(matrix.type, matrix.n_out, matrix.n_in));
  const double n_operations = 2.0 * matrix.n_out * matrix.n_in * n_rows;
  if (matrix.is_quantised()) {
    work[OperationClass::kInt8Dot] += n_operations * options_.n_planes;
  } else {
    work[OperationClass::kF32Fma] += n_operations;
  }
}

// Tokens that the batch's segments see through a window (0: all), in pages that several share once.
double CpuForward::n_cached_tokens(std::span<const ForwardSegment> segments, int window) {
  ++batch_idx_;
  int64_t n_tokens = 0;
  for (const ForwardSegment& segment : segments) {
    const int n_positions = segment.start + segment.n_tokens;
    const int first_seen = window == 0 ? 0 : std::max(0, segment.start - window + 1);
    for (int begin = first_seen / kKvPageLen * kKvPageLen; begin < n_positions; begin += kKvPageLen) {
      const PageId page = segment.pages[static_cast<size_t>(begin / kKvPageLen)];
      uint32_t& last_batch = page_batches_[static_cast<size_t>(page)];
      if (last_batch == batch_idx_) continue;
      last_batch = batch_idx_;
      n_tokens += std::min(n_positions - begin, kKvPageLen);
    }
  }
  return static_cast<double>(n_tokens);
}

// Weights and cached tokens need to be read once a batch; activations stay in caches.
void CpuForward::count_work() {
  constexpr double kNormOperations = 6;  // of an element: square and sum, scale twice, quantise, sum
  constexpr double kRopeOperations = 3;
  if (n_rows() == 0) return;
  const ModelConfig& config = model_->config();
  count_matmul(StepPart::kQkv, n_rows(), 1);
  const double n_layers = config.n_layers;
  const double n_results = results_.n_rows();
  for (const StepPart part : {StepPart::kOutput, StepPart::kGateUp, StepPart::kDown}) {  // of layers that are alike
    count_matmul(part, n_rows() - (n_rows() - n_results) / n_layers, n_results == 0 ? 1 - 1 / n_layers : 1);
  }
  const double n_layer_rows = n_layers * n_rows();
  work_[static_cast<size_t>(StepPart::kNorm)][OperationClass::kF32Fma] +=
      kNormOperations * config.d_model * (2 * n_layer_rows - (n_rows() - n_results));
  work_[static_cast<size_t>(StepPart::kRopeAndWriteKv)][OperationClass::kF32Fma] +=
      kRopeOperations * config.rope_dim * (config.n_heads + config.n_kv_heads) * n_layer_rows;
  for (size_t i = 0; i < attention_plans_.size(); ++i) {
    if (n_layers_of(i) > 0) count_attention(segments_, attention_plans_[i], n_layers_of(i));
  }
  if (!results_.is_all()) count_attention(results_.segments(), result_plan_, 1);
}

void CpuForward::count_attention(std::span<const ForwardSegment> segments, const AttentionPlan& plan, double n_layers) {
  const ModelConfig& config = model_->config();
  Work& attention = work_[static_cast<size_t>(StepPart::kAttention)];
  const double token_bytes = static_cast<double>(model_->page_kv_bytes()) / config.n_layers / kKvPageLen;
  attention.bytes += n_layers * token_bytes * n_cached_tokens(segments, plan.window());
  for (const ForwardSegment& segment : segments) {
    for (int position = segment.start; position < segment.start + segment.n_tokens; ++position) {
      const double n_seen = position + 1 - plan.first_seen(position);  // q.k and p.v, two operations each
      attention[OperationClass::kInt16Dot] += 4.0 * config.q_dim() * n_layers * n_seen;
    }
  }
}

}  // namespace bass::cpu
