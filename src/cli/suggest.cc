#include "cli/suggest.h"

#include <algorithm>
#include <vector>

namespace bass {

int edit_distance(std::string_view a, std::string_view b) {
  const size_t n = b.size() + 1;
  std::vector<int> before(n), last(n), row(n);  // rows i - 2, i - 1 and i of the usual table
  for (size_t j = 0; j < n; ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j < n; ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    // An option's beginning is as good as a small slip: --temp means --temperature.
    const bool is_beginning = word.size() >= 4 && candidate.starts_with(word);
    const int distance = is_beginning ? 1 : edit_distance(word, candidate);
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  const int allowed = std::max(1, static_cast<int>(word.size()) / 3);
  return best_distance <= allowed ? best : "";
}

}  // namespace bass
