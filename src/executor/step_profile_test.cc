#include "executor/step_profile.h"

#include <gtest/gtest.h>

#include <thread>

namespace bass {
namespace {

double total_seconds(const StepProfile& profile) {
  double seconds = 0;
  for (size_t i = 0; i < kStepParts; ++i) seconds += profile.part(static_cast<StepPart>(i)).seconds;
  return seconds;
}

TEST(StepProfile, GivesEveryMomentToOnePart) {
  using Clock = std::chrono::steady_clock;
  StepProfile profile;
  profile.set_n_threads(2);
  ThreadTeam team(2);
  const auto begin = Clock::now();
  profile.end_part(StepPart::kCommit);
  profile.end_step(/*is_decode=*/false);
  team.run([&](const TeamContext& context) {
    for (const StepPart part : {StepPart::kEmbed, StepPart::kNorm, StepPart::kQkv}) end_part(&profile, context, part);
  });
  profile.end_part(StepPart::kCommit);
  const double outer_s = std::chrono::duration<double>(Clock::now() - begin).count();
  profile.end_step(/*is_decode=*/true);
  EXPECT_EQ(profile.n_steps(), 1);
  EXPECT_GT(total_seconds(profile), 0);
  EXPECT_LE(total_seconds(profile), outer_s);
  EXPECT_EQ(profile.part(StepPart::kHead).seconds, 0);
}

TEST(StepProfile, CountsTheWaitingOfTheOtherThreads) {
  constexpr std::chrono::milliseconds kSlow{20};
  StepProfile profile;
  profile.set_n_threads(2);
  ThreadTeam team(2);
  profile.end_part(StepPart::kPlan);
  team.run([&](const TeamContext& context) {
    end_part(&profile, context, StepPart::kPlan);
    if (context.thread_idx() == 0) std::this_thread::sleep_for(kSlow);
    end_part(&profile, context, StepPart::kHead);
  });
  profile.end_step(/*is_decode=*/true);
  const PartSums& head = profile.part(StepPart::kHead);
  EXPECT_GE(head.seconds, std::chrono::duration<double>(kSlow).count());
  EXPECT_GT(head.waited_s, 0);
}

TEST(StepProfile, LeavesOutStepsThatCarryPrompts) {
  StepProfile profile;
  profile.set_n_threads(1);
  profile.add_work(StepPart::kQkv, {.bytes = 5});
  profile.end_part(StepPart::kQkv);
  profile.end_step(/*is_decode=*/false);
  EXPECT_EQ(profile.n_steps(), 0);
  profile.add_work(StepPart::kQkv, {.bytes = 7});
  profile.end_step(/*is_decode=*/true);
  EXPECT_EQ(profile.part(StepPart::kQkv).work.bytes, 7);
  profile.reset();
  EXPECT_EQ(profile.part(StepPart::kQkv).work.bytes, 0);
}

TEST(StepProfile, NoneIsOnlyABarrier) {
  ThreadTeam team(2);
  team.run([](const TeamContext& context) { end_part(nullptr, context, StepPart::kNorm); });
}

TEST(StepProfile, EveryPartHasAName) {
  for (size_t i = 0; i < kStepParts; ++i) EXPECT_FALSE(step_part_name(static_cast<StepPart>(i)).empty());
}

}  // namespace
}  // namespace bass
