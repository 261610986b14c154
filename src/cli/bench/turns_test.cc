#include "cli/bench/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
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
    turns->be_ready(who);
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

std::vector<int> sorted_part(const std::vector<int>& steps, size_t begin, size_t n) {
  std::vector<int> part(steps.begin() + static_cast<ptrdiff_t>(begin),
                        steps.begin() + static_cast<ptrdiff_t>(begin + n));
  std::sort(part.begin(), part.end());
  return part;
}

TEST(Turns, EverybodyHasAStepACycleWhereASliceIsNothing) {
  using namespace std::chrono_literals;
  const std::vector<int> steps = order_of({4, 2, 6}, 0s);
  ASSERT_EQ(steps.size(), 12u);
  for (const size_t cycle : {0u, 3u}) EXPECT_EQ(sorted_part(steps, cycle, 3), (std::vector<int>{0, 1, 2}));
  for (const size_t cycle : {6u, 8u}) EXPECT_EQ(sorted_part(steps, cycle, 2), (std::vector<int>{0, 2}));
  EXPECT_EQ(sorted_part(steps, 10, 2), (std::vector<int>{2, 2})) << "goes on alone behind the others";
}

// Each order comes in a sixth of the cycles; that one of them does not in 300 has next to no chance.
TEST(Turns, CyclesHaveAllOrders) {
  using namespace std::chrono_literals;
  constexpr int kCycles = 300;
  const std::vector<int> steps = order_of({kCycles, kCycles, kCycles}, 0s);
  std::set<std::vector<int>> orders;
  for (size_t i = 0; i < steps.size(); i += 3) orders.insert({steps[i], steps[i + 1], steps[i + 2]});
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Turns, ASliceHasManySteps) {
  using namespace std::chrono_literals;
  const std::vector<int> steps = order_of({3, 3}, 1h);
  const int first = steps.front();
  EXPECT_EQ(steps, (std::vector<int>{first, first, first, 1 - first, 1 - first, 1 - first}));
}

TEST(Turns, NobodyBeginsUntilAllAreReady) {
  using namespace std::chrono_literals;
  for (const bool is_given_up : {false, true}) {
    Turns turns(2, 0s);
    Log log;
    turns.begin_round();
    const std::jthread steps = steps_of(0, 3, &turns, &log);
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(log.steps().empty());
    if (!is_given_up) turns.be_ready(1);
    turns.end_round(1);
  }
}

TEST(Turns, NobodyWaitsBetweenRounds) {
  using namespace std::chrono_literals;
  Turns turns(2, 1h);
  turns.gate(1)->enter();
  for (int i = 0; i < 50; ++i) {  // the one that ends has the turn, or has not
    turns.begin_round();
    turns.be_ready(0);
    turns.be_ready(1);
    turns.end_round(0);
    turns.gate(1)->enter();  // the other one has nothing to do
  }
}

TEST(Turns, NobodyHasTwoTurnsInARow) {
  using namespace std::chrono_literals;
  const std::vector<int> steps = order_of({50, 50, 50}, 0s);
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_NE(steps[i], steps[i - 1]);
}

}  // namespace
}  // namespace bass
