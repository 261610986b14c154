#include "engine/step_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <thread>

#include "support/engine_run.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

/// Closed until it is opened, once.
class Door final : public StepGate {
 public:
  [[nodiscard]] bool is_open() override { return is_open_; }
  void enter() override {
    is_waiting.release();
    opened_.acquire();
  }
  void open() {
    is_open_ = true;
    opened_.release();
  }
  std::binary_semaphore is_waiting{0};

 private:
  std::atomic<bool> is_open_{false};
  std::binary_semaphore opened_{0};
};

TEST(StepGate, WhatArrivesWhileItIsClosedBeginsTogether) {
  Door door;
  EngineOptions options{.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 1};
  options.gate = &door;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const auto events = std::make_shared<EventQueue>();
  ASSERT_TRUE(engine->submit(greedy_request({5, 6, 7}, 1), events).ok());
  door.is_waiting.acquire();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine->submit(greedy_request({8, 9, 10}, 1), events).ok());
  EXPECT_EQ(engine->stats().steps, 0);
  door.open();
  Event event;
  for (int n_done = 0; n_done < 3; event = {}) {
    ASSERT_TRUE(events->wait(&event, std::chrono::seconds(60)));
    n_done += event.kind == Event::Kind::kDone ? 1 : 0;
  }
  EXPECT_EQ(engine->stats().steps, 2) << "one for all prompts, one for all first tokens";
}

}  // namespace
}  // namespace bass::testing
