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

// What is forgotten of drafts in hundreds of steps is believed of them again, which is no probe, but counted here.
constexpr double kMost = 0.012;
constexpr int kFrom = 500;  // behind the first tries, which are dense
constexpr int kTo = 4500;

/// What drafts are like.
enum class Drafts { kModel, kModelThatHasToRead, kNgrams, kBoth, kWithContexts, kWithoutLabels };
constexpr Drafts kAllDrafts[] = {Drafts::kModel, Drafts::kModelThatHasToRead, Drafts::kNgrams,
                                 Drafts::kBoth,  Drafts::kWithContexts,       Drafts::kWithoutLabels};

// Times without noise, as a wrong belief is no probe.
ChangingMachine machine_of(const NamedMachine& named, Drafts drafts, int n_sequences, double acceptance) {
  ChangingMachine machine{named.step_s, 0.05};
  const bool has_ngrams = drafts == Drafts::kNgrams || drafts == Drafts::kBoth;
  Conditions conditions{n_sequences, acceptance, has_ngrams ? acceptance : -1};
  if (drafts == Drafts::kNgrams) machine.draft_pass_s = 0;
  if (drafts == Drafts::kModelThatHasToRead) machine.catch_up_s = 0.003;
  if (drafts == Drafts::kWithContexts) {
    conditions.context_lens.assign(static_cast<size_t>(n_sequences), 4000);
    machine.read_s = machine.step_s(n_sequences) / 4000 / n_sequences;  // half of a regular step
    machine.seen_s = 0.5 * machine.read_s;
  }
  machine.has_labels = drafts != Drafts::kWithoutLabels;
  machine.conditions = [=](int) { return conditions; };
  machine.noise = 0;
  return machine;
}

std::vector<ChangingMachine> machines(int n_sequences, double acceptance) {
  std::vector<ChangingMachine> all;
  for (const NamedMachine& named : kMachines) {
    for (const Drafts drafts : kAllDrafts) {
      for (const bool can_look : {true, false}) {
        all.push_back(machine_of(named, drafts, n_sequences, acceptance));
        all.back().can_look = can_look;
      }
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
  int n_lost = 0;
  for (const int n_sequences : {1, 8, 32}) {
    int i = 0;
    for (const ChangingMachine& machine : machines(n_sequences, 0.0)) {
      ++i;
      const auto chooser = new_goodput();
      const double lost = share_lost(machine, chooser.get());
      EXPECT_LE(lost, kMost) << n_sequences << " sequences, " << i;
      n_lost += lost > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(n_lost, 100) << "nothing was looked at, but where looks cost nothing";
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
    for (const NamedMachine& named : kMachines) {
      Curious curious;
      EXPECT_GT(share_lost(machine_of(named, Drafts::kModel, n_sequences, 0), &curious), kMost) << n_sequences;
    }
  }
}

// What did not pay since the beginning pays from a step on, as steps of more rows have become cheaper: with what little
// time there is for it, that is found out.
TEST(Probing, FindsOutThatRowsHaveBecomeCheap) {
  for (const bool can_look : {true, false}) {
    ChangingMachine machine{[](int rows) { return 0.1 + 0.3 * rows; }, 0.05};
    machine.conditions = [](int step) {
      Conditions now{4, 0.8};
      if (step >= 2000) now.row_factor = 0.05;
      return now;
    };
    machine.can_look = can_look;
    machine.noise = 0;
    const auto chooser = new_goodput();
    const auto steps = run_steps(machine, chooser.get(), 8000);
    EXPECT_GT(sum_of(steps, 7000, 8000).goodput(), 1.5 * fixed_goodput(machine, 0, true, 7000, 8000)) << can_look;
    EXPECT_GT(sum_of(steps, 1000, 2000).goodput(), 0.98 * fixed_goodput(machine, 0, true, 1000, 2000)) << can_look;
  }
}

// Where drafts pay, what regular steps take is measured again now and then: they are what drafts must beat.
TEST(Probing, OfRegularStepsTakesAHundredthOfTheTime) {
  int n_judged = 0;
  for (const int n_sequences : {1, 8}) {
    for (const ChangingMachine& machine : machines(n_sequences, 0.9)) {
      const auto chooser = new_goodput();
      Progress regular, drafting;
      for (const Progress& step : run_steps(machine, chooser.get(), kTo)) {
        Progress& sum = step.tokens > n_sequences ? drafting : regular;
        sum.tokens += step.tokens;
        sum.seconds += step.seconds;
      }
      if (drafting.seconds < 2 * regular.seconds) continue;  // drafts do not pay on this machine
      ++n_judged;
      const double lost = regular.seconds - regular.tokens / drafting.goodput();
      EXPECT_LE(lost, kMost * (regular.seconds + drafting.seconds)) << n_sequences << " sequences";
      EXPECT_GT(lost, 0) << "regular steps were not measured again";
    }
  }
  EXPECT_GE(n_judged, 40);
}

}  // namespace
}  // namespace bass
