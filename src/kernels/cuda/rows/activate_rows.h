// What stands between two products: the activation of a feed-forward block, and rounding.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/rows/quantise_row.h"

namespace bass::cuda {

/// Rows of up * f(gate) (kernels.h, `activate`), or of gate where there is no activation.
struct ActivatedRows {
  enum class Kind : int32_t { kSilu, kGeluTanh, kGelu, kRelu, kNone };  // as cpu::Activation

  const float* gate = nullptr;  // [n_rows, n]: row r at gate + r * stride
  const float* up = nullptr;    // the same, or null: f(gate) gate
  int64_t stride = 0;
  int32_t n_rows = 0;
  int32_t n = 0;
  Kind kind = Kind::kNone;

  /// Columns column .. + 3 of a row, as far as they are there.
  [[nodiscard]] BASS_HD FourFloats load(int row, int column) const {
    return activate(load_gate(row, column), load_up(row, column));
  }
  [[nodiscard]] BASS_HD FourFloats load_gate(int row, int column) const {
    return load_four(gate + row * stride + column, n - column);
  }
  /// Anything where there is no up.
  [[nodiscard]] BASS_HD FourFloats load_up(int row, int column) const {
    return up != nullptr ? load_four(up + row * stride + column, n - column) : FourFloats{};
  }
  [[nodiscard]] BASS_HD FourFloats activate(FourFloats four, const FourFloats& other) const {
    if (kind == Kind::kNone) return four;
    BASS_UNROLL
    for (int i = 0; i < 4; ++i) four.x[i] = activated(four.x[i], up != nullptr ? other.x[i] * four.x[i] : four.x[i]);
    return four;
  }

 private:
  [[nodiscard]] BASS_HD float activated(float g, float product) const {
    if (kind == Kind::kSilu) return silu(g, product);
    if (kind == Kind::kGeluTanh) return gelu_tanh(g, product);
    return kind == Kind::kGelu ? gelu(g, product) : relu(g, product);
  }
};

/// out = rows, a thread four columns.
struct ActivateRows {
  static constexpr const char* kName = "activate_rows";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = true;
  static constexpr int kColumns = 4 * kMaxThreads;

  ActivatedRows rows;
  DeviceActivations out;  // n_cols is rows.n; out.f32 may be rows.gate, if its rows follow one another

  [[nodiscard]] LaunchShape shape() const { return {{rows.n_rows, ceil_div(rows.n, kColumns), 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int row = context.block().x;
    const int column = context.block().y * kColumns + 4 * context.thread();
    const FourFloats four = column < rows.n ? rows.load(row, column) : FourFloats{};
    for (int i = 0; i < 4 && column + i < rows.n; ++i) out.store(int64_t{row} * rows.n + column + i, four.x[i]);
    if (out.q != nullptr) quantise_four(context, four, column < rows.n, row, column, out);
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
