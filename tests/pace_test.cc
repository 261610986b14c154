// `goodput` on an engine whose steps take what the test says (support/timed_executor.h), where that changes while it
// works: within 50 steps drafts are what the new conditions make of them. speculation/adversity_test.cc judges the same
// policy in a simulation, by what it reaches; here the engine around it is a real one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "support/temp_folder.h"
#include "support/test_models.h"
#include "support/timed_executor.h"

namespace bass::testing {
namespace {

constexpr int kRecovery = 50;
constexpr double kStep = 3e-3;  // seconds: thirty times what the tiny model takes, as other programs run beside tests
constexpr double kMany = 1;     // drafted tokens a sequence and step: of 7 to 8 on an idle machine
constexpr double kFew = 0.3;
constexpr int kLongContext = 8192;

// Greedy, so that its draft, the same model with rounded weights, is nearly always right.
Request long_request(int max_tokens) {
  Request request;
  request.prompt = "I think";
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.speculation.drafter = DrafterChoice::kModel;
  request.speculation.draft_length = "goodput";
  return request;
}

// The tiny model and its draft with room for long texts.
class PaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ModelEdit edit{.without = "llama.context_length", .misshapen = {}, .add = [](GgufBuilder& builder) {
                           builder.add_u32("llama.context_length", kLongContext);
                         }};
    write_edited_model(tiny_model("tiny_gqa_tied_f32"), edit, options_.model_path = folder_ / "main.gguf");
    write_edited_model(tiny_model("draft_padded"), edit, options_.draft_path = folder_ / "draft.gguf");
    options_.n_threads = 1;
  }

  std::unique_ptr<Engine> load(int max_batch, Pace pace) {
    pace_ = std::move(pace);
    options_.max_batch = max_batch;
    return load_timed_engine(options_, &pace_, &steps_);
  }

  // Drafted tokens a sequence, on average over some steps.
  [[nodiscard]] double mean_drafted(int from, int to) const {
    EXPECT_LE(to, static_cast<int>(steps_.size())) << "the run was too short";
    double n_drafted = 0, n_sequences = 0;
    for (int i = from; i < std::min(to, static_cast<int>(steps_.size())); ++i) {
      n_drafted += steps_[static_cast<size_t>(i)].n_drafted;
      n_sequences += steps_[static_cast<size_t>(i)].n_segments;
    }
    return n_drafted / n_sequences;
  }

  EngineOptions options_;
  std::vector<TimedStep> steps_;

 private:
  TempFolder folder_;
  Pace pace_;
};

// Rows that are free, and then so dear that no draft pays.
TEST_F(PaceTest, DraftsEndWhereRowsTurnDear) {
  constexpr int kDearFrom = 200, kEnd = 400;
  const auto engine = load(4, [](int step, int n_rows) {
    const double rows = n_rows / 4.0;
    return step < kDearFrom ? kStep : kStep * std::pow(rows, 1.5);
  });
  ASSERT_NE(engine, nullptr);
  run_all(*engine, std::vector<Request>(4, long_request(3000)));
  EXPECT_GT(mean_drafted(kRecovery, kDearFrom), kMany);
  EXPECT_LT(mean_drafted(kDearFrom + kRecovery, kEnd), kFew);
}

// A machine that is three times slower for a while: what pays stays what it was.
TEST_F(PaceTest, DraftsStayOnAMachineThatSlowsDown) {
  constexpr int kSlowFrom = 200, kSlowTo = 400, kEnd = 600;
  const auto engine = load(4, [](int step, int) { return step < kSlowFrom || step >= kSlowTo ? kStep : 3 * kStep; });
  ASSERT_NE(engine, nullptr);
  run_all(*engine, std::vector<Request>(4, long_request(6000)));
  EXPECT_GT(mean_drafted(kRecovery, kSlowFrom), kMany);
  EXPECT_GT(mean_drafted(kSlowFrom + kRecovery, kSlowTo), kMany);
  EXPECT_GT(mean_drafted(kSlowTo + kRecovery, kEnd), kMany);
}

// One sequence, for which rows are free; 63 more for a while, with which they are not; then that one again.
TEST_F(PaceTest, DraftsFollowABatchThatGoesFromOneTo64AndBack) {
  constexpr int kOthers = 63;
  const auto engine =
      load(1 + kOthers, [](int /*step*/, int n_rows) { return kStep * std::pow(std::max(1.0, n_rows / 16.0), 1.5); });
  ASSERT_NE(engine, nullptr);
  auto events = std::make_shared<EventQueue>();
  ASSERT_TRUE(engine->submit(long_request(5000), events).ok());
  int n_tokens = 0, n_done = 0;
  bool is_joined = false;
  for (Event event; n_done < 1 + kOthers && events->wait(&event, std::chrono::seconds(300));) {
    n_tokens += static_cast<int>(event.tokens.size());
    n_done += event.kind == Event::Kind::kDone ? 1 : 0;
    if (is_joined || n_tokens < 1500) continue;
    for (int i = 0; i < kOthers; ++i) ASSERT_TRUE(engine->submit(long_request(200), events).ok());
    is_joined = true;
  }
  ASSERT_EQ(n_done, 1 + kOthers);
  const auto is_full = [](const TimedStep& step) { return step.n_segments == 1 + kOthers; };
  const auto first = static_cast<int>(std::find_if(steps_.begin(), steps_.end(), is_full) - steps_.begin());
  const auto last = static_cast<int>(steps_.rend() - std::find_if(steps_.rbegin(), steps_.rend(), is_full));
  ASSERT_LT(first + kRecovery, last) << "there were hardly any steps of all";
  EXPECT_GT(mean_drafted(kRecovery, first - 5), kMany) << "alone; the prompts before " << first << " are steps, too";
  EXPECT_LT(mean_drafted(first + kRecovery, last), kFew) << "of 64";
  const auto alone =
      static_cast<int>(steps_.rend() - std::find_if(steps_.rbegin(), steps_.rend(),
                                                    [](const TimedStep& step) { return step.n_segments > 1; }));
  EXPECT_GT(mean_drafted(alone + kRecovery, static_cast<int>(steps_.size())), kMany) << "alone again";
}

// A text that is being written goes on while a long prompt is read; where nobody waits, steps are as large as they may
// be.
TEST_F(PaceTest, PromptsAreReadInPiecesBesideTexts) {
  constexpr double kRow = 4e-4;
  constexpr int kPieces = 50;  // rows of 20 ms
  const auto engine = load(2, [](int, int n_rows) { return kRow * n_rows; });
  ASSERT_NE(engine, nullptr);
  Request first = long_request(800);
  first.speculation.drafter = DrafterChoice::kOff;
  Request second = first;
  for (Request* request : {&first, &second}) {
    request->prompt.clear();
    request->prompt_tokens.assign(400, request == &first ? 5 : 6);
  }
  second.max_tokens = 1;
  auto events = std::make_shared<EventQueue>();
  ASSERT_TRUE(engine->submit(first, events).ok());
  Event event;
  while (event.kind != Event::Kind::kTokens) ASSERT_TRUE(events->wait(&event, std::chrono::seconds(60)));
  const RequestResult read = run_one(*engine, second);
  engine->cancel(event.request_id);
  while (event.kind != Event::Kind::kDone) ASSERT_TRUE(events->wait(&event, std::chrono::seconds(60)));
  int n_first = 0, n_beside = 0, max_beside = 0;
  for (const TimedStep& step : steps_) {
    if (step.n_rows <= 2) continue;
    if (step.n_segments == 1) n_first = std::max(n_first, step.n_rows);
    if (step.n_segments == 1) continue;
    ++n_beside;
    max_beside = std::max(max_beside, step.n_rows);
  }
  EXPECT_EQ(n_first, 256);
  EXPECT_GE(n_beside, 3);
  EXPECT_LE(max_beside, kPieces + 2);
  EXPECT_GE(max_beside, kPieces / 2);
}

// An hour's generation: regular decoding's tokens to the end, and drafts to the end.
TEST_F(PaceTest, AGenerationOf8kTokensIsRegularDecodings) {
  constexpr int kTokens = 8000;
  const auto engine = load(2, constant_pace(kStep));
  ASSERT_NE(engine, nullptr);
  const RequestResult drafted = run_one(*engine, long_request(kTokens));
  const auto n_steps = static_cast<int>(steps_.size());
  EXPECT_GT(mean_drafted(kRecovery, n_steps / 2), kMany);
  EXPECT_GT(mean_drafted(n_steps / 2, n_steps), kMany);
  Request request = long_request(kTokens);
  request.speculation.drafter = DrafterChoice::kOff;
  const auto regular = load(1, constant_pace(0));
  ASSERT_NE(regular, nullptr);
  expect_same_outputs({run_one(*regular, request)}, {drafted});
}

}  // namespace
}  // namespace bass::testing
