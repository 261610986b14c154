// What the matrix products of quantised weights ask for before they need it. Include after a simd_*.h.
#pragma once

#include <cstddef>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/read_ahead.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// Cache lines of a group's share of kTiles tiles of `group_bytes` each.
template <int kTiles>
constexpr int share_lines(size_t group_bytes) {
  return static_cast<int>((kTiles * group_bytes + 63) / 64);
}

/// What the tiles in work need next, asked for so far ahead that memory has answered by then (the hardware's own
/// prefetch stops at each page). Where the tiles are hardly longer than that distance, memory is asked for as it lies:
/// in each group as many lines as its share of the tiles would be if they had no parts. Of longer ones, what is used
/// next would often lie behind what is asked for, or too near: there it is asked for in the order in which it is used,
/// the groups behind the one in work, then those of the tiles that follow.
struct GroupsAhead {
  /// A line of group g that lies `offset + g * stride` bytes from the tiles' begin.
  struct Line {
    ptrdiff_t offset;
    ptrdiff_t stride;
  };
  struct Place {
    const std::byte* data;  // of the group's share; with lines: of the tiles that it is in
    int group;
  };

  const Line* lines;  // of a group, in the order of use; null: as memory lies
  int first_line;
  int end_line;
  bool asks_second;  // the second level, for what is far
  bool is_staged;    // and then the first, for what is near: only where a block has all lines. What several have asked
                     // for would push out the rows, and there is time enough to fetch it from the second
  int n_groups;
  ptrdiff_t share_bytes;
  ptrdiff_t tiles_bytes;
  Place far;
  Place near;

  /// Once for each group in work. kStagedLines: share_lines of the tiles; 0 in one of several blocks
  template <int kStagedLines>
  BASS_SIMD_INLINE void ask() {
    if (lines == nullptr) {
      if (kStagedLines > 0 && is_staged) {
#pragma GCC unroll kUnrolled
        for (int i = 0; i < kStagedLines; ++i) {
          prefetch_l2(far.data + i * 64);
          prefetch(near.data + i * 64);
        }
        near.data += share_bytes;
      } else {
        for (int i = first_line; i < end_line; ++i) ask_far(far.data + i * 64);
      }
      far.data += share_bytes;
      return;
    }
    for (int i = first_line; i < end_line; ++i) {
      ask_far(far.data + lines[i].offset + far.group * lines[i].stride);
      if (kStagedLines > 0 && is_staged) {
        prefetch(near.data + lines[i].offset + near.group * lines[i].stride);
      }
    }
    advance(&far);
    advance(&near);
  }

 private:
  BASS_SIMD_INLINE void ask_far(const std::byte* p) const {
    if (asks_second) {
      prefetch_l2(p);
    } else {
      prefetch(p);
    }
  }
  BASS_SIMD_INLINE void advance(Place* place) const {
    if (++place->group == n_groups) *place = {place->data + tiles_bytes, 0};
  }
};

/// Of all tiles of a product, kTiles at a time.
template <class Packed, int kTiles>
class AheadPlan {
 public:
  AheadPlan(const ReadAhead::Weights& policy, const Packed& packed, size_t tile_bytes, int n_groups)
      : is_staged_(policy.is_staged()),
        far_groups_(groups(policy.distance)),
        near_groups_(groups(policy.near_distance)),
        n_groups_(n_groups),
        tiles_bytes_(kTiles * static_cast<ptrdiff_t>(tile_bytes)),
        is_linear_(tiles_bytes_ <= policy.distance + policy.distance / 4) {
    if (is_linear_) return;
    for (int t = 0; t < kTiles; ++t) {
      GroupsAhead::Line* of_tile = lines_ + t * Packed::kGroupLines;
      packed.lines(of_tile);
      for (int i = 0; i < Packed::kGroupLines; ++i) of_tile[i].offset += t * static_cast<ptrdiff_t>(tile_bytes);
    }
  }

  /// tiles: the first of those in work. Part `idx` of n of the lines of each group, from first_group on. Of several
  /// parts (which follow one another for the same groups) the first one needs what all have asked for: they ask for the
  /// groups n_chunk further on.
  [[nodiscard]] BASS_SIMD_INLINE GroupsAhead part(const std::byte* tiles, int idx, int n, int first_group,
                                                  int n_chunk) const {
    const int n_lines = is_linear_ ? share_lines<kTiles>(Packed::kGroupBytes) : kTiles * Packed::kGroupLines;
    return {is_linear_ ? nullptr : lines_,
            n == 1 ? 0 : n_lines * idx / n,
            n == 1 ? n_lines : n_lines * (idx + 1) / n,
            is_staged_,
            n == 1 && is_staged_,
            n_groups_,
            kShareBytes,
            tiles_bytes_,
            place(tiles, first_group + (n > 1 ? n_chunk : far_groups_)),
            place(tiles, first_group + near_groups_)};
  }

 private:
  static constexpr ptrdiff_t kShareBytes = kTiles * static_cast<ptrdiff_t>(Packed::kGroupBytes);

  static int groups(ptrdiff_t bytes) { return static_cast<int>((bytes + kShareBytes - 1) / kShareBytes); }
  [[nodiscard]] BASS_SIMD_INLINE GroupsAhead::Place place(const std::byte* tiles, int group) const {
    if (is_linear_) return {tiles + group * kShareBytes, 0};
    for (; group >= n_groups_; group -= n_groups_) tiles += tiles_bytes_;
    return {tiles, group};
  }

  bool is_staged_;
  int far_groups_;
  int near_groups_;
  int n_groups_;
  ptrdiff_t tiles_bytes_;
  bool is_linear_;
  GroupsAhead::Line lines_[kTiles * Packed::kGroupLines];
};

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
