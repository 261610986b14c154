// Matrix products of quantised weights on tiles of bytes. Include after matmul_quant_impl.h.
//
// Only the integer dot products are other ones, and they are exact: a group's for 16 rows and 16 channels is one tile
// product. What they become, in which order, and where it goes, is quant_tiles'. A tile of weights is unpacked once for
// all rows; the rows are copied once into panels, whose rows lie at one distance, for all tiles of weights.
#pragma once

#include <utility>

#include "kernels/cpu/amx_tiles_impl.h"
#include "kernels/cpu/matmul_quant_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// A group of 16 rows, as one operand.
template <int kPlanes>
struct alignas(64) PanelGroup {
  int8_t q[kPlanes][kTileRows][kGroupLen];
};

inline constexpr size_t kPanelBytes = size_t{512} << 10;  // of the panels of a run, on the stack

/// Unpacked groups, and a panel of rows to multiply them with.
template <class TraitsOfFormat, int kPlanes>
class TileSource : public UnpackedSource<TraitsOfFormat> {
 public:
  using Traits = TraitsOfFormat;
  using Group = UnpackedGroup<Traits::kParts>;
  static constexpr int kPartLen = kGroupLen / Traits::kParts;

  /// groups, panel: from group `first_group` on
  TileSource(const Group* groups, const PanelGroup<kPlanes>* panel, int first_group, const TileUnit& tiles)
      : UnpackedSource<Traits>(groups, first_group),
        groups_(groups),
        panel_(panel),
        first_group_(first_group),
        tiles_(tiles) {}

  /// As part_dots gives them.
  template <int kRows, int kPart>
  BASS_SIMD_INLINE void dots(int g, const std::byte* const* records, I32x16 (&idot)[kRows]) const {
    alignas(64) int32_t products[kPlanes][kTileRows * kTileCols];
    const int i = g - first_group_;
#pragma GCC unroll 2
    for (int p = 0; p < kPlanes; ++p) {
      tiles_.multiply(&panel_[i].q[p][0][kPart * kPartLen], kGroupLen,
                      groups_[i].quads + kPart * kPartLen / 4 * kQuadBytes, products[p]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const int32_t start = dot_start<Traits, kPlanes, kPart>(records[r / kRowBlock], r % kRowBlock);
      const I32x16 last = add(load_i32(products[kPlanes - 1] + r * kTileCols), broadcast_i32(start));
      idot[r] = kPlanes == 1 ? last : add(shift_left<8>(load_i32(products[0] + r * kTileCols)), last);
    }
  }

 private:
  const Group* groups_;
  const PanelGroup<kPlanes>* panel_;
  int first_group_;
  const TileUnit& tiles_;
};

template <class Packed, int kPart>
BASS_SIMD_INLINE void unpack_numbers(const Packed& packed, int g, UnpackedGroup<Packed::Traits::kParts>* out) {
  store(out->scale[kPart], packed.template scale<kPart>(g));
  if constexpr (Packed::Traits::kHasMinimum) store(out->minimum[kPart], packed.template minimum<kPart>(g));
}

template <class Packed>
void unpack_group(const Packed& packed, int g, UnpackedGroup<Packed::Traits::kParts>* out) {
  [&]<size_t... kQuads>(std::index_sequence<kQuads...>) {
    (store_i32(out->quads + kQuads * kQuadBytes, packed.template quad<static_cast<int>(kQuads)>(g)), ...);
  }
  (std::make_index_sequence<kGroupQuads>());
  unpack_numbers<Packed, 0>(packed, g, out);
  if constexpr (Packed::Traits::kParts == 2) unpack_numbers<Packed, 1>(packed, g, out);
}

/// panels: [ceil(n_rows / kTileRows), n_groups]; rows of blocks that x does not have become zeros
template <int kPlanes>
void fill_panels(const ActivationRows& x, int first_row, int n_rows, PanelGroup<kPlanes>* panels) {
  const int n_groups = x.n_cols / kGroupLen;
  constexpr size_t kBlockBytes = size_t{kRowBlock} * kGroupLen;
  for (int row = 0; row < (n_rows + kTileRows - 1) / kTileRows * kTileRows; row += kRowBlock) {
    for (int g = 0; g < n_groups; ++g) {
      PanelGroup<kPlanes>& panel = panels[static_cast<ptrdiff_t>(row / kTileRows) * n_groups + g];
      for (int p = 0; p < kPlanes; ++p) {
        int8_t* to = panel.q[p][row % kTileRows];
        if (row < n_rows) {
          __builtin_memcpy(to, x.record(first_row + row, g) + activation_quants_offset(p, 0), kBlockBytes);
        } else {
          __builtin_memset(to, 0, kBlockBytes);
        }
      }
    }
  }
}

/// One tile of weights with the rows of a run. n_rows <= kRunRows
template <DType kType, int kPlanes>
void amx_run(const PackedMatrix& w, const ActivationRows& x, WorkRange rows, int tile, const TileUnit& tiles,
             const PanelGroup<kPlanes>* panels, const MatmulOut& out) {
  using Packed = PackedSource<kType>;
  using Source = TileSource<typename Packed::Traits, kPlanes>;
  static_assert(HasOwnDots<Source, kTileRows>);  // else the products would be those of vectors, with the same bits
  const int n_groups = w.n_in / kGroupLen;
  const size_t tile_bytes = packed_tile_bytes(kType, w.n_in);
  const std::byte* tile_data = w.data + static_cast<size_t>(tile) * tile_bytes;
  const Packed packed(tile_data, n_groups);
  const AheadPlan<Packed, 1> ahead(kReadAheadOfFirstLevel, packed, tile_bytes, n_groups);
  typename Source::Group unpacked[kUnpackedGroups];
  alignas(64) float partial[kRunRows * kTileLen];
  for (int begin = 0; begin < n_groups; begin += kUnpackedGroups) {
    const int end = begin + kUnpackedGroups < n_groups ? begin + kUnpackedGroups : n_groups;
    for (int g = begin; g < end; ++g) unpack_group(packed, g, &unpacked[g - begin]);
    for (int row = 0; row < rows.end - rows.begin; row += kTileRows) {
      const int n_left = rows.end - rows.begin - row;
      QuantJob job{};
      job.tile = tile;
      job.n_tiles = 1;
      job.first_row = rows.begin + row;
      job.n_rows = n_left < kTileRows ? n_left : kTileRows;
      job.groups = {begin, end};
      job.ahead = ahead.part(tile_data, 0, 1, begin, 0);
      if (row > 0) job.ahead.end_line = 0;
      job.sums_before = begin == 0 ? nullptr : partial + row * kTileLen;
      job.sums_after = end == n_groups ? nullptr : partial + row * kTileLen;
      const PanelGroup<kPlanes>* panel = panels + static_cast<ptrdiff_t>(row / kTileRows) * n_groups + begin;
      const Source source(unpacked, panel, begin, tiles);
      quant_tiles_blocks<Source, kPlanes, 1, kTileRows, kRowBlock>(&source, job, x, out);
    }
  }
}

/// As many rows at a time as the panels hold. False: not even one panel of rows so long fits.
template <DType kType, int kPlanes>
bool amx_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange weight_tiles, bool is_emulated,
                const MatmulOut& out) {
  alignas(64) std::byte memory[kPanelBytes];
  auto* panels = reinterpret_cast<PanelGroup<kPlanes>*>(memory);
  const size_t panel_bytes = sizeof(PanelGroup<kPlanes>) * static_cast<size_t>(w.n_in / kGroupLen);
  const auto max_panels = static_cast<int>(kPanelBytes / panel_bytes);
  if (max_panels == 0) return false;
  const int run_rows = max_panels * kTileRows < kRunRows ? max_panels * kTileRows : kRunRows;
  const TileUnit tiles(kGroupLen / FormatTraits<kType>::kParts, is_emulated);
  for (int row = 0; row < n_rows; row += run_rows) {
    const int end = row + run_rows < n_rows ? row + run_rows : n_rows;
    fill_panels(x, row, end - row, panels);
    for (int tile = weight_tiles.begin; tile < weight_tiles.end; ++tile) {
      amx_run<kType, kPlanes>(w, x, {row, end}, tile, tiles, panels, out);
    }
  }
  return true;
}

template <DType kType>
bool amx_matmul_planes(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, bool is_emulated,
                       const MatmulOut& out) {
  return x.n_planes == 2 ? amx_matmul<kType, 2>(w, x, n_rows, tiles, is_emulated, out)
                         : amx_matmul<kType, 1>(w, x, n_rows, tiles, is_emulated, out);
}

}  // namespace detail

/// False where the tiles have no form of it: float weights, rows too long.
inline bool amx_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, bool is_emulated,
                       const detail::MatmulOut& out) {
  switch (w.type) {
    case DType::kQ8_0:
      return detail::amx_matmul_planes<DType::kQ8_0>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ4_0:
      return detail::amx_matmul_planes<DType::kQ4_0>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ4_1:
      return detail::amx_matmul_planes<DType::kQ4_1>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ5_0:
      return detail::amx_matmul_planes<DType::kQ5_0>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ5_1:
      return detail::amx_matmul_planes<DType::kQ5_1>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ2_K:
      return detail::amx_matmul_planes<DType::kQ2_K>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ3_K:
      return detail::amx_matmul_planes<DType::kQ3_K>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ4_K:
      return detail::amx_matmul_planes<DType::kQ4_K>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ5_K:
      return detail::amx_matmul_planes<DType::kQ5_K>(w, x, n_rows, tiles, is_emulated, out);
    case DType::kQ6_K:
      return detail::amx_matmul_planes<DType::kQ6_K>(w, x, n_rows, tiles, is_emulated, out);
    default:
      return false;
  }
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
