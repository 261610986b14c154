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

// Each iteration adds 1 * 3 + 2 * 1 to every lane of every sum, or the loop does not do what is counted.
TEST(PeakLoopsTest, MultiplyAsManyPairsAsTheyCount) {
  constexpr double kOperationsOfASum = 2.0 * 2 * 16;
  for (const Kernels* table : testing::all_kernels()) {
    const PeakLoop& loop = table->peak_loops[static_cast<size_t>(OperationClass::kInt16Dot)];
    const auto n_sums = static_cast<int64_t>(loop.operations / kOperationsOfASum);
    EXPECT_EQ(loop.run(7) - loop.run(3), 4 * n_sums * 16 * 5) << table->name;
  }
}

}  // namespace
}  // namespace bass::cpu
