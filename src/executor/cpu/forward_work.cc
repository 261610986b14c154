// What a batch asks of the machine, by parts of a step.
#include "executor/cpu/forward.h"

namespace bass::cpu {

void CpuForward::count_matmul(StepPart part, int n_rows, double n_reads) {
  const Work& row = model_->row_work()[static_cast<size_t>(part)];
  Work& work = work_[static_cast<size_t>(part)];
  work.bytes += n_reads * row.bytes;
  for (const OperationClass kind : {OperationClass::kInt8Dot, OperationClass::kF32Fma}) {
    work[kind] += row[kind] * n_rows * (kind == OperationClass::kInt8Dot ? options_.n_planes : 1);
  }
}

// Weights and cached tokens are read once a batch; activations stay in caches.
void CpuForward::count_work() {
  constexpr double kNormOperations = 6;  // of an element: square and sum, scale twice, quantise, sum
  constexpr double kRopeOperations = 3;
  const ModelConfig& config = model_->config();
  for (const StepPart part : {StepPart::kQkv, StepPart::kOutput, StepPart::kGateUp, StepPart::kDown}) {
    count_matmul(part, n_rows(), 1);
  }
  const double n_layer_rows = static_cast<double>(config.n_layers) * n_rows();
  work_[static_cast<size_t>(StepPart::kNorm)][OperationClass::kF32Fma] +=
      2 * kNormOperations * config.d_model * n_layer_rows;
  work_[static_cast<size_t>(StepPart::kRopeAndWriteKv)][OperationClass::kF32Fma] +=
      kRopeOperations * config.rope_dim * (config.n_heads + config.n_kv_heads) * n_layer_rows;
  Work& attention = work_[static_cast<size_t>(StepPart::kAttention)];
  const double token_bytes = static_cast<double>(model_->page_bytes()) / kKvPageLen;
  for (const ForwardSegment& segment : segments_) attention.bytes += token_bytes * (segment.start + segment.n_tokens);
  for (const int position : positions_) {  // q.k and p.v, two operations each
    attention[OperationClass::kF32Fma] += 4.0 * config.q_dim() * config.n_layers * (position + 1);
  }
}

}  // namespace bass::cpu
