#include "engine/machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temp_folder.h"

namespace bass {
namespace {

constexpr MachineLimits kLimits{.bandwidth_gb_s = 10, .peak_tops = {2, 0.5}};

Work make_work(double bytes, double int8_operations, double f32_operations) {
  return {.bytes = bytes, .operations = {int8_operations, f32_operations}};
}

TEST(Limit, IsReadingWhereThatTakesLonger) {
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(20e9, 1e12, 0.25e12), kLimits), 2);
}

TEST(Limit, IsTheSumOverTheClassesWhereComputingTakesLonger) {
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(1e9, 2e12, 0.5e12), kLimits), 2);  // neither alone: each takes 1 s
}

TEST(Limit, LeavesOutWhatWasNotMeasured) {
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(1e9, 2e12, 1e12), {.bandwidth_gb_s = 0, .peak_tops = {2, 0}}), 1);
  EXPECT_DOUBLE_EQ(limit_seconds(make_work(1e9, 2e12, 1e12), {}), 0);
}

TEST(Limit, FractionIsLimitOverTime) {
  EXPECT_DOUBLE_EQ(limit_fraction(make_work(20e9, 0, 0), kLimits, 8), 0.25);
  EXPECT_DOUBLE_EQ(limit_fraction(make_work(20e9, 0, 0), kLimits, 0), 0);
}

TEST(Limit, TheMedianIsOfEachLimitByItself) {
  const MachineLimits rounds[] = {
      kLimits, {.bandwidth_gb_s = 5, .peak_tops = {3, 0.1}}, {.bandwidth_gb_s = 7, .peak_tops = {1, 0.4}}};
  const MachineLimits limits = median_of(rounds);
  EXPECT_DOUBLE_EQ(limits.bandwidth_gb_s, 7);
  EXPECT_DOUBLE_EQ(limits.peak_tops[0], 2);
  EXPECT_DOUBLE_EQ(limits.peak_tops[1], 0.4);
  EXPECT_DOUBLE_EQ(median_of({rounds, 1}).bandwidth_gb_s, 10);
  EXPECT_DOUBLE_EQ(median_of({rounds, 2}).bandwidth_gb_s, 7.5);
}

/// A cache folder of the test's own.
class PeakCache : public ::testing::Test {
 protected:
  void SetUp() override { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }
  /// What is kept of the only machine.
  nlohmann::ordered_json read() {
    std::ifstream file(path());
    return nlohmann::ordered_json::parse(file).front();
  }
  /// Keeps another peak of this machine, as if another run had measured it.
  void keep(double peak_tops) {
    std::ifstream file(path());
    auto cache = nlohmann::ordered_json::parse(file);
    cache.front()["peak_tops"] = peak_tops;
    std::ofstream(path()) << cache;
  }
  [[nodiscard]] std::string path() const { return folder_ / "bass/machine.json"; }

 private:
  testing::TempFolder folder_;
};

TEST_F(PeakCache, ALowPeakIsMendedByTheNextRunAndAHighOneStays) {
  const Result<double> first = best_peak_tops(1);
  ASSERT_TRUE(first.ok());
  EXPECT_DOUBLE_EQ(read()["peak_tops"].get<double>(), first.value());
  keep(1e-9);  // measured while other programs ran
  const Result<double> second = best_peak_tops(1);
  ASSERT_TRUE(second.ok());
  EXPECT_GT(second.value(), 1e-9);
  EXPECT_DOUBLE_EQ(read()["peak_tops"].get<double>(), second.value());
  keep(1e9);
  EXPECT_DOUBLE_EQ(best_peak_tops(1).value(), 1e9);
}

TEST(Limit, EveryClassHasAPeak) {
  const Result<MachineLimits> limits = measure_limits(1, 1 << 20);
  ASSERT_TRUE(limits.ok());
  EXPECT_GT(limits.value().bandwidth_gb_s, 0);
  for (const double peak : limits.value().peak_tops) EXPECT_GT(peak, 0);
}

}  // namespace
}  // namespace bass
