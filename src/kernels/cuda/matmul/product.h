// Matrix products in the CPU backend's stated arithmetic (kernels/cpu/kernels.h, `matmul`): an exact int32 dot product
// a group, one fp32 FMA chain over the groups.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/cuda/matmul/weights.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

/// What a product computes: out[r][c] (+)= sum_k W[c][k] x[r][k].
struct ProductArguments {
  DeviceMatrix w;
  DeviceActivations x;
  float* out = nullptr;  // [n_rows, out_stride]; channel c of row r at out[r * out_stride + c]
  int64_t out_stride = 0;
  int32_t n_rows = 0;
  int32_t accumulates = 0;
};

BASS_HD void store_product(const ProductArguments& a, int row, int channel, float sum) {
  if (row >= a.n_rows || channel >= a.w.n_out) return;
  if (a.w.bias != nullptr) sum = sum + a.w.bias[channel];
  float* out = a.out + row * a.out_stride + channel;
  *out = a.accumulates != 0 ? *out + sum : sum;
}

/// Of numbers with a scale for each row and channel: fl(sum * fl(row's scale * channel's scale)).
BASS_HD void store_scaled(const ProductArguments& a, int row, int channel, float sum) {
  if (row >= a.n_rows || channel >= a.w.n_out) return;
  store_product(a, row, channel, sum * (a.x.token.scale[row] * a.w.channel_scales[channel]));
}

/// A thread computes channels g and g + 8 of a tile for kRows rows, from dot products of four bytes. Threads of a tile
/// lie together, so that a warp reads four tiles' groups of 512 (or 256) bytes.
template <int kBits, ScaleKind kKind, bool kHasMinima>
struct ByteProduct {
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;
  static constexpr int kRows = 4;
  static constexpr int kThreadsPerTile = 8;

  ProductArguments a;

  [[nodiscard]] LaunchShape shape() const {
    return {{ceil_div(a.w.n_tiles() * kThreadsPerTile, kMaxThreads), ceil_div(a.n_rows, kRows), 1}, kMaxThreads, 0};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int idx = context.block().x * context.n_threads() + context.thread();
    const int tile = idx / kThreadsPerTile;
    const int g = idx % kThreadsPerTile;
    if (tile >= a.w.n_tiles()) return;
    const int first_row = context.block().y * kRows;
    float sums[2][kRows] = {};
    const int n_groups = a.w.n_in / kGroupLen;
    for (int group = 0; group < n_groups; ++group) add_group(context, tile, g, group, first_row, sums);
    for (int half = 0; half < 2; ++half) {
      for (int r = 0; r < kRows; ++r) store_product(a, first_row + r, tile * kChannels + g + half * 8, sums[half][r]);
    }
  }

 private:
  struct alignas(kBits * 2) Record {
    uint32_t words[kBits / 2];
  };

  // The quants of a group of a channel: eight words of four, k ascending.
  BASS_HD void load_quants(int tile, int g, int group, uint32_t (&q)[2][8]) const {
    const auto* records = reinterpret_cast<const Record*>(a.w.quants) +
                          (int64_t{tile} * (a.w.n_in / kGroupLen) + group) * kWarpLen + g * 4;
    for (int t = 0; t < 4; ++t) {
      const Record record = records[t];
      for (int half = 0; half < 2; ++half) {
        if constexpr (kBits == 8) {
          q[half][t] = record.words[half];
          q[half][4 + t] = record.words[2 + half];
        } else {
          q[half][t] = record.words[half] & 0x0F0F0F0Fu;
          q[half][4 + t] = record.words[half] >> 4 & 0x0F0F0F0Fu;
        }
      }
    }
  }

  // Dot products of the first and of the second half of a group, of the quants as they are stored.
  template <class Context>
  BASS_HD void dot_halves(const Context& context, const uint32_t (&q)[8], const int8_t* x, int32_t (&dots)[2]) const {
    const auto* words = reinterpret_cast<const int32_t*>(x);
    for (int t = 0; t < 8; ++t) dots[t / 4] = context.dot4(static_cast<int32_t>(q[t]), words[t], dots[t / 4]);
  }

  template <class Context>
  BASS_HD void add_group(const Context& context, int tile, int g, int group, int first_row,
                         float (&sums)[2][kRows]) const {
    uint32_t q[2][8];
    load_quants(tile, g, group, q);
    for (int r = 0; r < kRows; ++r) {
      const int row = first_row + r < a.n_rows ? first_row + r : a.n_rows - 1;
      const int64_t x_at = int64_t{row} * a.x.n_cols + int64_t{group} * kGroupLen;
      const int64_t x_group = int64_t{row} * (a.x.n_cols / kGroupLen) + group;
      const float x_scale = a.x.scale[x_group];
      const int32_t x_sums[2] = {a.x.sums[x_group * 2], a.x.sums[x_group * 2 + 1]};
      for (int half = 0; half < 2; ++half) {
        int32_t dots[2] = {};
        dot_halves(context, q[half], a.x.q + x_at, dots);
        if (a.x.n_planes == 2) {
          for (int32_t& dot : dots) dot *= 256;
          dot_halves(context, q[half], a.x.q + a.x.plane_stride + x_at, dots);
        }
        if (kBits == 4 && !kHasMinima) {  // the offset of 8
          for (int i = 0; i < 2; ++i) dots[i] -= a.w.offset * x_sums[i];
        }
        sums[half][r] = add_dots(tile, group, g + half * 8, x_scale, dots, x_sums, sums[half][r]);
      }
    }
  }

  BASS_HD float add_dots(int tile, int group, int channel, float x_scale, const int32_t (&dots)[2],
                         const int32_t (&x_sums)[2], float sum) const {
    if constexpr (kKind == ScaleKind::kWholeHalf) {
      for (int i = 0; i < 2; ++i) sum = add_dot(tile, group * 2 + i, channel, x_scale, dots[i], x_sums[i], sum);
      return sum;
    } else {
      return add_dot(tile, group, channel, x_scale, dots[0] + dots[1], x_sums[0] + x_sums[1], sum);
    }
  }

  BASS_HD float add_dot(int tile, int scale_idx, int channel, float x_scale, int32_t dot, int32_t x_sum,
                        float sum) const {
    sum = fmaf(weight_scale<kKind>(a.w, tile, scale_idx, channel), x_scale * static_cast<float>(dot), sum);
    if constexpr (kHasMinima) {
      sum = fmaf(weight_minimum<kKind>(a.w, tile, scale_idx, channel), x_scale * static_cast<float>(x_sum), sum);
    }
    return sum;
  }
};

/// Floats: a thread computes one channel for kRows rows.
struct FloatProduct {
  static constexpr const char* kName = "product_float";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;
  static constexpr int kRows = 4;

  ProductArguments a;

  [[nodiscard]] LaunchShape shape() const {
    return {{ceil_div(a.w.n_out, kMaxThreads), ceil_div(a.n_rows, kRows), 1}, kMaxThreads, 0};
  }

  BASS_HD static int first_row(const Index3& block) { return block.y * kRows; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int channel = context.block().x * context.n_threads() + context.thread();
    if (channel >= a.w.n_out) return;
    const int first = first_row(context.block());
    float sums[kRows] = {};
    for (int k = 0; k < a.w.n_in; ++k) {
      const float w = float_weight(a.w, channel, k);
      for (int r = 0; r < kRows; ++r) {
        const int row = first + r < a.n_rows ? first + r : a.n_rows - 1;
        sums[r] = fmaf(w, a.x.f32[int64_t{row} * a.x.n_cols + k], sums[r]);
      }
    }
    for (int r = 0; r < kRows; ++r) store_product(a, first + r, channel, sums[r]);
  }
};

/// out += bias, behind a library's product.
struct AddBias {
  static constexpr const char* kName = "add_bias";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = false;
  float* out = nullptr;  // row r at out + r * stride
  int64_t stride = 0;
  int32_t n_rows = 0;
  int32_t n = 0;
  const float* bias = nullptr;  // [n]

  [[nodiscard]] LaunchShape shape() const { return {{n_rows, ceil_div(n, kMaxThreads), 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int i = context.block().y * context.n_threads() + context.thread();
    if (i < n) out[context.block().x * stride + i] += bias[i];
  }
};

/// out (+)= fl(sum * fl(row's scale * channel's scale)) + bias: what a library's product of bytes leaves to do.
struct ScaleSums {
  static constexpr const char* kName = "scale_sums";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = false;
  ProductArguments a;

  [[nodiscard]] LaunchShape shape() const { return {{a.n_rows, ceil_div(a.w.n_out, kMaxThreads), 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int channel = context.block().y * context.n_threads() + context.thread();
    if (channel >= a.w.n_out) return;
    const int row = context.block().x;
    const int64_t at = int64_t{row} * library_padded(a.w.n_out, a.w.library) + channel;
    const float sum = a.w.library == LibraryNumbers::kInt8
                          ? static_cast<float>(reinterpret_cast<const int32_t*>(a.x.token.sums)[at])
                          : reinterpret_cast<const float*>(a.x.token.sums)[at];
    store_scaled(a, row, channel, sum);
  }
};

struct Product4 : ByteProduct<4, ScaleKind::kPlain, false> {  // Q4_0
  static constexpr const char* kName = "product_4";
};
struct Product4Minima : ByteProduct<4, ScaleKind::kPlain, true> {  // Q4_1
  static constexpr const char* kName = "product_4_minima";
};
struct Product4Whole : ByteProduct<4, ScaleKind::kWhole, true> {  // Q4_K
  static constexpr const char* kName = "product_4_whole";
};
struct Product8 : ByteProduct<8, ScaleKind::kPlain, false> {  // Q8_0, Q5_0, IQ4_NL
  static constexpr const char* kName = "product_8";
};
struct Product8Minima : ByteProduct<8, ScaleKind::kPlain, true> {  // Q5_1
  static constexpr const char* kName = "product_8_minima";
};
struct Product8Whole : ByteProduct<8, ScaleKind::kWhole, true> {  // Q5_K
  static constexpr const char* kName = "product_8_whole";
};
struct Product8Half : ByteProduct<8, ScaleKind::kWholeHalf, false> {  // Q3_K, Q6_K
  static constexpr const char* kName = "product_8_half";
};
struct Product8HalfMinima : ByteProduct<8, ScaleKind::kWholeHalf, true> {  // Q2_K
  static constexpr const char* kName = "product_8_half_minima";
};

}  // namespace bass::cuda
