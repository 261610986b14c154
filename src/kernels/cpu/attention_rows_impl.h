// The rows of an attention unit: rounded queries, sums and the running softmax, in blocks of 16 rows.
// Include after a simd_*.h and math_impl.h.
#pragma once

#include "kernels/cpu/kv_head_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kMaxRowBlocks = (kMaxAttentionRows + kLanes - 1) / kLanes;

/// 16 rows, with a row in each lane ("wide") or one behind the other ("narrow").
struct RowBlock {
  int32_t* q;  // int16 pairs along head_dim; wide: [head_dim / 2, kLanes], narrow: [rows, head_dim / 2]
  float* o;    // wide: [head_dim, kLanes], narrow: [rows, head_dim]
  alignas(64) int32_t position[kLanes];  // the last one that the row sees
  alignas(64) int32_t first_seen[kLanes];
  alignas(64) float q_scale[kLanes];  // fl(s_q c)
  alignas(64) float m[kLanes];
  alignas(64) float l[kLanes];
  alignas(64) float u[kLanes];  // of a chunk that is not merged
};

BASS_SIMD_INLINE I32x16 broadcast_pair(const int16_t* pair) {
  int32_t bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return broadcast_i32(bits);
}

/// out = o / l + 0. Column d of o is at o[d * stride].
inline void store_result(const float* o, int stride, float l, int head_dim, float* out) {
  alignas(64) float row[kMaxHeadDim];
  for (int d = 0; d < head_dim; ++d) row[d] = o[d * stride];
  for (int d = 0; d < head_dim; d += kLanes) store(out + d, add(div(load(row + d), broadcast(l)), zero_f32()));
}

/// Rows [first_row, first_row + n_rows) of a unit; row = token * group_size + head of the group. About 300 KiB for the
/// longest heads, on the stack; as much of it is touched as the shape needs.
class UnitRows {
 public:
  UnitRows(const KvShape& shape, const AttentionUnit& unit, int first_row, int n_rows)
      : shape_(shape), unit_(unit), first_row_(first_row), n_rows_(n_rows) {
    n_narrow_ = n_rows % kLanes;
    if (n_narrow_ > kMaxNarrowRows) n_narrow_ = 0;
    n_wide_ = (n_rows - n_narrow_ + kLanes - 1) / kLanes;
    const int n_lanes = n_wide_ * kLanes + n_narrow_;  // more than rows where the last wide block is not full
    for (int b = 0; b * kLanes < n_lanes; ++b) {
      blocks_[b].q = q_ + static_cast<ptrdiff_t>(b) * kLanes * shape.head_dim / 2;
      blocks_[b].o = o_ + static_cast<ptrdiff_t>(b) * kLanes * shape.head_dim;
      open_block(b);
    }
  }
  UnitRows(const UnitRows&) = delete;
  UnitRows& operator=(const UnitRows&) = delete;

  [[nodiscard]] int n_wide() const { return n_wide_; }      // blocks
  [[nodiscard]] int n_narrow() const { return n_narrow_; }  // rows of the block behind them
  RowBlock* block(int b) { return &blocks_[b]; }
  [[nodiscard]] int first_position() const { return first_position_; }  // the lowest that some row still sees
  [[nodiscard]] int last_first_seen() const { return last_first_seen_; }

  void clear_sums() {
    const int n_blocks = n_wide_ + (n_narrow_ > 0 ? 1 : 0);
    for (int i = 0; i < n_blocks * shape_.head_dim; ++i) store(o_ + static_cast<ptrdiff_t>(i) * kLanes, zero_f32());
  }

  /// states: of the whole unit
  void store_states(float* states) const {
    for (int r = 0; r < n_rows_; ++r) {
      const RowBlock& rows = blocks_[r / kLanes];
      float* state = states + static_cast<ptrdiff_t>(first_row_ + r) * attention_state_len(shape_.head_dim);
      for (int d = 0; d < shape_.head_dim; ++d) state[d] = o_of(r)[d * o_stride(r)];
      state[shape_.head_dim] = rows.m[r % kLanes];
      state[shape_.head_dim + 1] = rows.l[r % kLanes];
      state[shape_.head_dim + 2] = rows.u[r % kLanes];
    }
  }

  void store_results() const {
    for (int r = 0; r < n_rows_; ++r) {
      float* out = token_of(r).out;
      if (out == nullptr) continue;
      store_result(o_of(r), o_stride(r), blocks_[r / kLanes].l[r % kLanes], shape_.head_dim, out + head_of(r));
    }
  }

 private:
  [[nodiscard]] const AttentionToken& token_of(int r) const {
    return unit_.tokens[(first_row_ + r) / shape_.group_size()];
  }
  [[nodiscard]] int head_of(int r) const { return (first_row_ + r) % shape_.group_size() * shape_.head_dim; }
  [[nodiscard]] bool is_wide(int r) const { return r / kLanes < n_wide_; }
  [[nodiscard]] int o_stride(int r) const { return is_wide(r) ? kLanes : 1; }
  [[nodiscard]] const float* o_of(int r) const {
    return blocks_[r / kLanes].o + (is_wide(r) ? r % kLanes : r % kLanes * shape_.head_dim);
  }

  void open_block(int b) {
    const int n_lanes = b < n_wide_ ? kLanes : n_narrow_;
    RowBlock& rows = blocks_[b];
    store_i32(rows.position, zero_i32());
    store_i32(rows.first_seen, zero_i32());
    store(rows.q_scale, zero_f32());
    store(rows.m, broadcast(-__builtin_inff()));
    store(rows.l, zero_f32());
    store(rows.u, zero_f32());
    for (int lane = 0; lane < n_lanes; ++lane) {
      const int r = b * kLanes + lane;
      open_row(r < n_rows_ ? r : n_rows_ - 1, rows, lane);  // lanes behind the last row repeat it
    }
  }

  void open_row(int r, RowBlock& rows, int lane) {
    const int head_dim = shape_.head_dim;
    const bool wide = &rows < blocks_ + n_wide_;
    const AttentionToken& token = token_of(r);
    rows.position[lane] = token.position;
    rows.first_seen[lane] = token.first_seen;
    if (token.position < first_position_) first_position_ = token.position;
    if (token.first_seen > last_first_seen_) last_first_seen_ = token.first_seen;
    alignas(64) int16_t q[kMaxHeadDim];
    const float scale = quantise_by_norm(token.q + head_of(r), head_dim, q);
    rows.q_scale[lane] = scale * (shape_.score_scale > 0 ? kLog2E * shape_.score_scale
                                                         : kLog2E / __builtin_sqrtf(static_cast<float>(head_dim)));
    int32_t* pairs = rows.q + (wide ? lane : lane * (head_dim / 2));
    const int pair_stride = wide ? kLanes : 1;
    for (int i = 0; i < head_dim / 2; ++i) __builtin_memcpy(&pairs[i * pair_stride], &q[2 * i], sizeof(int32_t));
    float* o = rows.o + (wide ? lane : lane * head_dim);
    const int stride = wide ? kLanes : 1;
    if (unit_.before == nullptr) {
      for (int d = 0; d < head_dim; ++d) o[d * stride] = 0.0f;
      return;
    }
    const float* state = unit_.before + static_cast<ptrdiff_t>(first_row_ + r) * attention_state_len(head_dim);
    for (int d = 0; d < head_dim; ++d) o[d * stride] = state[d];
    rows.m[lane] = state[head_dim];
    rows.l[lane] = state[head_dim + 1];
  }

  const KvShape& shape_;
  const AttentionUnit& unit_;
  int first_row_;
  int n_rows_;
  int n_wide_ = 0;
  int n_narrow_ = 0;
  int first_position_ = INT32_MAX;
  int last_first_seen_ = 0;
  RowBlock blocks_[kMaxRowBlocks];
  alignas(64) int32_t q_[kMaxRowBlocks * kLanes * kMaxHeadDim / 2];
  alignas(64) float o_[kMaxRowBlocks * kLanes * kMaxHeadDim];
};

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
