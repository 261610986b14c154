// Matrix products of quantised weights on tiles of bytes. Include after matmul_quant_impl.h.
//
// Only the integer dot products are other ones than the vectors', and they are exact: a group's for 16 rows and 16
// channels is one product of tiles. What they become, and in which order, is stated in kernels.h.
//
// A tile of weights is unpacked once for all rows, to signed bytes; rows lie in panels already, since they were
// rounded. Products of tiles take long until they are there (50 cycles and more), and what a tile register holds
// reaches a vector register through memory only: so a product is begun, the one begun before is stored, and the one
// before that is added up. What counts on the processors that have tiles (Granite Rapids, docs/performance.md): while
// tiles are used, one of two units multiplies floats of 512 bits, so an integer becomes a float by an addition.
#pragma once

#include <utility>

#include "kernels/cpu/amx_tiles_impl.h"
#include "kernels/cpu/matmul_quant_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

static_assert(kPanelRows == kTileRows);

/// Of row `row` of a panel: fl(scale float(sum of part kPart of kParts)).
template <int kParts, class Group>
BASS_SIMD_INLINE float scaled_part_sum(const Group& group, int part, int row) {
  const auto& fields = group.fields[row / kRowBlock];
  const int i = row % kRowBlock;
  return kParts == 1 ? fields.scaled_sum[i] : fields.scale[i] * static_cast<float>(fields.half_sums[part][i]);
}

/// Groups that lie unpacked at a time, so that they stay in the first level beside their rows: 15 KiB, of two parts 18.
inline constexpr int kAmxGroups = 24;

/// The tile registers. Two products are in work; a panel that is not full has registers of its own.
enum TileUse : int { kSums = 0, kLastSums = 2, kRows = 4, kLastRows = 5, kQuads = 6 };

/// What a format's weights are on tiles: formats that agree in this share the code.
template <int kPartsOfGroup, bool kMinimum>
struct TileKind {
  static constexpr int kParts = kPartsOfGroup;
  static constexpr bool kHasMinimum = kMinimum;
};

/// Groups of a tile of weights and of a panel, from the same group on.
template <class Kind, int kPlanes>
struct PanelOperands {
  const UnpackedGroup<Kind::kParts>* weights;  // with signed quants
  const PanelGroup<kPlanes>* rows;
  int n_groups;
};

/// fl(d_x float(idot)) of row i of a row block, by scaled_dot's arithmetic. low: of the second plane
template <int kPlanes>
BASS_SIMD_INLINE F32x16 scaled_product(I32x16 high, const int32_t* low, const PanelFields<kPlanes>& x, int i) {
  if constexpr (kPlanes == 1) {
    return fma(float_of(add(high, broadcast_i32(kDotBiasBits))), broadcast(x.scale[i]), broadcast(x.bias[i]));
  } else {
    return mul(to_f32(add(shift_left<8>(high), load_i32(low))), broadcast(x.scale[i]));
  }
}

/// What comes after the tile of weights in work: asked for into the second level while a panel is in work, as it lies.
struct NextTile {
  const std::byte* data;
  int n_lines;  // for each group

  BASS_SIMD_INLINE void ask() {
    for (int i = 0; i < n_lines; ++i) prefetch_l2(data + i * 64);
    data += n_lines * 64;
  }
};

/// Adds the products of a panel of kRows rows with a tile of weights to sums, group by group. A "step" is a part of a
/// group; it has kPlanes products of tiles. What does not change is kept in members, which stay in registers; products
/// pass through `dots`, which cannot.
template <class Tiles, class Kind, int kPlanes, int kRows>
class PanelProduct {
 public:
  using Dots = int32_t[2][kTileRows * kTileCols];

  PanelProduct(Tiles* tiles, const PanelOperands<Kind, kPlanes>& operands) : tiles_(tiles), operands_(operands) {}

  BASS_SIMD_INLINE void add_to(F32x16 (&acc)[kRows], NextTile next) const {
    alignas(64) Dots dots;
    const int n = operands_.n_groups * kParts * kPlanes;
    begin<0>(0);
    if (n > 1) begin<1>(1);
    finish<0>(&dots);
    int i = 0;
    for (; i + 3 < n; i += 2) {
      begin<0>(i + 2);
      finish<1>(&dots);
      add<0>(i, dots, acc, &next);
      begin<1>(i + 3);
      finish<0>(&dots);
      add<1>(i + 1, dots, acc, &next);
    }
    // One to three products are left (with two planes: two), of which the first is there.
    if (i + 2 < n) begin<0>(i + 2);
    if (i + 1 < n) finish<1>(&dots);
    add<0>(i, dots, acc, &next);
    if (i + 2 < n) finish<0>(&dots);
    if (i + 1 < n) add<1>(i + 1, dots, acc, &next);
    if (i + 2 < n) add<0>(i + 2, dots, acc, &next);
  }

 private:
  static constexpr int kParts = Kind::kParts;
  static constexpr int kPartLen = kGroupLen / kParts;
  static constexpr bool kIsFull = kRows == kTileRows;

  template <int kSlot>
  BASS_SIMD_INLINE void begin(int product) const {
    constexpr int kSum = (kIsFull ? kSums : kLastSums) + kSlot;
    constexpr int kRowsTile = kIsFull ? TileUse::kRows : TileUse::kLastRows;
    const int step = product / kPlanes;
    const int group = step / kParts;
    const int part = step % kParts;
    tiles_->template load<kRowsTile>(&operands_.rows[group].q[product % kPlanes][0][part * kPartLen], kGroupLen);
    tiles_->template load<kQuads + kSlot>(operands_.weights[group].quads + part * kPartLen / 4 * kQuadBytes,
                                          kTileBytes);
    tiles_->template zero<kSum>();
    tiles_->template multiply_add<kSum, kRowsTile, kQuads + kSlot>();
  }
  template <int kSlot>
  BASS_SIMD_INLINE void finish(Dots* dots) const {
    tiles_->template store<(kIsFull ? kSums : kLastSums) + kSlot>((*dots)[kSlot]);
  }

  /// Adds what product `product`, which lies in slot kSlot, completes. Of two planes the high one lies in slot 0, and
  /// when it is asked for, the low one is there too.
  template <int kSlot>
  BASS_SIMD_INLINE void add(int product, const Dots& dots, F32x16 (&acc)[kRows], NextTile* next) const {
    if constexpr (kPlanes == 1) {
      add_step<kSlot>(product, dots, acc, next);
    } else if constexpr (kSlot == 0) {
      add_step<0>(product / 2, dots, acc, next);
    }
  }
  /// kSlot: of the first plane
  template <int kSlot>
  BASS_SIMD_INLINE void add_step(int step, const Dots& dots, F32x16 (&acc)[kRows], NextTile* next) const {
    const int group = step / kParts;
    const int part = step % kParts;
    if (part == 0) next->ask();
    const UnpackedGroup<kParts>& w = operands_.weights[group];
    const PanelGroup<kPlanes>& x = operands_.rows[group];
    const F32x16 d_w = load(w.scale[part]);
    F32x16 m_w = zero_f32();
    if constexpr (Kind::kHasMinimum) m_w = load(w.minimum[part]);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const int at = r * kTileCols;
      const F32x16 dot =
          scaled_product<kPlanes>(load_i32(dots[kSlot] + at), dots[1] + at, x.fields[r / kRowBlock], r % kRowBlock);
      acc[r] = fma(d_w, dot, acc[r]);
      if constexpr (Kind::kHasMinimum) acc[r] = fma(m_w, broadcast(scaled_part_sum<kParts>(x, part, r)), acc[r]);
    }
  }

  Tiles* tiles_;
  PanelOperands<Kind, kPlanes> operands_;
};

/// A panel's rows of one tile of weights.
struct PanelJob {
  int tile;
  int first_row;
  int n_rows;
  NextTile next;
  const float* sums_before;  // as in QuantJob
  float* sums_after;
};

template <class Tiles, class Kind, int kPlanes, int kRows>
void panel_product(Tiles* tiles, const PanelOperands<Kind, kPlanes>& operands, const PanelJob& job,
                   const MatmulOut& out) {
  F32x16 acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    acc[r] = job.sums_before == nullptr ? zero_f32() : load(job.sums_before + r * kTileLen);
  }
  if (job.sums_after == nullptr) {
    for (int r = 0; r < job.n_rows; ++r)
      prefetch_to_write(tile_row(out, static_cast<size_t>(job.first_row + r), job.tile));
  }
  PanelProduct<Tiles, Kind, kPlanes, kRows>(tiles, operands).add_to(acc, job.next);
  if (job.sums_after != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) store(job.sums_after + r * kTileLen, acc[r]);
    return;
  }
  F32x16 sums[kRows];  // store_tile wants them in memory, where the assembly above would have them reloaded
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sums[r] = acc[r];
  store_tile<kRows>(out, job.first_row, job.n_rows, job.tile, sums);
}

/// panel_product of the least number of row blocks that has job.n_rows rows.
template <class Tiles, class Kind, int kPlanes, int kRows = kTileRows>
void panel_product_of_rows(Tiles* tiles, const PanelOperands<Kind, kPlanes>& operands, const PanelJob& job,
                           const MatmulOut& out) {
  if constexpr (kRows > kRowBlock) {
    if (job.n_rows <= kRows - kRowBlock) {
      return panel_product_of_rows<Tiles, Kind, kPlanes, kRows - kRowBlock>(tiles, operands, job, out);
    }
  }
  panel_product<Tiles, Kind, kPlanes, kRows>(tiles, operands, job, out);
}

/// Quad kQuad of a group as signed bytes.
template <int kQuad, class Packed>
BASS_SIMD_INLINE I32x16 signed_quad(const Packed& packed, int g) {
  constexpr int kOffset = Packed::Traits::kFormat.offset;
  const I32x16 quants = packed.template quad<kQuad>(g);
  if constexpr (kOffset == 0) return quants;
  return {_mm512_sub_epi8(quants.v, _mm512_set1_epi8(static_cast<char>(kOffset)))};
}

template <class Packed, int kPart>
BASS_SIMD_INLINE void unpack_numbers(const Packed& packed, int g, UnpackedGroup<Packed::Traits::kParts>* out) {
  store(out->scale[kPart], packed.template scale<kPart>(g));
  if constexpr (Packed::Traits::kHasMinimum) store(out->minimum[kPart], packed.template minimum<kPart>(g));
}

template <class Packed>
BASS_SIMD_INLINE void unpack_group(const Packed& packed, int g, UnpackedGroup<Packed::Traits::kParts>* out) {
  [&]<size_t... kQuad>(std::index_sequence<kQuad...>) {
    (store_i32(out->quads + kQuad * kQuadBytes, signed_quad<static_cast<int>(kQuad)>(packed, g)), ...);
  }
  (std::make_index_sequence<kGroupQuads>());
  unpack_numbers<Packed, 0>(packed, g, out);
  if constexpr (Packed::Traits::kParts == 2) unpack_numbers<Packed, 1>(packed, g, out);
}

/// One tile of weights with the rows of a run, at most kRunRows.
template <class Tiles, DType kType, int kPlanes>
void amx_run(const PackedMatrix& w, const ActivationRows& x, WorkRange rows, int tile, Tiles* tiles,
             const MatmulOut& out) {
  using Packed = PackedSource<kType>;
  using Kind = TileKind<Packed::Traits::kParts, Packed::Traits::kHasMinimum>;
  const int n_groups = w.n_in / kGroupLen;
  const size_t tile_bytes = packed_tile_bytes(kType, w.n_in);
  const std::byte* tile_data = w.data + static_cast<size_t>(tile) * tile_bytes;
  const Packed packed(tile_data, n_groups);
  const int n_lines =
      static_cast<int>((tile_bytes / 64 + static_cast<size_t>(n_groups) - 1) / static_cast<size_t>(n_groups));
  UnpackedGroup<Kind::kParts> unpacked[kAmxGroups];
  alignas(64) float partial[kRunRows * kTileLen];
  const int n_chunks = (n_groups + kAmxGroups - 1) / kAmxGroups;
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    const int begin = n_groups * chunk / n_chunks;
    const int end = n_groups * (chunk + 1) / n_chunks;
    for (int g = begin; g < end; ++g) unpack_group(packed, g, &unpacked[g - begin]);
    for (int row = rows.begin; row < rows.end; row += kTileRows) {
      const int row_in_run = row - rows.begin;
      float* sums = partial + row_in_run * kTileLen;
      const PanelJob job{tile,
                         row,
                         rows.end - row < kTileRows ? rows.end - row : kTileRows,
                         {tile_data + tile_bytes + ptrdiff_t{begin} * n_lines * 64, row_in_run == 0 ? n_lines : 0},
                         begin == 0 ? nullptr : sums,
                         end == n_groups ? nullptr : sums};
      const auto* panel = reinterpret_cast<const PanelGroup<kPlanes>*>(x.panel(row, begin));
      panel_product_of_rows<Tiles, Kind, kPlanes>(tiles, {unpacked, panel, end - begin}, job, out);
    }
  }
}

/// The registers for panels of kTileRows rows and one of n_last.
template <class Tiles, int kParts>
Tiles tiles_of(int n_last) {
  constexpr int kPartLen = kGroupLen / kParts;
  const int last = (n_last + kRowBlock - 1) / kRowBlock * kRowBlock;
  const TileShape shapes[kTileRegisters] = {{kTileRows, kTileBytes},    {kTileRows, kTileBytes},   {last, kTileBytes},
                                            {last, kTileBytes},         {kTileRows, kPartLen},     {last, kPartLen},
                                            {kPartLen / 4, kTileBytes}, {kPartLen / 4, kTileBytes}};
  return Tiles(shapes);
}

template <class Tiles, DType kType, int kPlanes>
void amx_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange weight_tiles,
                const MatmulOut& out) {
  Tiles tiles = tiles_of<Tiles, FormatTraits<kType>::kParts>((n_rows - 1) % kTileRows + 1);
  static_assert(kRunRows % kTileRows == 0);
  for (int row = 0; row < n_rows; row += kRunRows) {
    const WorkRange rows{row, row + kRunRows < n_rows ? row + kRunRows : n_rows};
    for (int tile = weight_tiles.begin; tile < weight_tiles.end; ++tile) {
      amx_run<Tiles, kType, kPlanes>(w, x, rows, tile, &tiles, out);
    }
  }
}

template <class Tiles, DType kType>
void amx_matmul_planes(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                       const MatmulOut& out) {
  if (x.n_planes == 2) {
    amx_matmul<Tiles, kType, 2>(w, x, n_rows, tiles, out);
  } else {
    amx_matmul<Tiles, kType, 1>(w, x, n_rows, tiles, out);
  }
}

}  // namespace detail

/// x: with panels. w: quantised
template <class Tiles>
void amx_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                const detail::MatmulOut& out) {
  switch (w.type) {
    case DType::kQ8_0:
      return detail::amx_matmul_planes<Tiles, DType::kQ8_0>(w, x, n_rows, tiles, out);
    case DType::kQ4_0:
      return detail::amx_matmul_planes<Tiles, DType::kQ4_0>(w, x, n_rows, tiles, out);
    case DType::kQ4_1:
      return detail::amx_matmul_planes<Tiles, DType::kQ4_1>(w, x, n_rows, tiles, out);
    case DType::kQ5_0:
      return detail::amx_matmul_planes<Tiles, DType::kQ5_0>(w, x, n_rows, tiles, out);
    case DType::kQ5_1:
      return detail::amx_matmul_planes<Tiles, DType::kQ5_1>(w, x, n_rows, tiles, out);
    case DType::kQ2_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ2_K>(w, x, n_rows, tiles, out);
    case DType::kQ3_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ3_K>(w, x, n_rows, tiles, out);
    case DType::kQ4_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ4_K>(w, x, n_rows, tiles, out);
    case DType::kQ5_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ5_K>(w, x, n_rows, tiles, out);
    case DType::kQ6_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ6_K>(w, x, n_rows, tiles, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kIQ4_NL:  // packed as Q8_0
      return;
  }
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
