// Normalisation of rows, by a block each.
#pragma once

#include "kernels/cuda/rows/quantise_row.h"

namespace bass::cuda {

/// The weights of a norm. bias: of layer norm; null: RMS norm.
struct DeviceNorm {
  const float* weight = nullptr;  // [n], or null: there is no norm
  const float* bias = nullptr;    // [n]
};

/// The 16-lane sum of f(values[i]), f adding to a lane's sum; called by one warp, result in all of its lanes. A lane's
/// numbers are on their way to registers while those in front of them are added: a chain of n / 16 additions of 4
/// cycles each.
template <class Context, class Add>
BASS_HD float lane_sum(Context& context, const float* values, int n, Add add) {
  constexpr int kAhead = 16, kBatch = kAhead * kLanes;
  const int lane = context.lane() % kLanes;
  const int n_whole = n / kBatch * kBatch;
  float sum = 0.0f;
  float ahead[kAhead] = {};
  BASS_UNROLL
  for (int k = 0; k < kAhead && n_whole > 0; ++k) ahead[k] = values[lane + k * kLanes];
  for (int base = 0; base < n_whole; base += kBatch) {
    const float* next = values + (base + kBatch < n_whole ? base + kBatch : base) + lane;
    float batch[kAhead];
    BASS_UNROLL
    for (int k = 0; k < kAhead; ++k) batch[k] = ahead[k];
    BASS_UNROLL
    for (int k = 0; k < kAhead; ++k) ahead[k] = next[k * kLanes];
    BASS_UNROLL
    for (int k = 0; k < kAhead; ++k) sum = add(sum, batch[k]);
  }
  for (int i = n_whole + lane; i < n; i += kLanes) sum = add(sum, values[i]);
  return sum_16_lanes(context, sum);
}

/// What a norm takes off and what it multiplies by, for values[n] in shared memory. One warp.
struct NormFactors {
  float mean;
  float factor;
};
template <class Context>
BASS_HD NormFactors norm_factors(Context& context, const float* values, int n, float eps, bool is_layer) {
  float mean = 0.0f;
  if (is_layer) {
    mean = lane_sum(context, values, n, [](float sum, float x) { return sum + x; }) / static_cast<float>(n);
  }
  const float squares = lane_sum(context, values, n, [mean, is_layer](float sum, float x) {
    const float v = is_layer ? x - mean : x;
    return fmaf(v, v, sum);
  });
  return {mean, 1.0f / sqrtf(squares / static_cast<float>(n) + eps)};
}

BASS_HD float normalised(float x, const NormFactors& factors, const DeviceNorm& norm, int i, float weight) {
  if (norm.bias == nullptr) return (x * factors.factor) * weight;
  return fmaf((x - factors.mean) * factors.factor, weight, norm.bias[i]);
}
BASS_HD float normalised(float x, const NormFactors& factors, const DeviceNorm& norm, int i) {
  return normalised(x, factors, norm, i, norm.weight[i]);
}

/// Threads of a block that has a row, and floats of shared memory by which they tell each other of it.
inline constexpr int kWholeRowThreads = 512;
inline constexpr int kRowScratch = kWholeRowThreads / kWarpLen;

/// What the first warp finds of values [n] in shared memory, for all threads of the block. scratch: kRowScratch,
/// shared.
template <class Context>
BASS_HD NormFactors shared_norm_factors(Context& context, const float* values, int n, const DeviceNorm& norm, float eps,
                                        float* scratch) {
  context.sync();
  if (context.warp() == 0) {
    const NormFactors factors = norm_factors(context, values, n, eps, norm.bias != nullptr);
    if (context.lane() == 0) {
      scratch[0] = factors.mean;
      scratch[1] = factors.factor;
    }
  }
  context.sync();
  return {scratch[0], scratch[1]};
}

/// values[0 .. n) of shared memory become their norm. All threads of the block; ends at a barrier.
template <class Context>
BASS_HD void normalise_shared(Context& context, float* values, int n, const DeviceNorm& norm, float eps,
                              float* scratch) {
  const NormFactors factors = shared_norm_factors(context, values, n, norm, eps, scratch);
  for (int i = context.thread(); i < n; i += context.n_threads()) values[i] = normalised(values[i], factors, norm, i);
  context.sync();
}

/// out = norm(x) for some rows, in the forms that `out` asks for; and with add_to, add_to += norm(x). The weights are
/// there before the row is.
struct NormRows {
  static constexpr const char* kName = "norm_rows";
  static constexpr int kMaxThreads = kWholeRowThreads;
  static constexpr bool kCooperates = true;
  static constexpr bool kStartsEarly = true;
  static constexpr int kWeights = 8;  // of a thread, in registers

  const float* x = nullptr;  // row r at x + r * x_stride
  int64_t x_stride = 0;
  const int32_t* ids = nullptr;  // [n_rows] the rows of x; null: 0 ..
  int32_t n_rows = 0;
  int32_t n = 0;
  DeviceNorm norm;
  float eps = 0;
  DeviceActivations out;    // rows 0 ..; n_cols is n
  int64_t out_stride = 0;   // of out's floats; 0: n
  float* add_to = nullptr;  // [n_rows, n], or null

  [[nodiscard]] LaunchShape shape() const {
    return {{n_rows, 1, 1}, kMaxThreads, SharedBytes().add<float>(n).add<float>(kRowScratch).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    float* values = context.template shared<float>(n);
    float* scratch = context.template shared<float>(kRowScratch);
    const int row = context.block().x;
    float weights[kWeights];
    BASS_UNROLL
    for (int k = 0; k < kWeights; ++k) {
      const int i = context.thread() + k * kMaxThreads;
      weights[k] = i < n ? norm.weight[i] : 0.0f;
    }
    context.wait_for_input();
    load_row(context, row, values);
    const NormFactors factors = shared_norm_factors(context, values, n, norm, eps, scratch);
    BASS_UNROLL
    for (int k = 0; k < kWeights; ++k) {
      const int i = context.thread() + k * kMaxThreads;
      if (i < n) put(row, i, normalised(values[i], factors, norm, i, weights[k]), values);
    }
    for (int i = context.thread() + kWeights * kMaxThreads; i < n; i += kMaxThreads) {
      put(row, i, normalised(values[i], factors, norm, i), values);
    }
    if (out.q == nullptr && out.token.q == nullptr) return;
    context.sync();
    if (out.q != nullptr) quantise_columns(context, values, row, n, out);
    if (out.token.q != nullptr)
      quantise_token(context, values, reinterpret_cast<uint32_t*>(scratch), row, n, out.token);
  }

 private:
  template <class Context>
  BASS_HD void load_row(const Context& context, int row, float* values) const {
    const float* from = x + (ids != nullptr ? ids[row] : row) * x_stride;
    float ahead[kWeights];
    BASS_UNROLL
    for (int k = 0; k < kWeights; ++k) {
      const int i = context.thread() + k * kMaxThreads;
      ahead[k] = i < n ? from[i] : 0.0f;
    }
    BASS_UNROLL
    for (int k = 0; k < kWeights; ++k) {
      const int i = context.thread() + k * kMaxThreads;
      if (i < n) values[i] = ahead[k];
    }
    for (int i = context.thread() + kWeights * kMaxThreads; i < n; i += kMaxThreads) values[i] = from[i];
  }

  BASS_HD void put(int row, int i, float value, float* values) const {
    const int64_t at = int64_t{row} * n + i;
    values[i] = value;
    out.store(out_stride > 0 ? row * out_stride + i : at, value);
    if (add_to != nullptr) add_to[at] = add_to[at] + value;
  }
};

}  // namespace bass::cuda
