#include "cli/number_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace bass {

Result<std::vector<int>> parse_list(std::string_view flag, const std::string& text, int max, int min) {
  std::vector<int> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int value = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, value);
    if (error != std::errc{} || stop != text.data() + end || value < min || value > max) {
      return invalid_argument(
          fmt::format("{} {}: must be whole numbers from {} to {}, like 1,2,4", flag, text, min, max));
    }
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

}  // namespace bass
