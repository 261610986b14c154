// What a step emitted goes out while the device does the next one, and before the engine waits for anything else.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "engine/step_gate.h"
#include "support/emulated_gpu.h"
#include "support/engine_run.h"

namespace bass::testing {
namespace {

/// Asked by the engine before each step: how many tokens have come out by then.
class CountingGate final : public StepGate {
 public:
  void enter() override {
    for (Event event; queue->wait(&event, std::chrono::seconds(0)); event = {}) {
      n_tokens_ += event.kind == Event::Kind::kTokens ? event.tokens.size() : 0;
    }
    seen.push_back(n_tokens_);
  }

  std::shared_ptr<EventQueue> queue = std::make_shared<EventQueue>();
  std::vector<size_t> seen;

 private:
  size_t n_tokens_ = 0;
};

std::unique_ptr<Engine> load_on_gpu(StepGate* gate) {
  const EmulatedUnlessGpu gpu;
  EngineOptions options{.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 1};
  options.context_len = 256;
  options.device = "cuda";
  options.gate = gate;
  return load_engine(options);
}

/// A token a step.
Request one_by_one(int max_tokens) {
  Request request;
  request.prompt_tokens = {5, 9, 200, 17};
  request.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.speculation.draft_length = "off";
  return request;
}

TEST(GpuEvents, NoneWaitsWhileTheEngineDoes) {
  CountingGate gate;
  auto engine = load_on_gpu(&gate);
  ASSERT_NE(engine, nullptr);
  const Request request = one_by_one(6);
  ASSERT_TRUE(engine->submit(request, gate.queue).ok());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (engine->stats().decode_tokens + 1 < request.max_tokens) {
    ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the request has failed";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  engine.reset();
  ASSERT_GE(gate.seen.size(), 6u);
  const std::vector<size_t> last(gate.seen.end() - 6, gate.seen.end());
  EXPECT_EQ(last, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
}

// Without a gate nothing but the next step sends them.
TEST(GpuEvents, ComeWhileTheRequestRuns) {
  auto engine = load_on_gpu(nullptr);
  ASSERT_NE(engine, nullptr);
  const auto queue = std::make_shared<EventQueue>();
  const RequestId id = engine->submit(one_by_one(200), queue).value();
  Event event;
  while (queue->wait(&event, std::chrono::seconds(60)) && event.kind != Event::Kind::kTokens) event = {};
  ASSERT_EQ(event.kind, Event::Kind::kTokens);
  engine->cancel(id);
  while (queue->wait(&event, std::chrono::seconds(60)) && event.kind != Event::Kind::kFinished) event = {};
  EXPECT_EQ(event.finish_reason, FinishReason::kCancelled);  // kLength if they came at the end
}

}  // namespace
}  // namespace bass::testing
