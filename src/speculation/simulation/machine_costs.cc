#include "speculation/simulation/machine_costs.h"

#include <algorithm>

namespace bass {
namespace {

std::vector<double> medians_of_neighbours(std::span<const CostPoint> points) {
  constexpr size_t kReach = 2;
  std::vector<double> medians;
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t reach = std::min({kReach, i, points.size() - 1 - i});  // fewer at the ends: no slope is lost
    std::vector<double> window;
    for (size_t k = i - reach; k <= i + reach; ++k) window.push_back(points[k].seconds);
    std::nth_element(window.begin(), window.begin() + static_cast<ptrdiff_t>(reach), window.end());
    medians.push_back(window[reach]);
  }
  return medians;
}

}  // namespace

double attention_seconds(const MachineCosts& machine, double n_read, double n_seen) {
  return machine.context_token_s * n_read + machine.seen_token_s * std::max(n_seen - machine.free_rows * n_read, 0.0);
}

double seconds_at(std::span<const CostPoint> curve, double n) {
  if (curve.empty()) return 0;
  if (curve.size() == 1 || n <= curve.front().n) return curve.front().seconds;
  auto above = std::upper_bound(curve.begin(), curve.end(), n, [](double x, const CostPoint& p) { return x < p.n; });
  if (above == curve.end()) --above;
  const CostPoint& from = *(above - 1);
  const CostPoint& to = *above;
  if (n > to.n && to.seconds < from.seconds) return to.seconds;
  return from.seconds + (to.seconds - from.seconds) / (to.n - from.n) * (n - from.n);
}

// Pools neighbours that fall until none do.
std::vector<CostPoint> without_disturbances(std::span<const CostPoint> points) {
  struct Pool {
    double sum = 0;
    int n = 0;
    [[nodiscard]] double mean() const { return sum / n; }
  };
  std::vector<Pool> pools;
  for (const double seconds : medians_of_neighbours(points)) {
    pools.push_back({seconds, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().n += last.n;
    }
  }
  std::vector<CostPoint> curve(points.begin(), points.end());
  size_t i = 0;
  for (const Pool& pool : pools) {
    for (int k = 0; k < pool.n; ++k) curve[i++].seconds = pool.mean();
  }
  return curve;
}

}  // namespace bass
