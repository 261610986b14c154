// What a step emitted goes out while the device does the next one, and before the engine waits for anything else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "engine/step_gate.h"
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

TEST(GpuEvents, NoneWaitsWhileTheEngineDoes) {
  if (std::getenv("BASS_TEST_GPU") == nullptr) ::setenv("BASS_EMULATE_GPU", "1", 1);
  CountingGate gate;
  EngineOptions options{.model_path = tiny_model("tiny_gqa_tied_f32"), .max_batch = 4, .n_threads = 1};
  options.context_len = 128;
  options.device = "cuda";
  options.gate = &gate;
  auto engine = load_engine(options);
  ::unsetenv("BASS_EMULATE_GPU");
  ASSERT_NE(engine, nullptr);
  Request request;
  request.prompt_tokens = {5, 9, 200, 17};
  request.max_tokens = 6;
  request.sampling.ignore_eos = true;
  ASSERT_TRUE(engine->submit(request, gate.queue).ok());
  bool is_done = false;
  while (!is_done) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    is_done = engine->stats().decode_tokens + 1 >= request.max_tokens;
  }
  engine.reset();
  ASSERT_GE(gate.seen.size(), 6u);
  const std::vector<size_t> last(gate.seen.end() - 6, gate.seen.end());
  EXPECT_EQ(last, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace bass::testing
