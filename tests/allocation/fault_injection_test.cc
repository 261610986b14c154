// No allocation that fails may end the process, hang it, or leak: the Nth allocation of load, submit, run and cancel
// fails for every N, once alone and once with all that follow it (as SQLite tests its own). After each failure the
// engine must have said so, or have got over it; then it must work, or have been refused.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>

#include "allocation/allocator.h"
#include "bass/engine.h"
#include "support/engine_run.h"

namespace bass::testing {
namespace {

constexpr std::chrono::seconds kHang{60};
constexpr int kFewTokens = 12;

EngineOptions engine_options() {
  EngineOptions options;
  options.model_path = tiny_model("tiny_gqa_tied_q8_0");
  options.draft_path = tiny_model("tiny_gqa_tied_q8_0");
  options.max_batch = 3;
  options.n_threads = 2;
  options.context_len = 64;
  options.kv_memory_mib = 1;
  return options;
}

// Model and n-gram drafts, the rule with the most state, processors, samples that share pages and wait for others.
Request make_job(int idx) {
  Request request;
  for (int i = 0; i < 34; ++i) request.prompt_tokens.push_back(3 + (i % 7 * 11 + idx) % 200);
  request.n = 4;
  request.max_tokens = kFewTokens;
  request.seed = 5;
  request.sampling.temperature = 1.0f;
  request.sampling.top_p = 0.9f;
  request.sampling.frequency_penalty = 0.2f;
  request.sampling.logit_bias = {{17, 1.0f}};
  request.sampling.ignore_eos = true;
  request.speculation = {.drafter = DrafterChoice::kAuto,
                         .draft_length = idx / 3 % 2 == 0 ? "fixed:3" : "goodput",  // whose state outlives a request
                         .verify = static_cast<VerifyRule>(idx % 3)};
  request.stop = {"never to be found in a text"};
  return request;
}

/// What became of a request. Its error's memory is the engine's, so nothing here is allocated while faults are on.
struct Outcome {
  bool was_taken = false;
  bool is_done = false;
  int n_finished = 0;
  int n_errors = 0;
  bool has_total_error = false;  // kDone said it for those that are missing
};

/// Waits for a request's end; true unless it hangs.
bool wait_for_end(EventQueue& events, Outcome* outcome) {
  for (Event event; events.wait(&event, kHang);) {
    if (event.kind == Event::Kind::kFinished) {
      ++outcome->n_finished;
      outcome->n_errors += event.finish_reason == FinishReason::kError ? 1 : 0;
    }
    if (event.kind != Event::Kind::kDone) continue;
    outcome->is_done = true;
    outcome->has_total_error = !event.error.ok();
    return true;
  }
  return false;
}

struct Job {
  Request request;
  std::shared_ptr<EventQueue> events = std::make_shared<EventQueue>();
  Outcome outcome;
};

/// Two requests, one of them cancelled while it runs or waits. Copies for `submit` are made before faults are on.
void run_jobs(Engine& engine, int64_t n, bool all_after, bool cancels) {
  Job jobs[2] = {{make_job(static_cast<int>(n))}, {make_job(static_cast<int>(n) + 1)}};
  {
    const Fault fault(n, all_after);
    for (Job& job : jobs) {
      const Result<RequestId> id = engine.submit(std::move(job.request), job.events);
      job.outcome.was_taken = id.ok();
      if (id.ok() && cancels && &job == &jobs[1]) engine.cancel(id.value());
    }
    for (Job& job : jobs) {
      if (job.outcome.was_taken) wait_for_end(*job.events, &job.outcome);
    }
  }
  for (const Job& job : jobs) {
    if (!job.outcome.was_taken) continue;
    ASSERT_TRUE(job.outcome.is_done) << "allocation " << n << ": hangs";
    if (!job.outcome.has_total_error) {
      EXPECT_EQ(job.outcome.n_finished, 4) << "allocation " << n;
    }
  }
}

void expect_usable(Engine& engine, int64_t n) {
  Request request = make_job(0);
  request.speculation.drafter = DrafterChoice::kOff;
  auto events = std::make_shared<EventQueue>();
  ASSERT_TRUE(engine.submit(request, events).ok()) << "after allocation " << n;
  Outcome outcome;
  ASSERT_TRUE(wait_for_end(*events, &outcome)) << "after allocation " << n;
  EXPECT_EQ(outcome.n_finished, 4);
  EXPECT_EQ(outcome.n_errors, 0) << "after allocation " << n;
}

class FaultInjection : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Once, FaultInjection, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(FromThenOn, FaultInjection, ::testing::Values(true));

class FaultInjectionInLoad : public ::testing::TestWithParam<std::tuple<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(All, FaultInjectionInLoad, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

// Quantising makes tensors on all threads.
TEST_P(FaultInjectionInLoad, GivesAStatus) {
  const auto [all_after, quantises] = GetParam();
  EngineOptions options = engine_options();
  if (quantises) {
    options.model_path = tiny_model("tiny_gqa_tied_f16");
    options.draft_path.clear();
    options.quantize = "q8_0";
  }
  ASSERT_NE(load_engine(options), nullptr);
  const int64_t n_before = n_live_allocations();
  int64_t n_refused = 0;
  for (int64_t n = 1;; n += 1 + n / 200) {
    bool is_ok = false;
    {
      const Fault fault(n, all_after);
      const Result<std::unique_ptr<Engine>> engine = Engine::load(options);
      is_ok = engine.ok();
      if (!is_ok) {
        ++n_refused;
        EXPECT_TRUE(engine.status().code() != StatusCode::kOk && !engine.status().message().empty());
      }
    }
    if (n_failed_allocations() == 0) break;  // n is beyond the last allocation
    EXPECT_EQ(n_live_allocations(), n_before) << "allocation " << n << " leaks";
    EXPECT_FALSE(all_after && is_ok) << "allocation " << n;
  }
  EXPECT_GT(n_refused, 100) << "the test proves nothing";
}

TEST_P(FaultInjection, RunningRequestsEndAndTheEngineLivesOn) {
  ASSERT_NE(load_engine(engine_options()), nullptr);  // some things are kept for the process's life
  const int64_t n_before = n_live_allocations();
  auto engine = load_engine(engine_options());
  ASSERT_NE(engine, nullptr);
  int n_until_quiet = 0;
  int64_t n_injected = 0;
  // Threads race, so how many allocations a run has differs a little: it ends when several in a row saw no fault.
  for (int64_t n = 1; n_until_quiet < 3; n += 1 + n / 100) {
    run_jobs(*engine, n, GetParam(), /*cancels=*/n % 2 == 0);
    if (HasFatalFailure()) return;
    n_until_quiet = n_failed_allocations() == 0 ? n_until_quiet + 1 : 0;
    n_injected += n_failed_allocations() > 0 ? 1 : 0;
    expect_usable(*engine, n);  // pages or promises that were lost would be missing in time
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(n_injected, 100) << "the test proves nothing";
  engine.reset();
  EXPECT_EQ(n_live_allocations(), n_before) << "leaks";
}

// Of two requests the one that there was no memory to start ends, and not the one that runs.
TEST(FaultInjectionInAdmission, EndsOneRequest) {
  EngineOptions options = engine_options();
  options.context_len = 256;
  options.kv_memory_mib = 4;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  int n_only_new = 0;
  for (int64_t n = 1; n < 120; ++n) {
    const auto events = std::make_shared<EventQueue>();
    Request request = make_job(0), fresh = make_job(1);
    request.n = 1;
    request.max_tokens = 200;
    const RequestId running = engine->submit(std::move(request), events).value();
    Event event;
    while (event.kind != Event::Kind::kTokens) ASSERT_TRUE(events->wait(&event, kHang));
    bool was_taken = false, has_failed = false, is_done = false, has_ended = false, was_cancelled = false;
    const auto next = [&] {
      if (!events->wait(&event, kHang)) return false;
      const bool is_running = event.request_id == running, is_finished = event.kind == Event::Kind::kFinished;
      has_failed |= !is_running && is_finished && event.finish_reason == FinishReason::kError;
      was_cancelled |= is_running && is_finished && event.finish_reason == FinishReason::kCancelled;
      (is_running ? has_ended : is_done) |= event.kind == Event::Kind::kDone;
      return true;
    };
    {
      const Fault fault(n, /*all_after=*/false);
      was_taken = engine->submit(std::move(fresh), events).ok();
      while (was_taken && !is_done) ASSERT_TRUE(next());
    }
    engine->cancel(running);
    while (!has_ended) ASSERT_TRUE(next());
    n_only_new += has_failed && was_cancelled ? 1 : 0;  // the other one had not ended with it
  }
  EXPECT_GT(n_only_new, 0);
  expect_usable(*engine, 0);
}

TEST_P(FaultInjection, DestructionOfAnEngineWithoutMemoryEndsItsRequests) {
  for (int64_t n = 1; n < 400; n += 7) {
    Job job{make_job(0)};
    job.request.n = 50;
    bool was_taken = false;
    {
      auto engine = load_engine(engine_options());
      ASSERT_NE(engine, nullptr);
      const Fault fault(n, GetParam());
      was_taken = engine->submit(std::move(job.request), job.events).ok();
      engine.reset();
    }
    if (was_taken) {
      Outcome outcome;
      ASSERT_TRUE(wait_for_end(*job.events, &outcome)) << "allocation " << n;
    }
  }
}

}  // namespace
}  // namespace bass::testing
