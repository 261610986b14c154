// Small things that are done to texts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bass {

/// ASCII letters in lower case; other bytes as they are.
std::string lower_case(std::string_view text);

/// Without blanks, tabs and line ends on both sides.
std::string_view trimmed(std::string_view text);

/// "93.8 MiB"
std::string bytes_text(int64_t n_bytes);

}  // namespace bass
