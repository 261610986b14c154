// Chunks on their way from pages to shared memory, by asynchronous copies of 16 bytes, and how they lie there.
//
// A lane reads eight bytes (four of int8) of a row of K or V; lanes of one `group` (TileS8) neighbouring ones, and the
// four `t` rows that are two apart. Rows as in the page would put those into the same banks. So K's units of 16 bytes
// are swapped within lines of 128 bytes, by (row / 2) % 4, which is t: no lane computes more for it. V's rows, whose
// length is the head's, are 16 bytes farther apart than in the page.
#pragma once

#include "kernels/cuda/attention/head_type.h"

namespace bass::cuda {

inline constexpr int kUnitBytes = 16;
inline constexpr int kLineUnits = 8;
/// Of K and V of a chunk.
BASS_HD constexpr int scale_bytes(KvNumbers numbers) {
  return is_float(numbers) ? 0 : 2 * kPageLen * static_cast<int>(sizeof(float));
}

/// Shared memory of a block that is allotted anew for each thing it does.
struct SharedRoom {
  std::byte* free;

  template <class T>
  BASS_HD T* shared(int n) {
    T* place = reinterpret_cast<T*>(free);
    free += (sizeof(T) * static_cast<size_t>(n) + 15) / 16 * 16;
    return place;
  }
};

/// A KV head's chunks of one sequence. Chunks behind the last (BASS-PAD) read its first page.
struct ChunkPages {
  const std::byte* head;  // of page 0
  const int32_t* pages;
  int64_t page_bytes;
  int32_t n_pages;

  [[nodiscard]] BASS_HD const std::byte* of(int chunk) const {
    return head + int64_t{pages[chunk < n_pages ? chunk : 0]} * page_bytes;
  }
};
BASS_HD ChunkPages pages_of(const AttentionArguments& args, const AttentionTile& tile, int kv_head) {
  return {args.kv.pages + args.layer_offset + kv_head * args.kv.head_bytes, args.batch.pages + tile.first_page,
          args.kv.page_bytes, tile.n_pages};
}

/// A warp copies n_units that lie side by side.
template <int kMaxUnits, class Context>
BASS_HD void copy_units(Context& context, std::byte* to, const std::byte* from, int n_units) {
  BASS_UNROLL
  for (int i = 0; i < ceil_div(kMaxUnits, kWarpLen); ++i) {
    const int byte = (i * kWarpLen + context.lane()) * kUnitBytes;
    if (byte < n_units * kUnitBytes) context.copy_ahead(to + byte, from + byte);
  }
}

/// K of a chunk and, of whole numbers, the scales of both, in shared memory.
struct StagedKeys {
  std::byte* bytes;

  BASS_HD static int n_bytes(int head_dim, KvNumbers numbers) {
    return kPageLen * head_dim * bytes_of(numbers) + scale_bytes(numbers);
  }

  template <class Heads>
  [[nodiscard]] BASS_HD const float* k_scales(const Heads& heads) const {
    return reinterpret_cast<const float*>(bytes + heads.plane_bytes());
  }
  template <class Heads>
  [[nodiscard]] BASS_HD const float* v_scales(const Heads& heads) const {
    return k_scales(heads) + kPageLen;
  }

  /// Where the units of a line lie that holds the pairs of dimensions 2 t and 2 t + 1 (modulo 8): unit ^ swap_of(t).
  BASS_HD static int swap_of(int t) { return 2 * t; }

  template <class Heads, class Context>
  BASS_HD void stage(Context& context, const Heads& heads, const std::byte* page_head) const {
    constexpr int kLineRows = 3 - Heads::kNumberBytes;  // 1, or 2 of int8
    constexpr int kMaxUnits = kPageLen * Heads::kMaxDim * Heads::kNumberBytes / kUnitBytes;
    const int line = context.lane() / kLineUnits;
    const auto place_of = [&](int i) {  // among four lines; of every other four the same
      const int t = (line + i * (kWarpLen / kLineUnits)) * kLineRows / 2 % 4;
      return bytes + (context.lane() ^ swap_of(t)) * kUnitBytes;
    };
    std::byte* const even = place_of(0);
    std::byte* const odd = place_of(1);
    const std::byte* from = page_head + context.lane() * kUnitBytes;
    BASS_UNROLL_BY(Heads::kUnroll)
    for (int i = 0; i < kMaxUnits / kWarpLen; ++i) {
      const int byte = i * kWarpLen * kUnitBytes;
      if (byte + context.lane() * kUnitBytes >= heads.plane_bytes()) break;
      context.copy_ahead((i % 2 == 0 ? even : odd) + byte, from + byte);
    }
    constexpr int kScaleUnits = scale_bytes(Heads::kNumbers) / kUnitBytes;
    copy_units<kScaleUnits>(context, bytes + heads.plane_bytes(), page_head + 2 * heads.plane_bytes(), kScaleUnits);
  }
};

/// V of a chunk, or the dimensions [first_dim, first_dim + n_dims) of it, in shared memory.
struct StagedValues {
  std::byte* bytes;
  int32_t n_dims;

  BASS_HD static int stride_of(int n_dims, KvNumbers numbers) { return 2 * n_dims * bytes_of(numbers) + kUnitBytes; }
  BASS_HD static int n_bytes(int n_dims, KvNumbers numbers) { return kPageLen / 2 * stride_of(n_dims, numbers); }
  /// Of a pair of positions.
  template <class Heads>
  [[nodiscard]] BASS_HD int stride(const Heads& /*heads*/) const {
    return stride_of(n_dims, Heads::kNumbers);
  }

  /// A warp's instruction copies a line of each of four rows. kMaxDims: of n_dims
  template <int kMaxDims, class Heads, class Context>
  BASS_HD void stage(Context& context, const Heads& heads, const std::byte* page_head, int first_dim) const {
    constexpr int kPairBytes = 2 * Heads::kNumberBytes;
    constexpr int kMaxLines = ceil_div(kMaxDims * kPairBytes, kLineUnits * kUnitBytes);
    constexpr int kRows = kWarpLen / kLineUnits;
    const int row = context.lane() / kLineUnits;
    const int byte = context.lane() % kLineUnits * kUnitBytes;
    std::byte* to = bytes + row * stride(heads) + byte;
    const std::byte* from = page_head + heads.plane_bytes() + (row * heads.dim() + first_dim) * kPairBytes + byte;
    BASS_UNROLL_BY(Heads::kUnroll)
    for (int i = 0; i < kMaxLines * (kPageLen / 2 / kRows); ++i) {
      const int line = i % kMaxLines * kLineUnits * kUnitBytes;
      const int first_row = i / kMaxLines * kRows;
      if (byte + line >= n_dims * kPairBytes) continue;
      context.copy_ahead(to + first_row * stride(heads) + line, from + first_row * heads.dim() * kPairBytes + line);
    }
  }
};

}  // namespace bass::cuda
