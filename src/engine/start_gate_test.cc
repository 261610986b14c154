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

/// Opens between an engine's messages and its question: the first answer waits until `open`.
class LateGate final : public StepGate {
 public:
  bool is_open() override {
    if (!was_asked_) {
      was_asked_ = true;
      asked_.set_value();
      opened_.get_future().wait();
    }
    return true;
  }
  void enter() override {}
  void wait_until_asked() { asked_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  bool was_asked_ = false;  // the engine's thread alone
  std::promise<void> asked_;
  std::promise<void> opened_;
};

/// Steps of an engine that has one request in front of a gate, and is given two more before the gate opens.
template <class Gate>
int64_t steps_of_three_requests(Gate* gate) {
  EngineOptions options{.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 1};
  options.gate = gate;
  const auto engine = load_engine(options);
  const auto events = std::make_shared<EventQueue>();
  if (engine == nullptr) return -1;
  if (!engine->submit(greedy_request({5, 6, 7}, 1), events).ok()) return -1;
  gate->wait_until_asked();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(engine->submit(greedy_request({8, 9, 10}, 1), events).ok());
  EXPECT_EQ(engine->stats().steps, 0);
  gate->open();
  Event event;
  for (int n_done = 0; n_done < 3; event = {}) {
    if (!events->wait(&event, std::chrono::seconds(60))) return -1;
    n_done += event.kind == Event::Kind::kDone ? 1 : 0;
  }
  return engine->stats().steps;
}

constexpr int kTogether = 2;  // one step for all prompts, one for all first tokens

TEST(StartGate, WhatArrivesWhileItIsClosedBeginsTogether) {
  WatchedGate gate;
  gate.close();
  EXPECT_EQ(steps_of_three_requests(&gate), kTogether);
}

TEST(StartGate, WhatArrivesBeforeItIsFoundOpenBeginsTogether) {
  LateGate gate;
  EXPECT_EQ(steps_of_three_requests(&gate), kTogether);
}

}  // namespace
}  // namespace bass::testing
