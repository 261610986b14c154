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

TEST(Turns, AlternateByStepsWhereASliceIsNothingAndGoOnAloneBehindTheOthers) {
  using namespace std::chrono_literals;
  Turns turns(3, 0s);
  Log log;
  turns.begin_round();
  {
    const std::jthread third = steps_of(2, 6, &turns, &log);
    const std::jthread second = steps_of(1, 2, &turns, &log);
    const std::jthread first = steps_of(0, 4, &turns, &log);
  }
  EXPECT_EQ(log.steps(), (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 2, 0, 2, 2, 2}));
}

TEST(Turns, ASliceHasManySteps) {
  using namespace std::chrono_literals;
  Turns turns(2, 1h);
  Log log;
  turns.begin_round();
  {
    const std::jthread second = steps_of(1, 3, &turns, &log);
    const std::jthread first = steps_of(0, 3, &turns, &log);
  }
  EXPECT_EQ(log.steps(), (std::vector<int>{0, 0, 0, 1, 1, 1}));
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
