#include "cli/bench/policy_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using ::testing::ElementsAre;

TEST(PolicyList, AParameterBelongsToThePolicyBeforeIt) {
  EXPECT_THAT(split_policies("off"), ElementsAre("off"));
  EXPECT_THAT(split_policies("bass:l0=7,inc=2,fixed:3,goodput"), ElementsAre("bass:l0=7,inc=2", "fixed:3", "goodput"));
  EXPECT_THAT(split_policies("survival:min=0.2,off"), ElementsAre("survival:min=0.2", "off"));
}

TEST(PolicyList, LeavesWhatIsNoPolicyToTheParser) {
  EXPECT_THAT(split_policies("min=2,off"), ElementsAre("min=2", "off"));
  EXPECT_THAT(split_policies("off,,bass"), ElementsAre("off", "", "bass"));
  EXPECT_THAT(split_policies(""), ElementsAre(""));
}

}  // namespace
}  // namespace bass
