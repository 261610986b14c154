#include "cli/bench/start_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace bass {
namespace {

TEST(StartGate, LetsStepsInOnlyWhileItIsOpen) {
  StartGate gate;
  EXPECT_TRUE(gate.is_open());
  gate.enter();
  std::atomic<int> n_steps{0};
  std::jthread engine;
  {
    const ClosedGate closed(&gate);
    EXPECT_FALSE(gate.is_open());
    engine = std::jthread([&] {
      gate.enter();
      ++n_steps;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(n_steps, 0);
  }
  engine.join();
  EXPECT_EQ(n_steps, 1);
  const ClosedGate none(nullptr);
}

}  // namespace
}  // namespace bass
