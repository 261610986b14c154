// Rounding rows of activations for products on tiles: their records, and from them their panels (activations.h).
// Include after a simd_*.h.
#pragma once

#include <type_traits>

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// kRows rows of a row block, from row `first` of it on, of one group. row_in_panel: of the row block's first row
template <int kPlanes, int kRows>
BASS_SIMD_INLINE void copy_to_panel(const std::byte* record, int first, int row_in_panel, PanelGroup<kPlanes>* panel) {
  for (int p = 0; p < kPlanes; ++p) {
    __builtin_memcpy(panel->q[p][row_in_panel + first], record + activation_quants_offset(p, first),
                     size_t{kRows} * kGroupLen);
  }
  PanelFields<kPlanes>& fields = panel->fields[row_in_panel / kRowBlock];
  const auto field = [&](ActivationField which) { return record + activation_field_offset(kPlanes, which, first); };
  const auto copy = [&](ActivationField which, float* to) __attribute__((always_inline)) {
    __builtin_memcpy(to + first, field(which), size_t{kRows} * 4);
  };
  copy(ActivationField::kScale, fields.scale);
  if constexpr (kPlanes == 1) copy(ActivationField::kBias, fields.bias);
  copy(ActivationField::kScaledSum, fields.scaled_sum);
  const auto copy_sums = [&](ActivationField which, auto* to) __attribute__((always_inline)) {
    int32_t sums[kRows];
    __builtin_memcpy(sums, field(which), sizeof(sums));
    for (int r = 0; r < kRows; ++r) to[first + r] = static_cast<std::remove_pointer_t<decltype(to)>>(sums[r]);
  };
  copy_sums(ActivationField::kHalfSum0, fields.half_sums[0]);
  copy_sums(ActivationField::kHalfSum1, fields.half_sums[1]);
}

template <int kPlanes>
void copy_to_panels(const ActivationRows& x, WorkRange rows, WorkRange groups) {
  for (int row = rows.begin; row < rows.end;) {
    const bool is_block = row % kRowBlock == 0 && row + kRowBlock <= rows.end;
    const int first = row % kRowBlock;
    const int row_in_panel = row % kPanelRows - first;
    for (int g = groups.begin; g < groups.end; ++g) {
      auto* panel = reinterpret_cast<PanelGroup<kPlanes>*>(x.panel(row, g));
      if (is_block) {
        copy_to_panel<kPlanes, kRowBlock>(x.record(row, g), 0, row_in_panel, panel);
      } else {
        copy_to_panel<kPlanes, 1>(x.record(row, g), first, row_in_panel, panel);
      }
    }
    row += is_block ? kRowBlock : 1;
  }
}

}  // namespace detail

/// Of rows that have been rounded.
inline void fill_panels(WorkRange rows, WorkRange cols, const ActivationRows& x) {
  const WorkRange groups{cols.begin / kGroupLen, cols.end / kGroupLen};
  if (x.n_planes == 1) detail::copy_to_panels<1>(x, rows, groups);
  if (x.n_planes == 2) detail::copy_to_panels<2>(x, rows, groups);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
