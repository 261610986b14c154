// Rounding rows of activations for products on tiles: their records, and from them their panels (activations.h).
// Include after a simd_*.h.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr ActivationField kPanelFields[] = {ActivationField::kScale, ActivationField::kScaledSum,
                                                   ActivationField::kHalfSum0, ActivationField::kHalfSum1};

/// kRows rows of a row block, from row `first` of it on, of one group. row_in_panel: of the row block's first row
template <int kPlanes, int kRows>
BASS_SIMD_INLINE void copy_to_panel(const std::byte* record, int first, int row_in_panel, std::byte* panel) {
  const auto to = static_cast<size_t>(row_in_panel + first);
  for (size_t p = 0; p < kPlanes; ++p) {
    __builtin_memcpy(panel + (p * kPanelRows + to) * kGroupLen,
                     record + activation_quants_offset(static_cast<int>(p), first), size_t{kRows} * kGroupLen);
  }
  std::byte* field_to = panel + size_t{kPlanes} * kPanelRows * kGroupLen + to * 4;
  for (const ActivationField field : kPanelFields) {
    __builtin_memcpy(field_to, record + activation_field_offset(kPlanes, field, first), size_t{kRows} * 4);
    field_to += size_t{kPanelRows} * 4;
  }
}

template <int kPlanes>
void copy_to_panels(const ActivationRows& x, WorkRange rows, WorkRange groups) {
  for (int row = rows.begin; row < rows.end;) {
    const bool is_block = row % kRowBlock == 0 && row + kRowBlock <= rows.end;
    const int first = row % kRowBlock;
    const int row_in_panel = row % kPanelRows - first;
    for (int g = groups.begin; g < groups.end; ++g) {
      if (is_block) {
        copy_to_panel<kPlanes, kRowBlock>(x.record(row, g), 0, row_in_panel, x.panel(row, g));
      } else {
        copy_to_panel<kPlanes, 1>(x.record(row, g), first, row_in_panel, x.panel(row, g));
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
