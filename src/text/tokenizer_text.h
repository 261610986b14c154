// What the steps from a text to its tokens have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace bass {

/// Positions in a text are 32-bit numbers.
constexpr size_t kMaxTextBytes = std::numeric_limits<int32_t>::max();
/// U+2581, SentencePiece's space.
constexpr std::string_view kMetaSpace = "\xE2\x96\x81";

}  // namespace bass
