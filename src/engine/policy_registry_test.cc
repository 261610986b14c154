#include "engine/policy_registry.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

std::shared_ptr<PolicyState> get(PolicyRegistry* registry, const std::string& text,
                                 std::optional<uint64_t> fixed_seed = std::nullopt) {
  return registry->get(text, parse_draft_length(text).value(), fixed_seed);
}

TEST(PolicyRegistry, RequestsWithTheSameTextShareAState) {
  PolicyRegistry registry;
  for (const char* text : {"bass", "goodput", "fixed:3", "survival"}) {
    const auto first = get(&registry, text);
    EXPECT_EQ(get(&registry, text), first) << text;
  }
  EXPECT_NE(get(&registry, "bass:l0=3"), get(&registry, "bass"));
}

TEST(PolicyRegistry, OnlyAPolicyThatMeasuresTimesOutlivesItsRequests) {
  PolicyRegistry registry;
  for (const char* text : {"bass", "goodput"}) get(&registry, text)->state.n_shrinks = 77;
  EXPECT_EQ(get(&registry, "goodput")->state.n_shrinks, 77);
  EXPECT_NE(get(&registry, "bass")->state.n_shrinks, 77);
}

TEST(PolicyRegistry, ASeedThatFixesBytesHasAStateForItself) {
  PolicyRegistry registry;
  const auto shared = get(&registry, "bass");
  const auto first = get(&registry, "bass", 1);
  EXPECT_NE(first, shared);
  EXPECT_NE(get(&registry, "bass", 2), first);
}

TEST(PolicyRegistry, WhatWasLearntFromASeedIsNeverUsedForItAgain) {
  PolicyRegistry registry;
  const auto others = get(&registry, "goodput");
  const auto shared = get(&registry, "goodput", 1);
  EXPECT_NE(shared, others) << "a request that compares tokens may have the same seed";
  EXPECT_EQ(get(&registry, "goodput", 2), shared);
  const auto again = get(&registry, "goodput", 1);
  EXPECT_NE(again, shared);
  EXPECT_NE(get(&registry, "goodput", 1), again) << "nor what that one learnt";
  EXPECT_EQ(get(&registry, "goodput", 3), shared);
}

TEST(PolicyRegistry, AStepThatDidNotEndLeavesNothing) {
  PolicyRegistry registry;
  const auto state = get(&registry, "goodput");
  state->outcomes.emplace_back();
  state->is_marked = true;
  registry.drop_step();
  EXPECT_TRUE(state->outcomes.empty());
  EXPECT_FALSE(state->is_marked);
}

// Else a server would learn nothing more after some hours.
TEST(PolicyRegistry, WhereAStateCanKeepNoMoreSeedsANewOneIsShared) {
  PolicyRegistry registry;
  const auto first = get(&registry, "goodput", 0);
  uint64_t seed = 1;
  while (get(&registry, "goodput", seed) == first) ASSERT_LT(++seed, 1u << 20);
  EXPECT_TRUE(first->is_full());
  const auto second = get(&registry, "goodput", seed + 1);
  EXPECT_NE(second, first);
  EXPECT_EQ(get(&registry, "goodput", seed + 2), second);
  EXPECT_EQ(get(&registry, "goodput", 0), second) << "it has learnt nothing from the first one's seeds";
  EXPECT_NE(get(&registry, "goodput", 0), second);
}

}  // namespace
}  // namespace bass
