// Rows as bytes for products with one scale a row: all of a row must be there before any of it can be rounded.
#pragma once

#include "kernels/cuda/rows/activate_rows.h"

namespace bass::cuda {

/// A block has a row, and keeps what fits its registers; the rest is computed twice.
struct QuantiseTokens {
  static constexpr const char* kName = "quantise_tokens";
  static constexpr int kMaxThreads = 1024;
  static constexpr bool kCooperates = true;
  static constexpr int kKept = 4;  // of each thread, four numbers each

  ActivatedRows rows;
  TokenQuants out;

  [[nodiscard]] LaunchShape shape() const {
    return {{rows.n_rows, 1, 1}, kMaxThreads, SharedBytes().add<uint32_t>(kMaxThreads / kWarpLen).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    uint32_t* largest_of_warps = context.template shared<uint32_t>(kMaxThreads / kWarpLen);
    const int row = context.block().x;
    const auto column_of = [&context](int i) { return 4 * (i * kMaxThreads + context.thread()); };
    FourFloats kept[kKept], ups[kKept];  // all are asked for before any is worked on
    uint32_t largest = 0;
    const auto add = [&largest](const FourFloats& four) {
      BASS_UNROLL
      for (int k = 0; k < 4; ++k) largest = larger_size(largest, four.x[k]);
    };
    BASS_UNROLL
    for (int i = 0; i < kKept; ++i) {
      const int column = column_of(i) < rows.n ? column_of(i) : 0;
      kept[i] = rows.load_gate(row, column);
      ups[i] = rows.load_up(row, column);
    }
    BASS_UNROLL
    for (int i = 0; i < kKept; ++i) {
      if (column_of(i) >= rows.n) break;
      kept[i] = rows.activate(kept[i], ups[i]);
      add(kept[i]);
    }
    for (int i = kKept; column_of(i) < rows.n; ++i) add(rows.load(row, column_of(i)));
    const float factor = token_factor(context, largest, largest_of_warps, row, out);
    BASS_UNROLL
    for (int i = 0; i < kKept; ++i) {
      if (column_of(i) >= rows.n) break;
      store(kept[i], row, column_of(i), factor);
    }
    for (int i = kKept; column_of(i) < rows.n; ++i) store(rows.load(row, column_of(i)), row, column_of(i), factor);
  }

 private:
  BASS_HD void store(const FourFloats& four, int row, int column, float factor) const {
    store_bytes(four, rows.n - column, factor, out.q + int64_t{row} * rows.n + column, out.numbers);
  }
};

}  // namespace bass::cuda
