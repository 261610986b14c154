// Rows of activations in the forms that a matrix product reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/prefetch.h"
#include "base/thread_team.h"
#include "tensor/dtype.h"

namespace bass::cpu {

/// Rows whose quantised groups lie together, so that a kernel that works on several rows finds them at constant
/// distances from one pointer.
inline constexpr int kRowBlock = 4;

/// 1.5 * 2^23. An int32 dot product that starts from the bits of this number is, read as fp32, kDotBias + idot while
/// |idot| < 2^22: fma(it, scale, -kDotBias * scale) is fl(scale * float(idot)) in one operation, without a conversion.
/// Exact because kDotBias * scale is: a scale has 22 significant bits.
inline constexpr float kDotBias = 12582912.0f;
inline constexpr int32_t kDotBiasBits = 0x4B400000;

/// The quantised form of one group of kGroupLen columns in kRowBlock rows:
///   int8_t q[n_planes][kRowBlock][kGroupLen], then the fields, each [kRowBlock].
/// With one plane q of numbers is in [-127, 127] (madd_dot_impl.h needs that it is not -128).
/// Records lie [row block][group].
enum class ActivationField : int {
  kScale,      // float
  kBias,       // float: -kDotBias * scale; only with one plane
  kScaledSum,  // float: scale * float(sum of q)
  kStart8,     // int32: what an unsigned dot product of weights + 8 starts from: -8 * sum of q, and with one plane
               // + kDotBiasBits
  kStart128,   // int32: the same for weights + 128
  kHalfSum0,   // int32: sum of q over the first half of the group
  kHalfSum1,   // int32: over the second
};
inline constexpr int kActivationFields = 7;

// Internal linkage: the files of different instruction sets must not share code.
static constexpr size_t activation_quants_offset(int plane, int row_in_block) {
  return static_cast<size_t>(plane * kRowBlock + row_in_block) * kGroupLen;
}
static constexpr size_t activation_field_offset(int n_planes, ActivationField field, int row_in_block) {
  return activation_quants_offset(n_planes, 0) +
         (static_cast<size_t>(field) * kRowBlock + static_cast<size_t>(row_in_block)) * 4;
}
static constexpr size_t activation_record_bytes(int n_planes) {
  return activation_quants_offset(n_planes, 0) + size_t{kActivationFields} * kRowBlock * 4;
}

/// Rows of a panel: products of tiles (AMX) take so many at a time.
inline constexpr int kPanelRows = 16;

/// What a panel keeps of a row block's fields: a cache line, as rows are rounded by different threads.
template <int kPlanes>
struct alignas(64) PanelFields {
  float scale[kRowBlock];
  float scaled_sum[kRowBlock];
  int32_t half_sums[2][kRowBlock];
};
template <>
struct alignas(64) PanelFields<1> {
  float scale[kRowBlock];
  float bias[kRowBlock];
  float scaled_sum[kRowBlock];
  int16_t half_sums[2][kRowBlock];  // of 16 numbers below 2^7
};

/// The quantised form of one group in kPanelRows rows, a second time, as tiles read it. Panels lie [panel][group].
template <int kPlanes>
struct alignas(64) PanelGroup {
  int8_t q[kPlanes][kPanelRows][kGroupLen];
  PanelFields<kPlanes> fields[kPanelRows / kRowBlock];
};
static constexpr size_t panel_group_bytes(int n_planes) {
  return n_planes == 2 ? sizeof(PanelGroup<2>) : sizeof(PanelGroup<1>);
}

/// Quantised weights read the records, float weights read f32. Pointers of a form that is not wanted are null. Does not
/// own its data.
///
/// Quantisation: per row, per group of kGroupLen: scale = amax / q_max with the two lowest bits of its mantissa
/// cleared, q = round-to-nearest-even(x / scale) computed as x * (q_max / amax); an all-zero group has scale 0 and q 0.
/// One plane (int8): q_max = 127. Two planes ("int16"): q_max = 32512, q = 256 hi + lo with lo in [-128, 127]; plane 0
/// holds hi, plane 1 holds lo. A group whose amax is so small that q_max / amax is infinite counts as all-zero. One
/// whose amax is above 2^100 gives products that are not finite.
struct ActivationRows {
  int n_cols = 0;               // elements of a row; a multiple of kGroupLen where groups is set
  int n_planes = 0;             // 0, 1 or 2
  float* f32 = nullptr;         // [n_rows, n_cols]
  std::byte* groups = nullptr;  // [ceil(n_rows / kRowBlock), n_cols / kGroupLen] records, 16-byte aligned
  std::byte* panels =
      nullptr;  // [ceil(n_rows / kPanelRows), n_cols / kGroupLen] groups, 64-byte aligned; beside groups

  [[nodiscard]] size_t block_bytes() const {
    return static_cast<size_t>(n_cols / kGroupLen) * activation_record_bytes(n_planes);
  }
  /// Record `group` of the block that holds row `row_idx`.
  [[nodiscard]] std::byte* record(int row_idx, int group) const {
    return groups + static_cast<size_t>(row_idx / kRowBlock) * block_bytes() +
           static_cast<size_t>(group) * activation_record_bytes(n_planes);
  }
  /// Group `group` of the panel that holds row `row_idx`.
  [[nodiscard]] std::byte* panel(int row_idx, int group) const {
    return panels + (static_cast<size_t>(row_idx / kPanelRows) * static_cast<size_t>(n_cols / kGroupLen) +
                     static_cast<size_t>(group)) *
                        panel_group_bytes(n_planes);
  }
};

/// Bytes of the records of n_rows rows.
static constexpr size_t activation_bytes(int n_rows, int n_cols, int n_planes) {
  return static_cast<size_t>((n_rows + kRowBlock - 1) / kRowBlock) * static_cast<size_t>(n_cols / kGroupLen) *
         activation_record_bytes(n_planes);
}

/// Bytes of the panels of n_rows rows.
static constexpr size_t panel_bytes(int n_rows, int n_cols, int n_planes) {
  return static_cast<size_t>((n_rows + kPanelRows - 1) / kPanelRows) * static_cast<size_t>(n_cols / kGroupLen) *
         panel_group_bytes(n_planes);
}

/// Asks for the records of these rows and groups, to write them.
static inline void prefetch_records_to_write(const ActivationRows& out, WorkRange rows, WorkRange groups) {
  const size_t n_bytes = static_cast<size_t>(groups.end - groups.begin) * activation_record_bytes(out.n_planes);
  for (int row = rows.begin / kRowBlock * kRowBlock; row < rows.end; row += kRowBlock) {
    prefetch_to_write(out.record(row, groups.begin), n_bytes);
  }
}

/// The same rows from `row_begin` on, a multiple of kRowBlock. Without panels, where none begins there.
static inline ActivationRows rows_from(ActivationRows rows, int row_begin) {
  if (rows.f32 != nullptr) rows.f32 += static_cast<ptrdiff_t>(row_begin) * rows.n_cols;
  if (rows.groups != nullptr) rows.groups = rows.record(row_begin, 0);
  if (rows.panels != nullptr) rows.panels = row_begin % kPanelRows == 0 ? rows.panel(row_begin, 0) : nullptr;
  return rows;
}

}  // namespace bass::cpu
