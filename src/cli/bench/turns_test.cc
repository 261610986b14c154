#include "cli/bench/turns.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace bass {
namespace {

/// Who ran, in order.
class Log {
 public:
  void add(int who) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(who);
  }
  [[nodiscard]] std::vector<int> steps() const { return steps_; }

 private:
  std::mutex mutex_;
  std::vector<int> steps_;
};

std::jthread steps_of(int who, int n, Turns* turns, Log* log) {
  return std::jthread([=] {
    for (int i = 0; i < n; ++i) {
      turns->gate(who)->enter();
      log->add(who);
    }
    turns->end_round(who);
  });
}

/// Who ran in a round of engines that have so many steps to do; the last one asks first.
std::vector<int> order_of(const std::vector<int>& n_steps, std::chrono::duration<double> slice) {
  Turns turns(static_cast<int>(n_steps.size()), slice);
  Log log;
  turns.begin_round();
  {
    std::vector<std::jthread> threads;
    for (size_t who = n_steps.size(); who-- > 0;) {
      threads.push_back(steps_of(static_cast<int>(who), n_steps[who], &turns, &log));
    }
  }
  return log.steps();
}

TEST(Turns, AlternateByStepsWhereASliceIsNothingAndGoOnAloneBehindTheOthers) {
  using namespace std::chrono_literals;
  EXPECT_EQ(order_of({4, 2, 6}, 0s), (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 2, 0, 2, 2, 2}));
}

TEST(Turns, ASliceHasManySteps) {
  using namespace std::chrono_literals;
  EXPECT_EQ(order_of({3, 3}, 1h), (std::vector<int>{0, 0, 0, 1, 1, 1}));
}

TEST(Turns, NobodyWaitsBetweenRounds) {
  using namespace std::chrono_literals;
  Turns turns(2, 1h);
  turns.gate(1)->enter();
  turns.begin_round();
  turns.end_round(0);
  turns.gate(1)->enter();  // the other one has nothing to do
}

}  // namespace
}  // namespace bass
