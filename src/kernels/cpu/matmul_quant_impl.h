// Matrix products of quantised weights. Include after a simd_*.h.
//
// Neighbouring tiles of weights (kMatmulTiles of them, where there are registers) are multiplied with blocks of rows.
// The first block of a batch reads the packed tiles; where several follow, it leaves them unpacked in the first-level
// cache for them. All of them ask for their part of the weights to come: more than a few reads at once would keep the
// kernel waiting. Long rows are taken in chunks of groups, so that the unpacked copy stays small; sums wait for the
// next chunk in `partial`.
#pragma once

#include <array>

#include "base/prefetch.h"
#include "kernels/cpu/groups_ahead_impl.h"
#include "kernels/cpu/matmul_format_impl.h"
#include "kernels/cpu/matmul_out_impl.h"
#include "kernels/cpu/read_ahead.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kUnpackedGroups = 64;  // that lie unpacked at a time: 40 KiB, with two scales a group 48
inline constexpr int kChunkGroups = kUnpackedGroups / kMatmulTiles;  // of each tile
inline constexpr int kRunRows = 96;  // rows whose partial sums are kept between chunks: 6 KiB a tile

static_assert(kMatmulRows % kRowBlock == 0);

/// So few rows wait for memory, which answers faster in the order in which it lies: one tile at a time.
template <int kPlanes>
inline constexpr int kMaxSingleTileRows = kRowBlock / kPlanes;

/// Neighbouring tiles, some of their groups, one block of rows.
struct QuantJob {
  int tile;       // the first
  int n_tiles;    // less than the kernel's own number: the last one stands in for those that are not there
  int first_row;  // a multiple of kRowBlock
  int n_rows;
  WorkRange groups;
  GroupsAhead ahead;
  FetchQueue* fetch;  // kFetchLines lines are taken for each group; or null
  // [tile][kRunRows, kTileLen] sums of earlier chunks, or null in a row's first chunk; where sums go if this is not the
  // last
  const float* sums_before;
  float* sums_after;  // null in the last chunk: the product is written out
};

BASS_SIMD_INLINE int32_t load_int(const std::byte* p) { return *reinterpret_cast<const int32_t*>(p); }

// Sums wrap around: rows behind the last one hold anything.
BASS_SIMD_INLINE int32_t wrapping_fma(int32_t factor, int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(factor) * static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}

/// The sum of a row's quants over part kPart of a group that has kParts.
template <int kPlanes, int kParts, int kPart>
BASS_SIMD_INLINE int32_t part_sum(const std::byte* record, int row_in_block) {
  const int32_t first = load_int(record + activation_field_offset(kPlanes, ActivationField::kHalfSum0, row_in_block));
  const int32_t second = load_int(record + activation_field_offset(kPlanes, ActivationField::kHalfSum1, row_in_block));
  return kParts == 1 ? wrapping_fma(1, first, second) : kPart == 0 ? first : second;
}

/// What the dot product of part kPart of a group starts from, so that with unsigned quants, or with what QuantDot makes
/// of them, it becomes the signed one of the format: sum of w x = sum of (w + offset) x - offset (sum of x). With one
/// plane kDotBias is in it.
template <class Traits, int kPlanes, int kPart>
BASS_SIMD_INLINE int32_t dot_start(const std::byte* record, int row_in_block) {
  constexpr int kOffset = Traits::kOffset - QuantDot<Traits::kBits, kPlanes>::kOffset;
  constexpr int32_t kBias = kPlanes == 1 ? kDotBiasBits : 0;
  if constexpr (kOffset == 0) return kBias;
  if constexpr (kOffset == 8 || kOffset == 128) {  // the formats that are met most: made when the row was quantised
    constexpr auto kField = kOffset == 8 ? ActivationField::kStart8 : ActivationField::kStart128;
    return load_int(record + activation_field_offset(kPlanes, kField, row_in_block));
  }
  return wrapping_fma(-kOffset, part_sum<kPlanes, Traits::kParts, kPart>(record, row_in_block), kBias);
}

/// idot of kRows rows with part kPart of a group of each tile, with kDotBias where there is one plane. sources:
/// [kTiles]; records: of the row blocks
template <class Source, int kPlanes, int kTiles, int kRows, int kPart>
BASS_SIMD_INLINE void part_dots(const Source* sources, int g, const std::byte* const* records,
                                I32x16 (&idot)[kTiles][kRows]) {
  using Traits = typename Source::Traits;
  using Dot = QuantDot<Traits::kBits, kPlanes>;
  I32x16 acc[kTiles][kRows][kPlanes];
  int32_t start[kRows];
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
    start[r] = dot_start<Traits, kPlanes, kPart>(records[r / kRowBlock], r % kRowBlock);
#pragma GCC unroll kUnrolled
    for (int p = 0; p < kPlanes; ++p) {
      const int32_t plane_start = p == kPlanes - 1 ? start[r] : 0;
#pragma GCC unroll kUnrolled
      for (int t = 0; t < kTiles; ++t) acc[t][r][p] = Dot::start(plane_start);
    }
  }
  const auto step = [&]<int kQuad>() __attribute__((always_inline)) {
    typename Dot::Weights w[kTiles];
#pragma GCC unroll kUnrolled
    for (int t = 0; t < kTiles; ++t) w[t] = Dot::weights(sources[t].template quad<kQuad>(g));
#pragma GCC unroll kUnrolled
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll kUnrolled
      for (int p = 0; p < kPlanes; ++p) {
        const auto* x = reinterpret_cast<const int8_t*>(records[r / kRowBlock]) +
                        activation_quants_offset(p, r % kRowBlock) + kQuad * 4;
        if constexpr (kTiles == 1) {
          Dot::add(&acc[0][r][p], w[0], x);
        } else {
          const I32x16 quads = broadcast_quad(x);  // a register, as several tiles read it
#pragma GCC unroll kUnrolled
          for (int t = 0; t < kTiles; ++t) Dot::add(&acc[t][r][p], w[t], quads);
        }
      }
    }
  };
  if constexpr (Traits::kParts == 1) {
    // Both halves of packed nibbles, one after the other.
    step.template operator()<0>();
    step.template operator()<4>();
    step.template operator()<1>();
    step.template operator()<5>();
    step.template operator()<2>();
    step.template operator()<6>();
    step.template operator()<3>();
    step.template operator()<7>();
  } else {
    step.template operator()<4 * kPart>();
    step.template operator()<4 * kPart + 1>();
    step.template operator()<4 * kPart + 2>();
    step.template operator()<4 * kPart + 3>();
  }
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll kUnrolled
    for (int t = 0; t < kTiles; ++t) {
      const I32x16(&planes)[kPlanes] = acc[t][r];
      const I32x16 last = Dot::finish(planes[kPlanes - 1], start[r]);
      if constexpr (kPlanes == 1) {
        idot[t][r] = last;
      } else {
        idot[t][r] = add(shift_left<8>(Dot::finish(planes[0], 0)), last);
      }
    }
  }
}

template <int kPlanes>
BASS_SIMD_INLINE F32x16 broadcast_field(const std::byte* record, ActivationField field, int row_in_block) {
  return broadcast(*reinterpret_cast<const float*>(record + activation_field_offset(kPlanes, field, row_in_block)));
}

/// fl(d_x float(idot)); with one plane idot holds kDotBias + idot.
template <int kPlanes>
BASS_SIMD_INLINE F32x16 scaled_dot(I32x16 idot, const std::byte* record, int row_in_block) {
  const F32x16 d_x = broadcast_field<kPlanes>(record, ActivationField::kScale, row_in_block);
  if constexpr (kPlanes == 1) {
    return fma(float_of(idot), d_x, broadcast_field<kPlanes>(record, ActivationField::kBias, row_in_block));
  } else {
    return mul(to_f32(idot), d_x);
  }
}

/// fl(d_x float(sum of part kPart))
template <int kPlanes, int kParts, int kPart>
BASS_SIMD_INLINE F32x16 scaled_part_sum(const std::byte* record, int row_in_block) {
  if constexpr (kParts == 1) return broadcast_field<kPlanes>(record, ActivationField::kScaledSum, row_in_block);
  const auto sum = static_cast<float>(part_sum<kPlanes, kParts, kPart>(record, row_in_block));
  return mul(broadcast_field<kPlanes>(record, ActivationField::kScale, row_in_block), broadcast(sum));
}

/// Adds part kPart of group g to the sums of kRows rows.
template <class Source, int kPlanes, int kTiles, int kRows, int kPart>
BASS_SIMD_INLINE void add_part(const Source* sources, int g, const std::byte* const* records,
                               F32x16 (&acc)[kTiles][kRows]) {
  using Traits = typename Source::Traits;
  I32x16 idot[kTiles][kRows];
  part_dots<Source, kPlanes, kTiles, kRows, kPart>(sources, g, records, idot);
  F32x16 d_w[kTiles];
#pragma GCC unroll kUnrolled
  for (int t = 0; t < kTiles; ++t) d_w[t] = sources[t].template scale<kPart>(g);
#pragma GCC unroll kUnrolled
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll kUnrolled
    for (int t = 0; t < kTiles; ++t) {
      acc[t][r] = fma(d_w[t], scaled_dot<kPlanes>(idot[t][r], records[r / kRowBlock], r % kRowBlock), acc[t][r]);
    }
  }
  if constexpr (Traits::kHasMinimum) {
    F32x16 m_w[kTiles];
#pragma GCC unroll kUnrolled
    for (int t = 0; t < kTiles; ++t) m_w[t] = sources[t].template minimum<kPart>(g);
#pragma GCC unroll kUnrolled
    for (int r = 0; r < kRows; ++r) {
      const F32x16 sum = scaled_part_sum<kPlanes, Traits::kParts, kPart>(records[r / kRowBlock], r % kRowBlock);
#pragma GCC unroll kUnrolled
      for (int t = 0; t < kTiles; ++t) acc[t][r] = fma(m_w[t], sum, acc[t][r]);
    }
  }
}

/// Stores leave the processor in their order, and the rows of a large output lie far apart: one missing line after the
/// other, where nobody has asked for them.
BASS_SIMD_INLINE void ask_for_outputs(const QuantJob& job, const MatmulOut& out) {
  const float* p = tile_row(out, static_cast<size_t>(job.first_row), job.tile);
  for (int r = 0; r < job.n_rows; ++r, p += out.stride) {
    prefetch_to_write(p);
    prefetch_to_write(p + (job.n_tiles - 1) * kTileLen);
  }
}

/// Lines of a FetchQueue that are asked for with each group: of the tiles and rows that one block of the kernel has.
template <int kPlanes, int kTiles>
inline constexpr int kFetchLines = (kTiles * (kPlanes == 2 ? kRowBlock : kMatmulRows) * kPlanes * kFetchBytes + 63) /
                                   64;

/// kTiles tiles and kRows rows. Rows behind job.n_rows, in the same row block, are computed and not stored.
template <class Source, int kPlanes, int kTiles, int kRows>
void quant_tiles(const Source* sources, const QuantJob& job, const ActivationRows& x, const MatmulOut& out) {
  constexpr int kBlocks = (kRows + kRowBlock - 1) / kRowBlock;
  const std::byte* records[kBlocks];
#pragma GCC unroll kUnrolled
  for (int b = 0; b < kBlocks; ++b) records[b] = x.record(job.first_row + b * kRowBlock, job.groups.begin);
  F32x16 acc[kTiles][kRows];
#pragma GCC unroll kUnrolled
  for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll kUnrolled
    for (int r = 0; r < kRows; ++r) {
      acc[t][r] = job.sums_before == nullptr ? zero_f32() : load(job.sums_before + (t * kRunRows + r) * kTileLen);
    }
  }
  GroupsAhead ahead = job.ahead;
  FetchQueue* fetch = job.fetch;
  if (job.sums_after == nullptr) ask_for_outputs(job, out);
  for (int g = job.groups.begin; g < job.groups.end; ++g) {
    ahead.ask<Source::template kStagedLines<kTiles>>();
    if (fetch != nullptr) {
      constexpr int kLines = kFetchLines<kPlanes, kTiles>;
      const std::byte* fetched = fetch->take(kLines * 64);
      if (fetched == nullptr) {
        fetch = nullptr;
      } else {
#pragma GCC unroll kUnrolled
        for (int i = 0; i < kLines; ++i) prefetch_l2(fetched + i * 64);
      }
    }
    add_part<Source, kPlanes, kTiles, kRows, 0>(sources, g, records, acc);
    if constexpr (Source::Traits::kParts == 2) add_part<Source, kPlanes, kTiles, kRows, 1>(sources, g, records, acc);
#pragma GCC unroll kUnrolled
    for (int b = 0; b < kBlocks; ++b) records[b] += activation_record_bytes(kPlanes);
  }
#pragma GCC unroll kUnrolled
  for (int t = 0; t < kTiles; ++t) {
    if (job.sums_after != nullptr) {
#pragma GCC unroll kUnrolled
      for (int r = 0; r < kRows; ++r) store(job.sums_after + (t * kRunRows + r) * kTileLen, acc[t][r]);
    } else if (t < job.n_tiles) {
      store_tile<kRows>(out, job.first_row, job.n_rows, job.tile + t, acc[t]);
    }
  }
}

/// quant_tiles of job.n_rows <= kRows rows, but at least kMinRows. There is code for every number of rows: the most
/// frequent one of a sequence that drafts is five.
template <class Source, int kPlanes, int kTiles, int kRows, int kMinRows>
BASS_SIMD_INLINE void quant_tiles_rows(const Source* sources, const QuantJob& job, const ActivationRows& x,
                                       const MatmulOut& out) {
  if constexpr (constexpr int kFewer = kRows - 1; kFewer >= kMinRows) {
    if (job.n_rows <= kFewer) return quant_tiles_rows<Source, kPlanes, kTiles, kFewer, kMinRows>(sources, job, x, out);
  }
  quant_tiles<Source, kPlanes, kTiles, kRows>(sources, job, x, out);
}

/// quant_tiles of whole row blocks: the least number of them that has job.n_rows rows, but at least kMinRows rows.
template <class Source, int kPlanes, int kTiles, int kRows, int kMinRows>
BASS_SIMD_INLINE void quant_tiles_blocks(const Source* sources, const QuantJob& job, const ActivationRows& x,
                                         const MatmulOut& out) {
  if constexpr (kRows > kMinRows) {
    constexpr int kFewer = kRows - kRowBlock;
    if (job.n_rows <= kFewer) {
      return quant_tiles_blocks<Source, kPlanes, kTiles, kFewer, kMinRows>(sources, job, x, out);
    }
  }
  quant_tiles<Source, kPlanes, kTiles, kRows>(sources, job, x, out);
}

/// The rows [0, n_rows) divided into blocks of at most kMaxRows: whole row blocks each but the last, of sizes as equal
/// as that allows.
template <int kMaxRows>
class RowSplit {
 public:
  explicit RowSplit(int n_rows)
      : n_rows_(n_rows),
        n_units_((n_rows + kRowBlock - 1) / kRowBlock),
        n_blocks_((n_units_ + kMaxUnits - 1) / kMaxUnits) {}

  [[nodiscard]] int n_blocks() const { return n_blocks_; }
  [[nodiscard]] WorkRange block(int idx) const {
    const int end = n_units_ * (idx + 1) / n_blocks_ * kRowBlock;
    return {n_units_ * idx / n_blocks_ * kRowBlock, end < n_rows_ ? end : n_rows_};
  }

 private:
  static constexpr int kMaxUnits = kMaxRows / kRowBlock;
  int n_rows_;
  int n_units_;
  int n_blocks_;
};

/// {make(0), .. make(kTiles - 1)}
template <int kTiles, class Make>
BASS_SIMD_INLINE auto each_tile(const Make& make) {
  if constexpr (kTiles == 1) {
    return std::array{make(0)};
  } else {
    static_assert(kTiles == 2);
    return std::array{make(0), make(1)};
  }
}

/// One of three and more blocks of rows: the first one leaves the tiles unpacked for the others.
template <int kPlanes, int kTiles, int kMaxRows, class Packed, class Group>
void quant_tiles_unpacked(const std::array<Packed, kTiles>& packed, Group (&unpacked)[kTiles][kChunkGroups],
                          bool is_first, const QuantJob& job, const ActivationRows& x, const MatmulOut& out) {
  using Unpacking = UnpackingSource<Packed>;
  using Unpacked = UnpackedSource<typename Packed::Traits::Meaning>;
  // Each of them has at least this many rows, but for the last one's row block that is not full.
  constexpr int kMinBlockRows = (2 * kMaxRows / kRowBlock + 1) / 3 * kRowBlock;
  const int begin = job.groups.begin;
  if (is_first) {
    const auto sources =
        each_tile<kTiles>([&](int t) { return Unpacking(packed[static_cast<size_t>(t)], unpacked[t], begin); });
    quant_tiles_blocks<Unpacking, kPlanes, kTiles, kMaxRows, kMinBlockRows>(sources.data(), job, x, out);
  } else {
    const auto sources = each_tile<kTiles>([&](int t) { return Unpacked(unpacked[t], begin); });
    quant_tiles_blocks<Unpacked, kPlanes, kTiles, kMaxRows, kMinBlockRows>(sources.data(), job, x, out);
  }
}

/// Up to kRunRows rows from row `first_row` on with up to kMatmulTiles tiles.
template <DType kType, int kPlanes, int kTiles>
void quant_run(const PackedMatrix& w, const ActivationRows& x, int first_row, int n_rows, WorkRange tiles,
               const AheadPlan<PackedSource<kType>, kTiles>& ahead, const MatmulOut& out, FetchQueue* fetch) {
  constexpr bool kHasFewRows = kTiles < kMatmulTiles;
  constexpr int kMaxRows = kHasFewRows || kPlanes == 2 ? kRowBlock : kMatmulRows;
  // What may be left of rows that are more than that: a row block, but for the last of many runs, whose time is
  // nothing.
  constexpr int kMinRows = kMaxRows > kRowBlock ? kRowBlock : 1;
  using Packed = PackedSource<kType>;
  const RowSplit<kMaxRows> split(n_rows);
  const int n_groups = w.n_in / kGroupLen;
  const size_t tile_bytes = packed_tile_bytes(kType, w.n_in);
  const int n_tiles = tiles.end - tiles.begin;
  const std::byte* first_tile = w.data + static_cast<size_t>(tiles.begin) * tile_bytes;
  const auto tile_data = [&](int t) {
    return first_tile + static_cast<size_t>(t < n_tiles ? t : n_tiles - 1) * tile_bytes;
  };
  const auto packed = each_tile<kTiles>([&](int t) { return Packed(tile_data(t), n_groups); });
  // Unpacking pays from the third block on, and not at all where a packed quant is a byte, or a nibble whose mask and
  // shift cost nothing.
  constexpr int kBits = Packed::Traits::kBits;
  const bool unpacks = split.n_blocks() > 2 && !(kBits == 4 && kMasksMayBeFree && masks_are_free());
  UnpackedGroup<Packed::Traits::kParts> unpacked[kTiles][kChunkGroups];
  alignas(64) float partial[kTiles * kRunRows * kTileLen];
  for (int begin = 0; begin < n_groups; begin += kChunkGroups) {
    const int end = begin + kChunkGroups < n_groups ? begin + kChunkGroups : n_groups;
    for (int b = 0; b < split.n_blocks(); ++b) {
      const WorkRange rows = split.block(b);
      float* sums = partial + rows.begin * kTileLen;
      QuantJob job{};
      job.tile = tiles.begin;
      job.n_tiles = n_tiles;
      job.first_row = first_row + rows.begin;
      job.n_rows = rows.end - rows.begin;
      job.groups = {begin, end};
      job.ahead = ahead.part(first_tile, b, split.n_blocks(), begin, n_groups < kChunkGroups ? n_groups : kChunkGroups);
      job.fetch = fetch;
      job.sums_before = begin == 0 ? nullptr : sums;
      job.sums_after = end == n_groups ? nullptr : sums;
      if constexpr (!kHasFewRows && kBits < 8) {
        if (unpacks) {
          quant_tiles_unpacked<kPlanes, kTiles, kMaxRows>(packed, unpacked, b == 0, job, x, out);
          continue;
        }
      }
      constexpr int kMostRows = kHasFewRows ? kMaxSingleTileRows<kPlanes> : kMaxRows;
      quant_tiles_rows<Packed, kPlanes, kTiles, kMostRows, kMinRows>(packed.data(), job, x, out);
    }
  }
}

/// kTiles tiles at a time.
template <DType kType, int kPlanes, int kTiles>
void quant_matmul_tiles(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                        const MatmulOut& out, FetchQueue* fetch) {
  const int n_groups = w.n_in / kGroupLen;
  const ReadAhead& policy = read_ahead();
  const AheadPlan<PackedSource<kType>, kTiles> ahead(
      n_rows <= kMaxSingleTileRows<kPlanes> ? policy.of_few_rows : policy.of_more_rows,
      PackedSource<kType>(w.data, n_groups), packed_tile_bytes(kType, w.n_in), n_groups);
  for (int first_row = 0; first_row < n_rows; first_row += kRunRows) {
    const int n_run_rows = n_rows - first_row < kRunRows ? n_rows - first_row : kRunRows;
    for (int tile = tiles.begin; tile < tiles.end; tile += kTiles) {
      const int end = tile + kTiles < tiles.end ? tile + kTiles : tiles.end;
      quant_run<kType, kPlanes, kTiles>(w, x, first_row, n_run_rows, {tile, end}, ahead, out, fetch);
    }
  }
}

template <DType kType, int kPlanes>
void quant_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, const MatmulOut& out,
                  FetchQueue* fetch) {
  if (n_rows <= kMaxSingleTileRows<kPlanes>) {
    quant_matmul_tiles<kType, kPlanes, 1>(w, x, n_rows, tiles, out, nullptr);
  } else {
    FetchQueue* taken = n_rows > kMaxRowsWithoutFetch ? fetch : nullptr;
    quant_matmul_tiles<kType, kPlanes, kMatmulTiles>(w, x, n_rows, tiles, out, taken);
  }
}

template <DType kType>
void quant_matmul_planes(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                         const MatmulOut& out, FetchQueue* fetch) {
  if (x.n_planes == 2) {
    quant_matmul<kType, 2>(w, x, n_rows, tiles, out, fetch);
  } else {
    quant_matmul<kType, 1>(w, x, n_rows, tiles, out, fetch);
  }
}

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
