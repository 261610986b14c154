#include "speculation/draft_length.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <type_traits>
#include <vector>

namespace bass {
namespace {

using ::testing::HasSubstr;

TEST(DraftLength, ParsesWhatTheHelpTextSays) {
  const DraftLengthSpec bass = parse_draft_length("bass").value();
  EXPECT_EQ(bass.policy->name, "bass");
  EXPECT_EQ(bass.policy->start(bass).len, 7);
  const DraftLengthSpec set = parse_draft_length("bass:l0=3,inc=1,max=5,div=2").value();
  EXPECT_EQ(set.initial, 3);
  EXPECT_EQ(set.increment, 1);
  EXPECT_EQ(set.max, 5);
  EXPECT_EQ(set.shrink_divisor, 2);
  EXPECT_EQ(parse_draft_length("bass:max=4").value().initial, 4);  // the default start follows a lower limit
  EXPECT_EQ(parse_draft_length("survival:min=0.5").value().min_survival, 0.5f);
  EXPECT_THAT(draft_length_usage(), HasSubstr("goodput | bass[:l0=7,inc=2,max=32,div=10] | "));
  for (const DraftLengthPolicy* policy : draft_length_policies()) {
    EXPECT_THAT(draft_length_usage(), HasSubstr(policy->usage));
  }
}

// What a device would be given, as bytes.
static_assert(std::is_trivially_copyable_v<DraftLengthSpec> && std::is_trivially_copyable_v<DraftLengthState> &&
              std::is_trivially_copyable_v<StepCosts> && std::is_trivially_copyable_v<DraftCandidate>);

TEST(DraftLength, FixedAndOffNeverChange) {
  const std::vector<DraftOutcome> outcomes{{5, 5}, {5, 0}};
  for (const char* text : {"fixed:0", "fixed:5", "fixed:32", "off"}) {
    const Result<DraftLengthSpec> spec = parse_draft_length(text);
    ASSERT_TRUE(spec.ok()) << text;
    const DraftLengthState state = spec.value().policy->start(spec.value());
    EXPECT_EQ(spec.value().policy->next(spec.value(), state, outcomes).len, state.len);
  }
  const DraftLengthSpec fixed = parse_draft_length("fixed:5").value();
  EXPECT_EQ(fixed.policy->start(fixed).len, 5);
  const DraftLengthSpec off = parse_draft_length("off").value();
  EXPECT_EQ(off.policy->start(off).len, 0);
}

TEST(DraftLength, ErrorsNameTheTextAndTheMend) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "use goodput | bass[:l0=7"},
      {"bas", "'bas' is unknown; use goodput"},
      {"BASS", "unknown"},
      {"fixed", "for example fixed:4"},
      {"fixed:", "nothing follows the colon"},
      {"fixed:-1", "'-1' is not a whole number from 0 to 32"},
      {"fixed:x", "'x' is not a whole number"},
      {"fixed:4x", "'4x' is not a whole number"},
      {"fixed:1000", "'1000' is not a whole number from 0 to 32"},
      {"fixed:99999999999999", "not a whole number"},
      {"off:1", "takes no parameters"},
      {"bass:l0", "'l0' is not a parameter"},
      {"bass:7", "'7' is not a parameter"},
      {"bass:l0=0", "l0: '0' is not a whole number from 1 to 32"},
      {"bass:l0=7,,inc=2", "'' is not a parameter"},
      {"bass:l0=7,", "'' is not a parameter"},
      {"bass:div=0", "div: '0'"},
      {"bass:l0=9,max=8", "l0=9 is above max=8"},
      {"survival:", "nothing follows the colon"},
      {"survival:0.5", "'0.5' is not a parameter; use survival[:min=0.2]"},
      {"survival:min=", "min: '' is not a number from 0 to 1"},
      {"survival:min=1.5", "min: '1.5' is not a number from 0 to 1"},
      {"survival:min=nan", "not a number"},
      {"survival:min=0.5,max=2", "'0.5,max=2' is not a number"},
  };
  for (const auto& [text, expected] : cases) {
    const Result<DraftLengthSpec> spec = parse_draft_length(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(spec.status().message(), HasSubstr(expected)) << text;
  }
}

TEST(DraftLength, RegistryIsComplete) {
  std::set<std::string_view> names;
  for (const DraftLengthPolicy* policy : draft_length_policies()) {
    EXPECT_TRUE(names.insert(policy->name).second);
    EXPECT_NE(policy->parse, nullptr);
    EXPECT_NE(policy->start, nullptr);
    EXPECT_NE(policy->next, nullptr);
    EXPECT_THAT(std::string(policy->usage), HasSubstr(std::string(policy->name)));
  }
}

}  // namespace
}  // namespace bass
