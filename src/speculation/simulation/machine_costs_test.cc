#include "speculation/simulation/machine_costs.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(MachineCosts, AreLinearBetweenPointsAndGoOnBehindTheLast) {
  const std::vector<CostPoint> curve{{2, 1.0}, {4, 2.0}, {8, 3.0}};
  EXPECT_EQ(seconds_at(curve, 1), 1.0);
  EXPECT_EQ(seconds_at(curve, 2), 1.0);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 3), 1.5);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 8), 3.0);
  EXPECT_DOUBLE_EQ(seconds_at(curve, 12), 4.0);
  EXPECT_EQ(seconds_at(std::vector<CostPoint>{{1, 2.0}, {2, 1.0}}, 9), 1.0) << "more never takes less";
  EXPECT_EQ(seconds_at({}, 3), 0);
  EXPECT_EQ(seconds_at(std::vector<CostPoint>{{5, 2.0}}, 50), 2.0);
}

TEST(MachineCosts, ReadAContextOnceForItsFirstRows) {
  MachineCosts machine;
  machine.context_token_s = 2;
  machine.seen_token_s = 1;
  EXPECT_DOUBLE_EQ(attention_seconds(machine, 10, 10), 20);
  EXPECT_DOUBLE_EQ(attention_seconds(machine, 10, 30), 40);
  machine.free_rows = 2;
  EXPECT_DOUBLE_EQ(attention_seconds(machine, 10, 10), 20);
  EXPECT_DOUBLE_EQ(attention_seconds(machine, 10, 20), 20);
  EXPECT_DOUBLE_EQ(attention_seconds(machine, 10, 30), 30);
}

TEST(MachineCosts, DisturbancesOfSinglePointsAreTakenOut) {
  std::vector<CostPoint> points;
  for (int n = 1; n <= 40; ++n) points.push_back({1.0 * n, 1.0 + (n > 16 ? 0.5 : 0.0)});
  std::vector<CostPoint> measured = points;
  measured[9].seconds = 20;
  measured[30].seconds = 0.1;
  const std::vector<CostPoint> curve = without_disturbances(measured);
  for (size_t i = 0; i < points.size(); ++i) EXPECT_DOUBLE_EQ(curve[i].seconds, points[i].seconds) << i;
}

TEST(MachineCosts, MoreRowsNeverCostLess) {
  std::vector<CostPoint> measured;
  for (const double seconds : {1, 5, 5, 5, 2, 2, 2, 6})
    measured.push_back({1.0 + static_cast<double>(measured.size()), seconds});
  const std::vector<CostPoint> curve = without_disturbances(measured);
  EXPECT_DOUBLE_EQ(curve[1].seconds, curve[6].seconds);
  for (size_t i = 1; i < curve.size(); ++i) EXPECT_LE(curve[i - 1].seconds, curve[i].seconds);
  EXPECT_DOUBLE_EQ(curve.back().seconds, 6);
}

}  // namespace
}  // namespace bass
