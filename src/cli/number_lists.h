// Options that take several numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

/// "1,2,4": whole numbers from min to max. Error (kInvalidArgument) names the flag.
Result<std::vector<int>> parse_list(std::string_view flag, const std::string& text, int max, int min = 1);

inline constexpr int kMaxBenchBatch = 4096;
inline constexpr int kMaxBenchTokens = 1 << 20;

}  // namespace bass
