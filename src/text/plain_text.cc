#include "text/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace bass {

std::string lower_case(std::string_view text) {
  std::string result(text);
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string bytes_text(int64_t n_bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kStep = 1024;
  auto number = static_cast<double>(n_bytes);
  size_t unit = 0;
  for (; number >= kStep && unit + 1 < kUnits.size(); ++unit) number /= kStep;
  return unit == 0 ? fmt::format("{} B", n_bytes) : fmt::format("{:.1f} {}", number, kUnits[unit]);
}

}  // namespace bass
