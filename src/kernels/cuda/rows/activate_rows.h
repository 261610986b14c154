// What stands between two products: the activation of a feed-forward block, and rounding.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/rows/quantise_row.h"

namespace bass::cuda {

/// out = up * f(gate) (kernels.h, `activate`), or out = gate where there is no activation. A block has 1024 columns of
/// a row.
struct ActivateRows {
  static constexpr const char* kName = "activate_rows";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = true;
  static constexpr int kColumns = 1024;
  enum class Kind : int32_t { kSilu, kGeluTanh, kGelu, kRelu, kNone };  // as cpu::Activation

  const float* gate = nullptr;  // [n_rows, n]
  const float* up = nullptr;    // [n_rows, n], or null: f(gate) gate
  int32_t n_rows = 0;
  int32_t n = 0;
  Kind kind = Kind::kNone;
  DeviceActivations out;  // n_cols is n; out.f32 may be gate

  [[nodiscard]] LaunchShape shape() const {
    SharedBytes bytes;
    return {{n_rows, ceil_div(n, kColumns), 1}, kMaxThreads, add_quantise_room(bytes, kColumns).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    float* values = context.template shared<float>(kColumns);
    float* inverses = context.template shared<float>(kColumns / kGroupLen);
    const int row = context.block().x;
    const int begin = context.block().y * kColumns;
    const int end = n - begin < kColumns ? n : begin + kColumns;
    for (int i = begin + context.thread(); i < end; i += context.n_threads()) {
      const int64_t at = int64_t{row} * n + i;
      const float value = activated(gate[at], at);
      values[i - begin] = value;
      out.store(at, value);
    }
    context.sync();
    if (out.q != nullptr) quantise_columns(context, values, inverses, row, begin, end, out);
  }

 private:
  BASS_HD float activated(float g, int64_t at) const {
    if (kind == Kind::kNone) return g;
    const float product = up != nullptr ? up[at] * g : g;
    if (kind == Kind::kSilu) return silu(g, product);
    if (kind == Kind::kGeluTanh) return gelu_tanh(g, product);
    return kind == Kind::kGelu ? gelu(g, product) : relu(g, product);
  }
};

/// x = soft_cap(x), kernels.h
struct CapRows {
  static constexpr const char* kName = "cap_rows";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = false;
  float* x = nullptr;  // row r at x + r * stride
  int64_t stride = 0;
  int32_t n_rows = 0;
  int32_t n = 0;
  float cap = 0;
  [[nodiscard]] LaunchShape shape() const { return {{n_rows, ceil_div(n, kMaxThreads), 1}, kMaxThreads, 0}; }
  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().y * context.n_threads() + context.thread();
    if (i >= n) return;
    float* place = x + context.block().x * stride + i;
    *place = soft_cap(*place, cap);
  }
};

}  // namespace bass::cuda
