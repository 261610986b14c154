// Matrix products of quantised weights on tiles of bytes. Include after matmul_quant_impl.h.
//
// Only the integer dot products are other ones than the vectors', and they are exact: a group's for 16 rows and 16
// channels is one product of tiles. What they become, and in which order, is stated in kernels.h.
//
// A tile of weights is unpacked once for all rows, to signed bytes; rows lie in panels already, since they were
// rounded. Products of tiles take long until they are there (50 cycles and more), and what a tile register holds
// reaches a vector register through memory only: so a product is begun, the one begun before is stored, and the one
// before that is added up. What counts on the processors that have tiles (Emerald and Granite Rapids,
// docs/performance.md): while tiles are used, one of two units multiplies floats of 512 bits, so an integer becomes a
// float by an addition; storing a tile keeps the front of the pipeline busy for 16 cycles, so it stands between two
// halves of a product's rows, whose multiplications go on meanwhile.
#pragma once

#include "kernels/cpu/amx_tiles_impl.h"
#include "kernels/cpu/amx_weights_impl.h"
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

/// The tile registers, two of each: that many products are in work.
enum TileUse : int { kSums = 0, kRows = 2, kQuads = 4 };

/// The registers for groups in kParts parts. A panel that is not full is computed as one: its products take less time
/// with fewer rows, but nobody waits for them.
template <int kParts>
constexpr TileConfig tile_config() {
  constexpr int kPartLen = kGroupLen / kParts;
  constexpr TileShape kSum = {kTileRows, kTileBytes};
  constexpr TileShape kRow = {kTileRows, kPartLen};
  constexpr TileShape kQuad = {kPartLen / 4, kTileBytes};
  return TileConfig({kSum, kSum, kRow, kRow, kQuad, kQuad, {}, {}});
}

/// Of a tile of weights and a panel, from the same group on.
template <class Weights, int kPlanes>
struct PanelOperands {
  Weights weights;
  const PanelGroup<kPlanes>* rows;
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

/// Adds the products of a panel of kRows rows with a tile of weights to sums, group by group. A "step" is a part of a
/// group; it has kPlanes products of tiles. What does not change is kept in members, which stay in registers; products
/// pass through `dots`, which cannot.
template <class Tiles, class Weights, int kPlanes, int kRows>
class PanelProduct {
 public:
  using Dots = int32_t[2][kTileRows * kTileCols];

  PanelProduct(Tiles* tiles, const PanelOperands<Weights, kPlanes>& operands) : tiles_(tiles), operands_(operands) {}

  /// fetch: or null
  BASS_SIMD_INLINE void add_to(F32x16 (&acc)[kRows], FetchQueue* fetch) const {
    alignas(64) Dots dots;
    const int n = operands_.weights.n_groups * kParts * kPlanes;
    operands_.weights.begin();
    begin<0>(0);
    if (n > 1) begin<1>(1);
    finish<0>(&dots);
    int i = 0;
    for (; i + 3 < n; i += 2) {
      begin<0>(i + 2);
      add<0, 1>(i, &dots, acc, &fetch);
      begin<1>(i + 3);
      add<1, 0>(i + 1, &dots, acc, &fetch);
    }
    // One to three products are left (with two planes: two), of which the first is there.
    if (i + 2 < n) begin<0>(i + 2);
    if (i + 1 < n) finish<1>(&dots);
    add<0, kNone>(i, &dots, acc, &fetch);
    if (i + 2 < n) finish<0>(&dots);
    if (i + 1 < n) add<1, kNone>(i + 1, &dots, acc, &fetch);
    if (i + 2 < n) add<0, kNone>(i + 2, &dots, acc, &fetch);
  }

 private:
  using Kind = typename Weights::Kind;
  static constexpr int kParts = Kind::kParts;
  static constexpr int kPartLen = kGroupLen / kParts;
  static constexpr int kNone = -1;

  template <int kSlot>
  BASS_SIMD_INLINE void begin(int product) const {
    const int step = product / kPlanes;
    const int group = step / kParts;
    const int part = step % kParts;
    tiles_->template load<TileUse::kRows + kSlot>(&operands_.rows[group].q[product % kPlanes][0][part * kPartLen],
                                                  kGroupLen);
    tiles_->template load<kQuads + kSlot>(operands_.weights.group(group).quads + part * kPartLen / 4 * kQuadBytes,
                                          kTileBytes);
    tiles_->template zero<kSums + kSlot>();
    tiles_->template multiply_add<kSums + kSlot, TileUse::kRows + kSlot, kQuads + kSlot>();
  }
  template <int kSlot>
  BASS_SIMD_INLINE void finish(Dots* dots) const {
    if constexpr (kSlot != kNone) tiles_->template store<kSums + kSlot>((*dots)[kSlot]);
  }

  /// Adds what product `product`, which lies in slot kSlot, completes. Of two planes the high one lies in slot 0, and
  /// when it is asked for, the low one is there too. kFinished: the slot that is stored meanwhile, or kNone
  template <int kSlot, int kFinished>
  BASS_SIMD_INLINE void add(int product, Dots* dots, F32x16 (&acc)[kRows], FetchQueue** fetch) const {
    if constexpr (kPlanes == 1) {
      add_step<kSlot, kFinished>(product, dots, acc, fetch);
    } else {
      finish<kFinished>(dots);
      if constexpr (kSlot == 0) add_step<0, kNone>(product / 2, dots, acc, fetch);
    }
  }
  /// kSlot: of the first plane
  template <int kSlot, int kFinished>
  BASS_SIMD_INLINE void add_step(int step, Dots* dots, F32x16 (&acc)[kRows], FetchQueue** fetch) const {
    const int group = step / kParts;
    const int part = step % kParts;
    if (part == 0) {
      operands_.weights.go_on(group);
      if (*fetch != nullptr) ask_for_fetched(fetch);
    }
    constexpr int kHalf = kRows / 2;
    add_rows<kSlot, 0, kHalf>(group, part, *dots, acc);
    finish<kFinished>(dots);
    add_rows<kSlot, kHalf, kRows>(group, part, *dots, acc);
  }
  BASS_SIMD_INLINE void ask_for_fetched(FetchQueue** fetch) const {
    constexpr int kLines = kRows * kPlanes * kFetchBytes / 64;
    const std::byte* fetched = (*fetch)->take(kLines * 64);
    if (fetched == nullptr) {
      *fetch = nullptr;
      return;
    }
#pragma GCC unroll kUnrolled
    for (int i = 0; i < kLines; ++i) prefetch_l2(fetched + i * 64);
  }
  template <int kSlot, int kFirst, int kEnd>
  BASS_SIMD_INLINE void add_rows(int group, int part, const Dots& dots, F32x16 (&acc)[kRows]) const {
    const UnpackedGroup<kParts>& w = operands_.weights.group(group);
    const PanelGroup<kPlanes>& x = operands_.rows[group];
    const F32x16 d_w = load(w.scale[part]);
    F32x16 m_w = zero_f32();
    if constexpr (Kind::kHasMinimum) m_w = load(w.minimum[part]);
#pragma GCC unroll 16
    for (int r = kFirst; r < kEnd; ++r) {
      const int at = r * kTileCols;
      const F32x16 dot =
          scaled_product<kPlanes>(load_i32(dots[kSlot] + at), dots[1] + at, x.fields[r / kRowBlock], r % kRowBlock);
      acc[r] = fma(d_w, dot, acc[r]);
      if constexpr (Kind::kHasMinimum) acc[r] = fma(m_w, broadcast(scaled_part_sum<kParts>(x, part, r)), acc[r]);
    }
  }

  Tiles* tiles_;
  PanelOperands<Weights, kPlanes> operands_;
};

/// A panel's rows of one tile of weights.
struct PanelJob {
  int tile;
  int first_row;
  int n_rows;
  FetchQueue* fetch;  // as in QuantJob, what follows too
  const float* sums_before;
  float* sums_after;
};

template <class Tiles, class Weights, int kPlanes, int kRows>
void panel_product(Tiles* tiles, const PanelOperands<Weights, kPlanes>& operands, const PanelJob& job,
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
  PanelProduct<Tiles, Weights, kPlanes, kRows>(tiles, operands).add_to(acc, job.fetch);
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
template <class Tiles, class Weights, int kPlanes, int kRows = kTileRows>
void panel_product_of_rows(Tiles* tiles, const PanelOperands<Weights, kPlanes>& operands, const PanelJob& job,
                           const MatmulOut& out) {
  if constexpr (kRows > kRowBlock) {
    if (job.n_rows <= kRows - kRowBlock) {
      return panel_product_of_rows<Tiles, Weights, kPlanes, kRows - kRowBlock>(tiles, operands, job, out);
    }
  }
  panel_product<Tiles, Weights, kPlanes, kRows>(tiles, operands, job, out);
}

/// One tile of weights with the rows of a run, at most kRunRows.
template <class Tiles, DType kType, int kPlanes>
void amx_run(const PackedMatrix& w, const ActivationRows& x, WorkRange rows, int tile, Tiles* tiles,
             const MatmulOut& out, FetchQueue* fetch) {
  using Packed = PackedSource<kType>;
  using Unpacking = UnpackingWeights<Packed>;
  using Unpacked = UnpackedWeights<typename Unpacking::Kind>;
  const int n_groups = w.n_in / kGroupLen;
  const size_t tile_bytes = packed_tile_bytes(kType, w.n_in);
  const std::byte* tile_data = w.data + static_cast<size_t>(tile) * tile_bytes;
  const Packed packed(tile_data, n_groups);
  UnpackedGroup<Packed::Traits::kParts> unpacked[kAmxGroups];
  alignas(64) float partial[kRunRows * kTileLen];
  const int n_chunks = (n_groups + kAmxGroups - 1) / kAmxGroups;
  for (int chunk = 0; chunk < n_chunks; ++chunk) {
    const int begin = n_groups * chunk / n_chunks;
    const int end = n_groups * (chunk + 1) / n_chunks;
    const int n = end - begin;
    for (int row = rows.begin; row < rows.end; row += kTileRows) {
      float* sums = partial + (row - rows.begin) * kTileLen;
      const PanelJob job{tile,
                         row,
                         rows.end - row < kTileRows ? rows.end - row : kTileRows,
                         fetch,
                         begin == 0 ? nullptr : sums,
                         end == n_groups ? nullptr : sums};
      const auto* panel = reinterpret_cast<const PanelGroup<kPlanes>*>(x.panel(row, begin));
      if (row == rows.begin) {
        const Unpacking weights{unpacked, n, packed, begin, tile_data + tile_bytes};
        panel_product_of_rows<Tiles, Unpacking, kPlanes>(tiles, {weights, panel}, job, out);
      } else {
        panel_product_of_rows<Tiles, Unpacked, kPlanes>(tiles, {{unpacked, n}, panel}, job, out);
      }
    }
  }
}

template <class Tiles, DType kType, int kPlanes>
void amx_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange weight_tiles,
                const MatmulOut& out, FetchQueue* fetch) {
  static constexpr TileConfig kConfig = tile_config<FormatTraits<kType>::kParts>();
  Tiles tiles(kConfig);
  static_assert(kRunRows % kTileRows == 0);
  for (int row = 0; row < n_rows; row += kRunRows) {
    const WorkRange rows{row, row + kRunRows < n_rows ? row + kRunRows : n_rows};
    for (int tile = weight_tiles.begin; tile < weight_tiles.end; ++tile) {
      amx_run<Tiles, kType, kPlanes>(w, x, rows, tile, &tiles, out, fetch);
    }
  }
}

template <class Tiles, DType kType>
void amx_matmul_planes(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                       const MatmulOut& out, FetchQueue* fetch) {
  if (x.n_planes == 2) {
    amx_matmul<Tiles, kType, 2>(w, x, n_rows, tiles, out, fetch);
  } else {
    amx_matmul<Tiles, kType, 1>(w, x, n_rows, tiles, out, fetch);
  }
}

}  // namespace detail

/// x: with panels. w: quantised
template <class Tiles>
void amx_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                const detail::MatmulOut& out, FetchQueue* fetch) {
  switch (w.type) {
    case DType::kQ8_0:
      return detail::amx_matmul_planes<Tiles, DType::kQ8_0>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ4_0:
      return detail::amx_matmul_planes<Tiles, DType::kQ4_0>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ4_1:
      return detail::amx_matmul_planes<Tiles, DType::kQ4_1>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ5_0:
      return detail::amx_matmul_planes<Tiles, DType::kQ5_0>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ5_1:
      return detail::amx_matmul_planes<Tiles, DType::kQ5_1>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ2_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ2_K>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ3_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ3_K>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ4_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ4_K>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ5_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ5_K>(w, x, n_rows, tiles, out, fetch);
    case DType::kQ6_K:
      return detail::amx_matmul_planes<Tiles, DType::kQ6_K>(w, x, n_rows, tiles, out, fetch);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kIQ4_NL:  // packed as Q8_0
      return;
  }
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
