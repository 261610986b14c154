// What `goodput` spends on finding out: a hundredth of the time, whether its drafts pay or not.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "speculation/simulation/conditions.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of policies share

constexpr double kMost = 0.01;
constexpr int kFrom = 500;  // behind the first tries, which are dense
constexpr int kTo = 4500;

// Times without noise, as a wrong belief is no probe.
std::vector<ChangingMachine> machines(int n_sequences, double acceptance) {
  std::vector<ChangingMachine> all;
  for (const NamedMachine& named : kMachines) {
    for (const bool can_look : {true, false}) {
      ChangingMachine machine{named.step_s, 0.05};
      machine.conditions = [=](int) { return Conditions{n_sequences, acceptance}; };
      machine.can_look = can_look;
      machine.noise = 0;
      all.push_back(machine);
    }
  }
  return all;
}

// The part of the time by which a run with useless drafts is behind regular decoding.
double share_lost(const ChangingMachine& machine, LengthChooser* chooser) {
  const Progress sum = sum_of(run_steps(machine, chooser, kTo), kFrom, kTo);
  return 1 - sum.goodput() / fixed_goodput(machine, 0, true, kFrom, kTo);
}

TEST(Probing, OfUselessDraftsTakesAHundredthOfTheTime) {
  for (const int n_sequences : {1, 8, 32}) {
    for (const ChangingMachine& machine : machines(n_sequences, 0.0)) {
      const auto chooser = goodput();
      const double lost = share_lost(machine, chooser.get());
      EXPECT_LE(lost, kMost) << n_sequences << " sequences";
      EXPECT_GT(lost, 0) << "nothing was looked at";
    }
  }
}

/// Negative control: a token of an eighth of the sequences in every other step.
class Curious final : public LengthChooser {
 public:
  [[nodiscard]] int max_len() const override { return 1; }
  void choose(const StepLoad&, std::span<DraftCandidate> candidates) override {
    if (++n_steps_ % 2 != 0) return;
    for (size_t i = 0; i < candidates.size(); i += 8) candidates[i].len = 1;
  }
  void learn(const StepCost&, int, std::span<const DraftOutcome>) override {}

 private:
  int n_steps_ = 0;
};

TEST(Probing, ThatNobodyLimitsIsFound) {
  for (const int n_sequences : {1, 8, 32}) {
    for (const ChangingMachine& machine : machines(n_sequences, 0.0)) {
      Curious curious;
      EXPECT_GT(share_lost(machine, &curious), kMost) << n_sequences << " sequences";
    }
  }
}

// Where drafts pay, what regular steps take is measured again now and then: they are what drafts must beat.
TEST(Probing, OfRegularStepsTakesAHundredthOfTheTime) {
  for (const int n_sequences : {1, 8}) {
    for (const ChangingMachine& machine : machines(n_sequences, 0.9)) {
      const auto chooser = goodput();
      Progress regular, drafting;
      for (const Progress& step : run_steps(machine, chooser.get(), kTo)) {
        Progress& sum = step.tokens > n_sequences ? drafting : regular;
        sum.tokens += step.tokens;
        sum.seconds += step.seconds;
      }
      if (drafting.seconds < 2 * regular.seconds) continue;  // drafts do not pay on this machine
      const double lost = regular.seconds - regular.tokens / drafting.goodput();
      EXPECT_LE(lost, kMost * (regular.seconds + drafting.seconds)) << n_sequences << " sequences";
      EXPECT_GT(lost, 0) << "regular steps were not measured again";
    }
  }
}

}  // namespace
}  // namespace bass
