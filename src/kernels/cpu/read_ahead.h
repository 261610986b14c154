// How far in front of itself a kernel asks for memory, and into which cache: what a processor does by itself, and how
// many reads it can have in flight, differ between makers. Nothing here changes a result.
#pragma once

#include <cstddef>

#include "bass/status.h"

namespace bass::cpu {

struct ReadAhead {
  struct Weights {
    /// Bytes between the weights that are in work and those that are asked for.
    ptrdiff_t distance;
    /// 0: they are asked for into the first level. Else into the second, and what lies at this distance into the first.
    ptrdiff_t near_distance;

    [[nodiscard]] bool is_staged() const { return near_distance > 0; }
  };

  const char* name;
  Weights of_few_rows;  // at most kRowBlock: nothing counts but how memory is read
  Weights of_more_rows;
  /// The next page's keys and values are asked for into the second level, else into the first.
  bool stages_keys;
};

inline constexpr ReadAhead kReadAheadOfFirstLevel{"l1", {8192, 0}, {8192, 0}, false};

/// The one for this processor, chosen once by its maker and family, or the one that BASS_READ_AHEAD names:
///   staged  AMD before Zen 5. A core of Zen 4 has 24 reads of its first level in flight, which is about 14 GB/s; the
///           second level has more, and reads 20.
///   far     AMD from Zen 5 on: into the first level, 16 KiB ahead.
///   mixed   Intel: weights of products of more than kRowBlock rows into the first level, those of fewer as with
///           staged, and so keys and values, which come from memory where contexts are long.
///   l1      Everywhere else.
/// docs/performance/reading-ahead.md has the figures.
const ReadAhead& read_ahead();

/// Masks and shifts run beside the products of AVX-512, on pipes of their own (AMD): weights of four bits need no
/// unpacked copy there.
[[nodiscard]] bool masks_are_free();

/// Error (kInvalidArgument) when BASS_READ_AHEAD names something else.
[[nodiscard]] Status check_read_ahead();

}  // namespace bass::cpu
