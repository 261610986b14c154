// Rotation of q and k, and the KV cache.
#pragma once

#include "kernels/cuda/rows/norm_rows.h"
#include "kernels/cuda/step_rows.h"

namespace bass::cuda {

/// Tables of rotations. Pair i of position p: cosine at [p, i], sine behind all cosines.
struct DeviceRope {
  const float* tables = nullptr;  // [n_tables, 2, n_positions, rope_dim / 2]
  int32_t n_positions = 0;
  int32_t rope_dim = 0;
  int32_t table = -1;      // of the layer, or -1: it does not rotate
  int32_t long_table = 0;  // of longer texts than long_from; 0: none
  int32_t long_from = 0;
};

/// Normalises and rotates the heads of q and k, leaves q in place, and writes k and v of every row to their pages. A
/// warp has one head of one row.
struct RopeAndWriteKv {
  static constexpr const char* kName = "rope_and_write_kv";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = true;
  static constexpr bool kStartsEarly = true;  // what it reads before was there when the pass began
  static constexpr int kWarps = kMaxThreads / kWarpLen;

  DeviceBatch batch;
  DeviceKv kv;
  int64_t layer_offset = 0;  // of the layer in a page
  float* qkv = nullptr;      // [n_rows, (n_heads + 2 n_kv_heads) head_dim]
  DeviceRope rope;
  const float* q_norm = nullptr;  // [n_heads, head_dim], or null: heads are not normalised here
  const float* k_norm = nullptr;  // [n_kv_heads, head_dim]
  float eps = 0;

  [[nodiscard]] LaunchShape shape() const {
    SharedBytes bytes;
    bytes.add<float>(kWarps * kv.head_dim);
    return {{batch.n_rows, ceil_div(kv.n_heads + 2 * kv.n_kv_heads, kWarps), 1}, kMaxThreads, bytes.bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    float* values = context.template shared<float>(kWarps * kv.head_dim) + context.warp() * kv.head_dim;
    const int head = context.block().y * kWarps + context.warp();  // q, then k, then v
    const int n_heads = kv.n_heads + 2 * kv.n_kv_heads;
    const int row_idx = context.block().x;
    const DeviceRow row = batch.rows[row_idx];
    const DeviceSegment segment = batch.segments[row.segment];
    const int32_t page = batch.pages[segment.first_page + row.position / kPageLen];
    const bool is_v = head >= kv.n_heads + kv.n_kv_heads;
    const Rotations rotations = is_v ? Rotations{} : rotations_of(context, row.position, segment);
    context.wait_for_input();
    if (head >= n_heads) return;  // the whole warp
    float* x = qkv + (int64_t{row_idx} * n_heads + head) * kv.head_dim;
    for (int i = context.lane(); i < kv.head_dim; i += kWarpLen) values[i] = x[i];
    context.sync_warp();
    const bool is_q = head < kv.n_heads;
    if (!is_v && q_norm != nullptr) {
      normalise_head(context, values, is_q ? q_norm + head * kv.head_dim : k_norm + (head - kv.n_heads) * kv.head_dim);
    }
    if (!is_v) rotate(context, values, rotations);
    if (is_q) {
      for (int i = context.lane(); i < kv.head_dim; i += kWarpLen) x[i] = values[i];
      return;
    }
    const int kv_head = (head - kv.n_heads) % kv.n_kv_heads;
    std::byte* place = kv.pages + page * kv.page_bytes + layer_offset + kv_head * kv.head_bytes;
    write_head(context, values, is_v, row.position % kPageLen, place);
  }

 private:
  template <class Context>
  BASS_HD void normalise_head(Context& context, float* values, const float* weight) const {
    const DeviceNorm norm{weight, nullptr};
    const NormFactors factors = norm_factors(context, values, kv.head_dim, eps, false);
    context.sync_warp();  // all have read
    for (int i = context.lane(); i < kv.head_dim; i += kWarpLen) values[i] = normalised(values[i], factors, norm, i);
    context.sync_warp();
  }

  /// Where the row's rotations are, and a lane's first ones.
  struct Rotations {
    static constexpr int kAhead = 2;
    const float* cosines = nullptr;
    const float* sines = nullptr;
    float cosine[kAhead] = {};
    float sine[kAhead] = {};
  };
  template <class Context>
  BASS_HD Rotations rotations_of(const Context& context, int position, const DeviceSegment& segment) const {
    Rotations rotations;
    if (rope.table < 0) return rotations;
    const bool is_long = rope.long_table > 0 && segment.max_text_len > rope.long_from;
    const int n_pairs = rope.rope_dim / 2;
    rotations.cosines =
        rope.tables + (int64_t{is_long ? rope.long_table : rope.table} * 2 * rope.n_positions + position) * n_pairs;
    rotations.sines = rotations.cosines + int64_t{rope.n_positions} * n_pairs;
    BASS_UNROLL
    for (int i = 0; i < Rotations::kAhead; ++i) {
      const int pair = context.lane() + i * kWarpLen;
      if (pair >= n_pairs) break;
      rotations.cosine[i] = rotations.cosines[pair];
      rotations.sine[i] = rotations.sines[pair];
    }
    return rotations;
  }

  BASS_HD static void rotate_pair(float* values, int pair, float cosine, float sine) {
    const float a = values[2 * pair];
    const float b = values[2 * pair + 1];
    values[2 * pair] = fmaf(b, -sine, a * cosine);
    values[2 * pair + 1] = fmaf(a, sine, b * cosine);
  }
  template <class Context>
  BASS_HD void rotate(Context& context, float* values, const Rotations& rotations) const {
    if (rope.table < 0) return;
    const int n_pairs = rope.rope_dim / 2;
    BASS_UNROLL
    for (int i = 0; i < Rotations::kAhead; ++i) {
      const int pair = context.lane() + i * kWarpLen;
      if (pair < n_pairs) rotate_pair(values, pair, rotations.cosine[i], rotations.sine[i]);
    }
    for (int pair = context.lane() + Rotations::kAhead * kWarpLen; pair < n_pairs; pair += kWarpLen) {
      rotate_pair(values, pair, rotations.cosines[pair], rotations.sines[pair]);
    }
    context.sync_warp();
  }

  // kernels.h, write_kv. What is not a number becomes one, too: caches of floats must hold nothing else.
  template <class Context>
  BASS_HD void write_head(Context& context, float* values, bool is_v, int slot, std::byte* place) const {
    const int n = kv.head_dim;
    for (int i = context.lane(); i < n; i += kWarpLen) values[i] = max_of(min_of(values[i], 65504.0f), -65504.0f);
    context.sync_warp();
    if (is_float(kv.numbers)) return write_floats(context, values, is_v, slot, reinterpret_cast<uint16_t*>(place));
    const bool is_int8 = kv.numbers == KvNumbers::kInt8;
    const float steps = is_int8 ? 127.0f : 32512.0f;
    float size = 0.0f;
    if (is_v || is_int8) {
      for (int i = context.lane(); i < n; i += kWarpLen) size = max_of(size, fabsf(values[i]));
      size = max_of_warp(context, size);
    } else {
      size = sqrtf(lane_sum(context, values, n, [](float sum, float x) { return fmaf(x, x, sum); }));
    }
    const bool is_zero = !(size > 1e-30f);
    const float inverse = is_zero ? 0.0f : steps / size;
    auto* scales =
        reinterpret_cast<float*>(place + int64_t{2} * n * kPageLen * bytes_of(kv.numbers)) + (is_v ? kPageLen : 0);
    if (context.lane() == 0) scales[slot] = is_zero ? 0.0f : size * (1.0f / steps);
    for (int i = context.lane(); i < n; i += kWarpLen) {
      const int32_t q = round_to_int(values[i] * inverse);
      const int at = number_at(is_v, slot, i);
      if (is_int8) {
        reinterpret_cast<int8_t*>(place)[at] = static_cast<int8_t>(q);
      } else {
        reinterpret_cast<int16_t*>(place)[at] = static_cast<int16_t>(q);
      }
    }
  }
  template <class Context>
  BASS_HD void write_floats(Context& context, const float* values, bool is_v, int slot, uint16_t* place) const {
    for (int i = context.lane(); i < kv.head_dim; i += kWarpLen) {
      const uint32_t pair =
          kv.numbers == KvNumbers::kF16 ? context.pair_f16(values[i], 0.0f) : context.pair_bf16(values[i], 0.0f);
      place[number_at(is_v, slot, i)] = static_cast<uint16_t>(pair);
    }
  }
  /// Of dimension i, in a head's part of a page.
  [[nodiscard]] BASS_HD int number_at(bool is_v, int slot, int i) const {
    const int n = kv.head_dim;
    return is_v ? n * kPageLen + slot / 2 * n * 2 + 2 * i + slot % 2 : (i / 2 * kPageLen + slot) * 2 + i % 2;
  }
};

}  // namespace bass::cuda
