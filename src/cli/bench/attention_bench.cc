#include "cli/bench/attention_bench.h"

#include <algorithm>
#include <cmath>

namespace bass {

std::string_view length_kind_name(LengthKind kind) {
  static constexpr std::string_view kNames[] = {"uniform", "bimodal", "exponential"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<int> make_lengths(LengthKind kind, int batch, int mean, int min) {
  std::vector<int> lengths;
  for (int i = 0; i < batch; ++i) {
    const double quantile = (i + 0.5) / batch;
    const double length = kind == LengthKind::kUniform   ? 2.0 * mean * quantile
                          : kind == LengthKind::kBimodal ? mean * (quantile < 0.5 ? 0.25 : 1.75)
                                                         : -mean * std::log(1 - quantile);
    lengths.push_back(std::max(static_cast<int>(std::lround(length)), min));
  }
  return lengths;
}

}  // namespace bass
