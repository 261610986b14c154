// The residual stream's beginning.
#pragma once

#include "kernels/cuda/matmul/weights.h"
#include "kernels/cuda/step_rows.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

/// A row's token: one that the host knew, or one that this step has drafted.
BASS_HD int32_t token_of(const DeviceRow& row, const int32_t* drafted) {
  return row.token >= 0 ? row.token : drafted[drafted_later(row.token)];
}

/// x = embedding[token] * scale + positions[position]
struct EmbedRows {
  static constexpr const char* kName = "embed_rows";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;

  DeviceMatrix embedding;           // [vocab_size, d_model]
  DeviceMatrix positions;           // [context_len, d_model]; n_out 0: none
  const DeviceRow* rows = nullptr;  // [n_rows]
  const int32_t* drafted = nullptr;
  float* x = nullptr;  // [n_rows, d_model]
  int32_t n_rows = 0;
  float scale = 1;

  [[nodiscard]] LaunchShape shape() const {
    return {{n_rows, ceil_div(embedding.n_in, kMaxThreads), 1}, kMaxThreads, 0};
  }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().y * context.n_threads() + context.thread();
    if (i >= embedding.n_in) return;
    const DeviceRow row = rows[context.block().x];
    float value = dequantised_weight(embedding, token_of(row, drafted), i);
    if (scale != 1.0f) value = value * scale;
    if (positions.n_out > 0) {
      // A draft model's sequence may be longer than the model knows positions.
      const int last = positions.n_out - 1;
      value = value + dequantised_weight(positions, row.position < last ? row.position : last, i);
    }
    x[int64_t{context.block().x} * embedding.n_in + i] = value;
  }
};

/// to[i] = from[ids[i]]: rows of n floats.
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;
  const float* from = nullptr;
  const int32_t* ids = nullptr;  // [n_rows]
  float* to = nullptr;           // [n_rows, n]
  int32_t n_rows = 0;
  int32_t n = 0;
  [[nodiscard]] LaunchShape shape() const { return {{n_rows, ceil_div(n, kMaxThreads), 1}, kMaxThreads, 0}; }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().y * context.n_threads() + context.thread();
    if (i < n) to[int64_t{context.block().x} * n + i] = from[int64_t{ids[context.block().x]} * n + i];
  }
};

}  // namespace bass::cuda
