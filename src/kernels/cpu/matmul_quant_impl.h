// Matrix products of quantised weights. Include after a simd_*.h.
//
// A tile of weights is multiplied with blocks of rows. The first block of a batch reads the packed tile; where several
// follow, it leaves the tile unpacked in the first-level cache for them. All of them ask for their part of the weights
// to come: more than a few reads at once would keep the kernel waiting. Long rows are taken in chunks of groups, so
// that the unpacked copy stays small; sums wait for the next chunk in `partial`.
#pragma once

#include "kernels/cpu/matmul_format_impl.h"
#include "kernels/cpu/matmul_out_impl.h"
#include "kernels/cpu/read_ahead.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kChunkGroups = 64;  // groups of a tile that lie unpacked at a time: 40 KiB
inline constexpr int kRunRows = 96;      // rows whose partial sums are kept between chunks: 6 KiB

static_assert(kMatmulRows % kRowBlock == 0);

/// What to ask for (read_ahead.h), n_lines cache lines in each group.
struct TileAhead {
  const std::byte* far;
  const std::byte* near;  // null: far comes into the first level
  int n_lines;

  TileAhead() = default;
  /// share: of the first group
  TileAhead(const ReadAhead& policy, const std::byte* share, int lines)
      : far(share + policy.distance),
        near(policy.is_staged() ? share + policy.near_distance : nullptr),
        n_lines(lines) {}

  BASS_SIMD_INLINE void ask() {
    if (near == nullptr) {
      for (int i = 0; i < n_lines; ++i, far += 64) prefetch(far);
      return;
    }
    for (int i = 0; i < n_lines; ++i, far += 64, near += 64) {
      prefetch_l2(far);
      prefetch(near);
    }
  }
};

/// One tile, some of its groups, one block of rows.
struct QuantJob {
  int tile;
  int first_row;  // a multiple of kRowBlock
  int n_rows;
  WorkRange groups;
  TileAhead ahead;
  // [kRows, kTileLen] sums of earlier chunks, or null in a row's first chunk; where sums go if this is not the last
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

/// What the dot product of part kPart of a group starts from, so that with unsigned quants it becomes the signed one of
/// the format: sum of w x = sum of (w + offset) x - offset (sum of x). With one plane kDotBias is in it.
template <class Traits, int kPlanes, int kPart>
BASS_SIMD_INLINE int32_t dot_start(const std::byte* record, int row_in_block) {
  constexpr int kOffset = Traits::kFormat.offset;
  constexpr int32_t kBias = kPlanes == 1 ? kDotBiasBits : 0;
  if constexpr (kOffset == 0) return kBias;
  if constexpr (kOffset == 8 || kOffset == 128) {  // the formats that are met most: made when the row was quantised
    constexpr auto kField = kOffset == 8 ? ActivationField::kStart8 : ActivationField::kStart128;
    return load_int(record + activation_field_offset(kPlanes, kField, row_in_block));
  }
  return wrapping_fma(-kOffset, part_sum<kPlanes, Traits::kParts, kPart>(record, row_in_block), kBias);
}

/// idot of kRows rows with part kPart of a group, with kDotBias where there is one plane. records: of the row blocks
template <class Source, int kPlanes, int kRows, int kPart>
BASS_SIMD_INLINE void part_dots(const Source& source, int g, const std::byte* const* records, I32x16 (&idot)[kRows]) {
  using Traits = typename Source::Traits;
  I32x16 acc[kRows][kPlanes];
  int32_t start[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    start[r] = dot_start<Traits, kPlanes, kPart>(records[r / kRowBlock], r % kRowBlock);
#pragma GCC unroll 2
    for (int p = 0; p < kPlanes; ++p) {
      const int32_t plane_start = p == kPlanes - 1 ? start[r] : 0;
      acc[r][p] = Traits::kNibbles ? dot_u4s8_start(plane_start) : broadcast_i32(plane_start);
    }
  }
  const auto step = [&]<int kQuad>() __attribute__((always_inline)) {
    const I32x16 w = source.template quad<kQuad>(g);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int p = 0; p < kPlanes; ++p) {
        const auto* x = reinterpret_cast<const int8_t*>(records[r / kRowBlock]) +
                        activation_quants_offset(p, r % kRowBlock) + kQuad * 4;
        acc[r][p] = Traits::kNibbles ? dot_u4s8(acc[r][p], w, x) : dot_u8s8(acc[r][p], w, x);
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
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const I32x16 last = Traits::kNibbles ? dot_u4s8_finish(acc[r][kPlanes - 1], start[r]) : acc[r][kPlanes - 1];
    if constexpr (kPlanes == 1) {
      idot[r] = last;
    } else {
      idot[r] = add(shift_left<8>(Traits::kNibbles ? dot_u4s8_finish(acc[r][0], 0) : acc[r][0]), last);
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
template <class Source, int kPlanes, int kRows, int kPart>
BASS_SIMD_INLINE void add_part(const Source& source, int g, const std::byte* const* records, F32x16 (&acc)[kRows]) {
  using Traits = typename Source::Traits;
  I32x16 idot[kRows];
  part_dots<Source, kPlanes, kRows, kPart>(source, g, records, idot);
  const F32x16 d_w = source.template scale<kPart>(g);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    acc[r] = fma(d_w, scaled_dot<kPlanes>(idot[r], records[r / kRowBlock], r % kRowBlock), acc[r]);
  }
  if constexpr (Traits::kHasMinimum) {
    const F32x16 m_w = source.template minimum<kPart>(g);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      acc[r] = fma(m_w, scaled_part_sum<kPlanes, Traits::kParts, kPart>(records[r / kRowBlock], r % kRowBlock), acc[r]);
    }
  }
}

/// Stores leave the processor in their order, and the rows of a large output lie far apart: one missing line after the
/// other, where nobody has asked for them.
template <int kRows>
BASS_SIMD_INLINE void ask_for_outputs(const QuantJob& job, const MatmulOut& out) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (r < job.n_rows) prefetch(tile_row(out, static_cast<size_t>(job.first_row + r), job.tile));
  }
}

/// Rows behind job.n_rows, in the same row block, are computed and not stored.
template <class Source, int kPlanes, int kRows>
void quant_tile(const Source& source, const QuantJob& job, const ActivationRows& x, const MatmulOut& out) {
  constexpr int kBlocks = (kRows + kRowBlock - 1) / kRowBlock;
  const std::byte* records[kBlocks];
#pragma GCC unroll 4
  for (int b = 0; b < kBlocks; ++b) records[b] = x.record(job.first_row + b * kRowBlock, job.groups.begin);
  F32x16 acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
    acc[r] = job.sums_before == nullptr ? zero_f32() : load(job.sums_before + r * kTileLen);
  TileAhead ahead = job.ahead;
  if (job.sums_after == nullptr) ask_for_outputs<kRows>(job, out);
  for (int g = job.groups.begin; g < job.groups.end; ++g) {
    ahead.ask();
    add_part<Source, kPlanes, kRows, 0>(source, g, records, acc);
    if constexpr (Source::Traits::kParts == 2) add_part<Source, kPlanes, kRows, 1>(source, g, records, acc);
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) records[b] += activation_record_bytes(kPlanes);
  }
  if (job.sums_after != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) store(job.sums_after + r * kTileLen, acc[r]);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (r < job.n_rows) store_tile_row(out, static_cast<size_t>(job.first_row + r), job.tile, acc[r]);
  }
}

/// quant_tile of job.n_rows <= kRows rows. There is code for every number of rows up to a row block, then for even
/// ones: all of them would double the program.
template <class Source, int kPlanes, int kRows>
BASS_SIMD_INLINE void quant_tile_rows(const Source& source, const QuantJob& job, const ActivationRows& x,
                                      const MatmulOut& out) {
  constexpr int kFewer = kRows <= kRowBlock ? kRows - 1 : kRows - 2;
  if constexpr (kRows > 1) {
    if (job.n_rows <= kFewer) return quant_tile_rows<Source, kPlanes, kFewer>(source, job, x, out);
  }
  quant_tile<Source, kPlanes, kRows>(source, job, x, out);
}

/// quant_tile of whole row blocks: the least number of them that has job.n_rows rows, but at least kMinRows rows.
template <class Source, int kPlanes, int kRows, int kMinRows>
BASS_SIMD_INLINE void quant_tile_blocks(const Source& source, const QuantJob& job, const ActivationRows& x,
                                        const MatmulOut& out) {
  if constexpr (kRows > kMinRows) {
    constexpr int kFewer = kRows - kRowBlock;
    if (job.n_rows <= kFewer) return quant_tile_blocks<Source, kPlanes, kFewer, kMinRows>(source, job, x, out);
  }
  quant_tile<Source, kPlanes, kRows>(source, job, x, out);
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

/// Up to kRunRows rows from row `first_row` on with one tile.
template <DType kType, int kPlanes>
void quant_run(const PackedMatrix& w, const ActivationRows& x, int first_row, int n_rows, int tile,
               const MatmulOut& out) {
  constexpr int kMaxRows = kPlanes == 1 || kMatmulRows == kRowBlock ? kMatmulRows : 2 * kRowBlock;
  using Packed = PackedSource<kType>;
  using Unpacked = UnpackedSource<typename Packed::Traits>;
  const RowSplit<kMaxRows> split(n_rows);
  const int n_groups = w.n_in / kGroupLen;
  const Packed packed(w.data + static_cast<size_t>(tile) * packed_tile_bytes(kType, w.n_in), n_groups);
  // Unpacking pays from the third block on, and not at all where a packed quant is a byte. Of three and more blocks
  // each has at least this many rows, but for the last one's row block that is not full.
  constexpr int kMinBlockRows = (2 * kMaxRows / kRowBlock + 1) / 3 * kRowBlock;
  const bool unpacks = Packed::Traits::kFormat.bits < 8 && split.n_blocks() > 2;
  const ReadAhead& policy = split.n_blocks() > 2 ? kReadAheadOfFirstLevel : read_ahead();
  const int ahead_lines = (Packed::kGroupLines + split.n_blocks() - 1) / split.n_blocks();
  typename Unpacked::Group unpacked[kChunkGroups];
  alignas(64) float partial[kRunRows * kTileLen];
  for (int begin = 0; begin < n_groups; begin += kChunkGroups) {
    const int end = begin + kChunkGroups < n_groups ? begin + kChunkGroups : n_groups;
    for (int b = 0; b < split.n_blocks(); ++b) {
      const WorkRange rows = split.block(b);
      float* sums = partial + rows.begin * kTileLen;
      QuantJob job{};
      job.tile = tile;
      job.first_row = first_row + rows.begin;
      job.n_rows = rows.end - rows.begin;
      job.groups = {begin, end};
      const ptrdiff_t asked_bytes = static_cast<ptrdiff_t>(b * ahead_lines * (end - begin)) * 64;
      job.ahead =
          TileAhead(policy, packed.share(begin) + asked_bytes, b * ahead_lines < Packed::kGroupLines ? ahead_lines : 0);
      job.sums_before = begin == 0 ? nullptr : sums;
      job.sums_after = end == n_groups ? nullptr : sums;
      if (!unpacks) {
        quant_tile_rows<Packed, kPlanes, kMaxRows>(packed, job, x, out);
      } else if (b == 0) {
        quant_tile_blocks<UnpackingSource<Packed>, kPlanes, kMaxRows, kMinBlockRows>({packed, unpacked, begin}, job, x,
                                                                                     out);
      } else {
        quant_tile_blocks<Unpacked, kPlanes, kMaxRows, kMinBlockRows>({unpacked, begin}, job, x, out);
      }
    }
  }
}

template <DType kType, int kPlanes>
void quant_matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, const MatmulOut& out) {
  for (int first_row = 0; first_row < n_rows; first_row += kRunRows) {
    const int n_run_rows = n_rows - first_row < kRunRows ? n_rows - first_row : kRunRows;
    for (int tile = tiles.begin; tile < tiles.end; ++tile) {
      quant_run<kType, kPlanes>(w, x, first_row, n_run_rows, tile, out);
    }
  }
}

template <DType kType>
void quant_matmul_planes(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles,
                         const MatmulOut& out) {
  if (x.n_planes == 2) {
    quant_matmul<kType, 2>(w, x, n_rows, tiles, out);
  } else {
    quant_matmul<kType, 1>(w, x, n_rows, tiles, out);
  }
}

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
