// The choice of a table.
#include "kernels/cpu/kernels.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "kernels/cpu/kernels_testing.h"

namespace bass::cpu {
namespace {

using ::testing::HasSubstr;

class SelectKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("BASS_FORCE_ISA")) saved_ = value;
  }
  void TearDown() override {
    if (saved_.empty()) {
      unsetenv("BASS_FORCE_ISA");
    } else {
      setenv("BASS_FORCE_ISA", saved_.c_str(), 1);
    }
  }
  std::string saved_;
};

TEST_F(SelectKernelsTest, TakesTheBestByDefault) {
  unsetenv("BASS_FORCE_ISA");
  EXPECT_EQ(select_kernels().value(), testing::all_kernels().back());
}

TEST_F(SelectKernelsTest, TakesTheNamedOne) {
  for (const Kernels* table : testing::all_kernels()) {
    setenv("BASS_FORCE_ISA", table->name, 1);
    EXPECT_EQ(select_kernels().value(), table);
  }
}

TEST_F(SelectKernelsTest, RefusesAnUnknownNameAndListsWhatThereIs) {
  setenv("BASS_FORCE_ISA", "mmx", 1);
  const auto result = select_kernels();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), HasSubstr("mmx"));
  EXPECT_THAT(result.status().message(), HasSubstr("scalar"));
}

TEST(ReadAheadTest, AWrongNameIsRefusedAndTheRightOnesAreNamed) {
  const char* saved = std::getenv("BASS_READ_AHEAD");
  const std::string value = saved == nullptr ? "" : saved;
  setenv("BASS_READ_AHEAD", "l4", 1);
  const auto result = select_kernels();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), HasSubstr("l4"));
  for (const char* name : {"l1", "mixed", "staged", "far", ""}) {
    EXPECT_THAT(result.status().message(), HasSubstr(name));
    setenv("BASS_READ_AHEAD", name, 1);
    EXPECT_TRUE(select_kernels().ok()) << name;
  }
  setenv("BASS_READ_AHEAD", value.c_str(), 1);
}

TEST_F(SelectKernelsTest, FindsEachAvailableTableByItsIsa) {
  EXPECT_EQ(testing::all_kernels().front(), find_kernels(Isa::kScalar));
  for (const Kernels* table : testing::all_kernels()) EXPECT_EQ(find_kernels(table->isa), table);
}

// What an iteration adds to every lane of every sum. (That no product is computed once for several of them, the sums
// can't tell: hide() sees to it.)
void expect_lane_sums(OperationClass of, double operations_of_a_sum, int64_t added) {
  for (const Kernels* table : testing::all_kernels()) {
    if (of == OperationClass::kInt8Dot && table->isa == Isa::kAvx512Amx) continue;  // tiles' sums stay in them
    const PeakLoop& loop = table->peak_loops[static_cast<size_t>(of)];
    const auto n_sums = static_cast<int64_t>(loop.operations / operations_of_a_sum);
    EXPECT_EQ(loop.run(7) - loop.run(3), 4 * n_sums * 16 * added) << table->name;
  }
}

TEST(PeakLoopsTest, MultiplyAsManyPairsAsTheyCount) {
  expect_lane_sums(OperationClass::kInt16Dot, 2.0 * 2 * 16, 1 * 3 + 2 * 1);
}

TEST(PeakLoopsTest, MultiplyAsManyNibblesAsTheyCount) {
  expect_lane_sums(OperationClass::kInt8Dot, 2.0 * 4 * 16, 1 * 4 + 2 * 3 + 3 * 2 + 4 * 1);
}

}  // namespace
}  // namespace bass::cpu
