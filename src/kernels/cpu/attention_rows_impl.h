// The rows of an attention unit: rounded queries, sums and the running softmax, in blocks of up to 16 rows.
// Include after a simd_*.h and math_impl.h.
#pragma once

#include "kernels/cpu/kv_head_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

static_assert(kMaxRowsInTurn < kLanes);

/// From so many rows on blocks have a row in each lane: with kWideVectors > 1 from those on that fill two of them, as
/// one by itself takes longer than its rows one behind the other.
inline constexpr int kMinWideRows = (kWideVectors == 1 ? 0 : kLanes) + kMaxRowsInTurn + 1;

/// Wide blocks and a rest, wide blocks of which the last is not full, or narrow ones alone.
inline constexpr int kMaxRowBlocks =
    (kMaxAttentionRows - 1) / kLanes + (kMaxRowsInTurn + kMaxNarrowRows - 1) / kMaxNarrowRows;
static_assert(kMaxRowBlocks >= (kMaxAttentionRows + kLanes - 1) / kLanes);
static_assert(kMaxRowBlocks * kMaxNarrowRows >= kMinWideRows - 1);

/// Pairs of a narrow row lie so far from those of the next. A constant, as a number of each row's own would take a
/// register.
inline constexpr int kNarrowPairs = kMaxHeadDim / 2;

/// Up to 16 rows, with a row in each lane ("wide") or one behind the other ("narrow").
struct RowBlock {
  int first_row;  // of those of UnitRows
  int n_rows;
  int32_t* q;  // int16 pairs along head_dim; wide: [head_dim / 2, kLanes], narrow: [rows, kNarrowPairs]
  float* o;    // wide: [head_dim, kLanes], narrow: [head_dim / kLanes, kLanes, kLanes], columns innermost
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

/// o / l + 0
BASS_SIMD_INLINE F32x16 result_of(F32x16 o, F32x16 l) { return add(div(o, l), zero_f32()); }

/// A row whose o lies together. o, out: [head_dim]
inline void store_result(const float* o, float l, int head_dim, float* out) {
  for (int d = 0; d < head_dim; d += kLanes) store(out + d, result_of(load(o + d), broadcast(l)));
}

/// Rows [first_row, first_row + n_rows) of a unit; row = token * group_size + head of the group. Up to 340 KiB for the
/// longest heads, on the stack; as much of it is touched as the shape needs.
class UnitRows {
 public:
  UnitRows(const KvShape& shape, const AttentionUnit& unit, int first_row, int n_rows)
      : shape_(shape),
        unit_(unit),
        first_row_(first_row),
        n_rows_(n_rows),
        score_factor_(shape.score_scale > 0 ? kLog2E * shape.score_scale
                                            : kLog2E / __builtin_sqrtf(static_cast<float>(shape.head_dim))) {
    divide();
    int32_t* q = q_;
    for (int b = 0; b < n_blocks_; ++b) {
      blocks_[b].q = q;
      q += kLanes * (b < n_wide_ ? shape.head_dim / 2 : kNarrowPairs);
      blocks_[b].o = o_ + static_cast<ptrdiff_t>(b) * kLanes * shape.head_dim;
      open_block(b);
    }
  }
  UnitRows(const UnitRows&) = delete;
  UnitRows& operator=(const UnitRows&) = delete;

  [[nodiscard]] int n_blocks() const { return n_blocks_; }
  [[nodiscard]] int n_wide() const { return n_wide_; }  // the first of them
  RowBlock* block(int b) { return &blocks_[b]; }
  [[nodiscard]] int first_position() const { return first_position_; }  // the lowest that some row still sees
  [[nodiscard]] int last_first_seen() const { return last_first_seen_; }

  void clear_sums() {
    for (int i = 0; i < n_blocks_ * shape_.head_dim; ++i) store(o_ + static_cast<ptrdiff_t>(i) * kLanes, zero_f32());
  }

  /// states: of the whole unit
  void store_states(float* states) const {
    const ptrdiff_t len = attention_state_len(shape_.head_dim);
    float* rows = states + first_row_ * len;
    for (int b = 0; b < n_blocks_; ++b) {
      float* outs[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const int r = blocks_[b].first_row + lane;
        outs[lane] = lane < blocks_[b].n_rows ? rows + r * len : nullptr;
        if (outs[lane] == nullptr) continue;
        outs[lane][shape_.head_dim] = blocks_[b].m[lane];
        outs[lane][shape_.head_dim + 1] = blocks_[b].l[lane];
        outs[lane][shape_.head_dim + 2] = blocks_[b].u[lane];
      }
      store_rows(b, outs, [](F32x16 o, F32x16 /*l*/) { return o; });
    }
  }

  void store_results() const {
    for (int b = 0; b < n_blocks_; ++b) {
      float* outs[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const int r = blocks_[b].first_row + lane;
        outs[lane] = lane < blocks_[b].n_rows ? token_of(r).out : nullptr;
        if (outs[lane] != nullptr) outs[lane] += head_of(r);
      }
      store_rows(b, outs, [](F32x16 o, F32x16 l) { return result_of(o, l); });
    }
  }

 private:
  [[nodiscard]] const AttentionToken& token_of(int r) const {
    return unit_.tokens[(first_row_ + r) / shape_.group_size()];
  }
  [[nodiscard]] int head_of(int r) const { return (first_row_ + r) % shape_.group_size() * shape_.head_dim; }

  /// Writes what `of` makes of the o of a block's rows to outs [kLanes], null for none. of(o, l): lane by lane
  template <class Function>
  void store_rows(int b, float* const* outs, Function of) const {
    const float* o = blocks_[b].o;
    if (b >= n_wide_) {
      for (int lane = 0; lane < blocks_[b].n_rows; ++lane, o += kLanes) {
        if (outs[lane] == nullptr) continue;
        const F32x16 l = broadcast(blocks_[b].l[lane]);
        for (int d = 0; d < shape_.head_dim; d += kLanes) store(outs[lane] + d, of(load(o + d * kLanes), l));
      }
      return;
    }
    const F32x16 l = load(blocks_[b].l);
    for (int d = 0; d < shape_.head_dim; d += kLanes) {
      F32x16 columns[kLanes];
      for (int i = 0; i < kLanes; ++i) columns[i] = of(load(o + static_cast<ptrdiff_t>(d + i) * kLanes), l);
      transpose(columns);
      for (int lane = 0; lane < kLanes; ++lane) {
        if (outs[lane] != nullptr) store(outs[lane] + d, columns[lane]);
      }
    }
  }

  // Wide blocks first, of which the last need not be full, then narrow ones of about as many rows each.
  void divide() {
    if (n_rows_ >= kMinWideRows) n_wide_ = n_rows_ / kLanes + (n_rows_ % kLanes > kMaxRowsInTurn ? 1 : 0);
    for (int b = 0; b < n_wide_; ++b) add_block(b * kLanes, (b + 1) * kLanes < n_rows_ ? (b + 1) * kLanes : n_rows_);
    const int begin = n_wide_ * kLanes;
    const int n_rest = n_rows_ - begin;  // not above 0 behind a wide block that is not full
    const int n_narrow = n_rest > 0 ? (n_rest + kMaxNarrowRows - 1) / kMaxNarrowRows : 0;
    for (int i = 0; i < n_narrow; ++i) add_block(begin + n_rest * i / n_narrow, begin + n_rest * (i + 1) / n_narrow);
  }

  void add_block(int begin, int end) {
    blocks_[n_blocks_].first_row = begin;
    blocks_[n_blocks_++].n_rows = end - begin;
  }

  void open_block(int b) {
    RowBlock& rows = blocks_[b];
    const int n_lanes = b < n_wide_ ? kLanes : rows.n_rows;
    store_i32(rows.position, zero_i32());
    store_i32(rows.first_seen, zero_i32());
    store(rows.q_scale, zero_f32());
    store(rows.m, broadcast(-__builtin_inff()));
    store(rows.l, zero_f32());
    store(rows.u, zero_f32());
    for (int d = 0; d < shape_.head_dim; d += kLanes) {
      for (int i = 0; i < n_lanes; ++i) store(rows.o + (d + i) * kLanes, zero_f32());
    }
    for (int lane = 0; lane < n_lanes; ++lane) {
      const int row_of_block = lane < rows.n_rows ? lane : rows.n_rows - 1;  // lanes behind the last row repeat it
      open_row(rows.first_row + row_of_block, rows, lane);
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
    rows.q_scale[lane] = scale * score_factor_;
    if (wide) {
      int32_t* pair = rows.q + lane;  // of its own: the compiler would read rows.q for each
      for (int i = 0; i < head_dim; i += 2, pair += kLanes) __builtin_memcpy(pair, q + i, sizeof(*pair));
    } else {
      __builtin_memcpy(rows.q + lane * kNarrowPairs, q, sizeof(*q) * static_cast<size_t>(head_dim));
    }
    if (unit_.before == nullptr) return;
    const float* state = unit_.before + static_cast<ptrdiff_t>(first_row_ + r) * attention_state_len(head_dim);
    for (int d = 0; d < head_dim; ++d) {
      rows.o[wide ? d * kLanes + lane : (d / kLanes * kLanes + lane) * kLanes + d % kLanes] = state[d];
    }
    rows.m[lane] = state[head_dim];
    rows.l[lane] = state[head_dim + 1];
  }

  const KvShape& shape_;
  const AttentionUnit& unit_;
  int first_row_;
  int n_rows_;
  float score_factor_;  // c of kernels.h, "attend"
  int n_blocks_ = 0;
  int n_wide_ = 0;
  int first_position_ = INT32_MAX;
  int last_first_seen_ = 0;
  RowBlock blocks_[kMaxRowBlocks];
  alignas(64) int32_t q_[kMaxRowBlocks * kLanes * kNarrowPairs];
  alignas(64) float o_[kMaxRowBlocks * kLanes * kMaxHeadDim];
};

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
