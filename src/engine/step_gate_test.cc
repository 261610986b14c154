#include "engine/step_gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "support/engine_run.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

/// Closed until it is opened.
class Door final : public StepGate {
 public:
  [[nodiscard]] bool is_open() override {
    const std::lock_guard lock(mutex_);
    return is_open_;
  }
  void enter() override {
    std::unique_lock lock(mutex_);
    is_asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_until_asked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_asked_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool is_asked_ = false;
};

TEST(StepGate, WhatArrivesWhileItIsClosedBeginsTogether) {
  Door door;
  EngineOptions options{.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 1};
  options.gate = &door;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const auto events = std::make_shared<EventQueue>();
  ASSERT_TRUE(engine->submit(greedy_request({5, 6, 7}, 1), events).ok());
  door.wait_until_asked();
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
