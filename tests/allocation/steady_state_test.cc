// A step in the steady state allocates nothing, in the whole process: the engine's threads, and whoever takes the
// events.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "allocation/allocator.h"
#include "base/thread_team.h"
#include "bass/engine.h"
#include "model/synthetic_model.h"
#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/timed_executor.h"

namespace bass::testing {
namespace {

constexpr int kSamples = 4;
constexpr int kContextLen = 2048;
constexpr int kManyTokens = 1800;
constexpr int kFirst = 400;  // tokens that every sample has when the steady state is watched,
constexpr int kLast = 800;   // and that one has when it is over
constexpr int kTries = 20;

/// A model of a context that is long enough, so that this thread may be late by hundreds of steps.
class SteadyStateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    path_ = *folder_ / "model.gguf";
    SyntheticModel model = make_synthetic_model({.name = "steady",
                                                 .d_model = 64,
                                                 .d_ff = 96,
                                                 .n_layers = 2,
                                                 .n_heads = 4,
                                                 .n_kv_heads = 2,
                                                 .head_dim = 16,
                                                 .vocab_size = 512,
                                                 .context_len = kContextLen,
                                                 .rope_base = 10000.0f,
                                                 .is_head_tied = true});
    ThreadTeam team(1);
    std::ofstream file(path_, std::ios::binary);
    const Status status = write_synthetic_model(model, &team, [&](std::span<const std::byte> bytes) {
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      return ok_status();
    });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static EngineOptions engine_options() {
    EngineOptions options;
    options.model_path = options.draft_path = path_;
    options.max_batch = kSamples;
    options.n_threads = 1;  // and the other processor for the consumer
    options.kv_memory_mib = 64;
    return options;
  }
  static std::unique_ptr<Engine> load() { return load_engine(engine_options()); }

 private:
  static inline std::unique_ptr<TempFolder> folder_;
  static inline std::string path_;
};

Request make_request(VerifyRule rule, DrafterChoice drafter, const char* draft_length) {
  Request request;
  for (int i = 0; i < 50; ++i) request.prompt_tokens.push_back(3 + i % 7 * 11);
  request.n = kSamples;
  request.max_tokens = kManyTokens;
  request.seed = 5;
  request.sampling.temperature = 1.0f;
  request.sampling.top_p = 0.9f;
  request.sampling.frequency_penalty = 0.01f;
  request.sampling.logit_bias = {{17, 1.0f}};
  request.sampling.ignore_eos = true;
  request.speculation = {.drafter = drafter, .draft_length = draft_length, .verify = rule};
  request.stop = {"never to be found in a text"};
  return request;
}

/// Allocations of the whole process between kFirst and kLast tokens. keeps: the consumer keeps one Event.
int64_t allocations_between(Engine& engine, const Request& request, bool keeps) {
  auto events = std::make_shared<EventQueue>();
  const Result<RequestId> id = engine.submit(request, events);
  EXPECT_TRUE(id.ok()) << id.status().message();
  // Events for as many steps as this thread may be late by later on.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::array<int, kSamples> n_tokens{};
  int64_t n_before = -1;
  int64_t n_between = -1;
  for (Event event; events->wait(&event, std::chrono::seconds(60)) && event.kind != Event::Kind::kDone;) {
    n_tokens[static_cast<size_t>(event.choice_idx)] += static_cast<int>(event.tokens.size());
    if (n_before < 0 && *std::ranges::min_element(n_tokens) >= kFirst) n_before = n_allocations();
    if (n_before >= 0 && n_between < 0 && *std::ranges::max_element(n_tokens) >= kLast) {
      n_between = n_allocations() - n_before;
      engine.cancel(id.value());
    }
    if (!keeps) event = {};
  }
  return n_between;
}

class SteadyStateOf : public SteadyStateTest,
                      public ::testing::WithParamInterface<std::tuple<VerifyRule, DrafterChoice, const char*>> {};
constexpr const char* kRules[] = {"Rejection", "Match", "Block"};
std::string name_of(const ::testing::TestParamInfo<SteadyStateOf::ParamType>& param) {
  constexpr const char* kDrafters[] = {"Auto", "Model", "Ngram", "Off"};
  const auto& [rule, drafter, draft_length] = param.param;
  return std::string(kRules[static_cast<size_t>(rule)]) + kDrafters[static_cast<size_t>(drafter)] + "_" + draft_length;
}

INSTANTIATE_TEST_SUITE_P(
    All, SteadyStateOf,
    ::testing::Combine(::testing::Values(VerifyRule::kRejection, VerifyRule::kMatch, VerifyRule::kBlock),
                       ::testing::Values(DrafterChoice::kModel, DrafterChoice::kNgram, DrafterChoice::kOff),
                       ::testing::Values("fixed", "bass", "goodput")),
    name_of);

// This thread may be kept from running for so long that events pile up, which takes memory: so several tries. An
// allocation of the step itself is there in each of them, as each has a new engine: one that has run before has room
// for what texts of this length need.
TEST_P(SteadyStateOf, AllocatesNothing) {
  const auto& [rule, drafter, draft_length] = GetParam();
  int64_t n_least = -1;
  for (int i = 0; i < kTries && n_least != 0; ++i) {
    const auto engine = load();
    ASSERT_NE(engine, nullptr);
    const int64_t n = allocations_between(
        *engine, make_request(rule, drafter, draft_length == std::string("fixed") ? "fixed:3" : draft_length),
        /*keeps=*/true);
    ASSERT_GE(n, 0);
    n_least = n_least < 0 ? n : std::min(n_least, n);
  }
  EXPECT_EQ(n_least, 0);
}

class SteadyStateUnder : public SteadyStateTest, public ::testing::WithParamInterface<VerifyRule> {};
INSTANTIATE_TEST_SUITE_P(All, SteadyStateUnder,
                         ::testing::Values(VerifyRule::kRejection, VerifyRule::kMatch, VerifyRule::kBlock),
                         [](const auto& rule) { return kRules[static_cast<size_t>(rule.param)]; });

// Drafts that are short, as no row pays, and become as long as they can be while the steady state is watched. The
// prompt is short: what its rows took room for would do for those of drafts.
TEST_P(SteadyStateUnder, LongerDraftsAllocateNothing) {
  constexpr int kCheapFrom = kFirst + 50;  // steps: behind the beginning of the watch
  constexpr double kStep = 1e-3;
  const Pace pace = [](int step, int n_rows) {
    const double rows = n_rows / double{kSamples};
    return step < kCheapFrom ? kStep * rows * rows : 20 * kStep;  // so that a pass of the draft hardly counts
  };
  const auto longest = [](auto begin, auto end) {
    int n = 0;
    for (; begin != end; ++begin) n = std::max(n, begin->n_drafted);
    return n;
  };
  Request request = make_request(GetParam(), DrafterChoice::kModel, "goodput");
  request.prompt_tokens.resize(2);
  int64_t n_least = -1;
  for (int i = 0; i < kTries && n_least != 0; ++i) {
    std::vector<TimedStep> steps;
    steps.reserve(kSamples * kManyTokens);
    const auto engine = load_timed_engine(engine_options(), &pace, &steps);
    ASSERT_NE(engine, nullptr);
    const int64_t n = allocations_between(*engine, request, /*keeps=*/true);
    ASSERT_GE(n, 0);
    const auto change = steps.begin() + std::min<ptrdiff_t>(kCheapFrom, std::ssize(steps));
    if (longest(steps.begin(), change) >= longest(change, steps.end())) continue;  // a try that says nothing
    n_least = n_least < 0 ? n : std::min(n_least, n);
  }
  EXPECT_EQ(n_least, 0) << "-1: drafts never became longer";
}

// The count is not zero by itself: a consumer that throws its events' memory away makes the engine allocate.
TEST_F(SteadyStateTest, ConsumersThatKeepNothingAreCounted) {
  auto engine = load();
  ASSERT_NE(engine, nullptr);
  const Request request = make_request(VerifyRule::kMatch, DrafterChoice::kOff, "off");
  int64_t n_least = INT64_MAX;
  for (int i = 0; i < 3; ++i) {
    n_least = std::min(n_least, allocations_between(*engine, request, /*keeps=*/false));
  }
  EXPECT_GT(n_least, kLast - kFirst);
}

}  // namespace
}  // namespace bass::testing
