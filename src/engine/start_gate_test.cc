#include "engine/start_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "support/engine_run.h"
#include "support/test_models.h"

namespace bass::testing {
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

/// Tells when an engine waits for it. To be closed once.
class WatchedGate final : public StartGate {
 public:
  void enter() override {
    asked_.set_value();
    StartGate::enter();
  }
  void wait_until_asked() { asked_.get_future().wait(); }

 private:
  std::promise<void> asked_;
};

TEST(StartGate, WhatArrivesWhileItIsClosedBeginsTogether) {
  WatchedGate gate;
  EngineOptions options{.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 1};
  options.gate = &gate;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const auto events = std::make_shared<EventQueue>();
  gate.close();
  ASSERT_TRUE(engine->submit(greedy_request({5, 6, 7}, 1), events).ok());
  gate.wait_until_asked();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine->submit(greedy_request({8, 9, 10}, 1), events).ok());
  EXPECT_EQ(engine->stats().steps, 0);
  gate.open();
  Event event;
  for (int n_done = 0; n_done < 3; event = {}) {
    ASSERT_TRUE(events->wait(&event, std::chrono::seconds(60)));
    n_done += event.kind == Event::Kind::kDone ? 1 : 0;
  }
  EXPECT_EQ(engine->stats().steps, 2) << "one for all prompts, one for all first tokens";
}

}  // namespace
}  // namespace bass::testing
