// The KV budget with a real model's page sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/engine_run.h"

namespace bass::testing {
namespace {

Request request_of(int prompt_len, int max_tokens) {
  return greedy_request(std::vector<TokenId>(static_cast<size_t>(prompt_len), 1234), max_tokens);
}

// A page of 32 tokens takes 742.5 KiB (30 layers, 3 heads of 64, K and V in int16 with their scales), so 8 MiB hold 11
// of them: 352 tokens.
TEST(KvBudget, ARequestThatCanNeverFitIsRefusedWithItsNumbersAndASmallerOneRuns) {
  EngineOptions options{.model_path = default_model(), .max_batch = 4};
  options.context_len = 2048;
  options.kv_memory_mib = 8;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const Result<RequestId> id = engine->submit(request_of(300, 200), std::make_shared<EventQueue>());
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->check(request_of(300, 200)).message(), id.status().message());
  EXPECT_TRUE(engine->check(request_of(40, 8)).ok());
  for (const char* part : {"300 prompt tokens", "200 new ones", "MiB", "--kv-memory", "--max-tokens"}) {
    EXPECT_THAT(id.status().message(), ::testing::HasSubstr(part));
  }
  const RequestResult fits = run_one(*engine, request_of(40, 8));
  EXPECT_EQ(fits.choices[0].tokens.size(), 8u);
}

TEST(KvBudget, BoundsTheContextThatWasNotGiven) {
  EngineOptions options{.model_path = default_model(), .max_batch = 4};
  options.kv_memory_mib = 8;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->options().context_len, 320);
  EXPECT_EQ(run_one(*engine, request_of(40, 1000)).choices.at(0).tokens.size(), 280u);
}

TEST(KvBudget, Int8HoldsNearlyTwiceAsMuch) {  // 382.5 KiB a page
  EngineOptions options{.model_path = default_model(), .max_batch = 4};
  options.kv_memory_mib = 8;
  options.kv = KvKind::kInt8;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->options().context_len, 640);
  EXPECT_EQ(engine->model_info().kv_bytes_per_token, 30 * 3 * 2 * (64 + 4));
  EXPECT_EQ(run_one(*engine, request_of(40, 1000)).choices.at(0).tokens.size(), 600u);
}

TEST(KvBudget, RequestsWaitForEachOther) {
  EngineOptions options{.model_path = default_model(), .max_batch = 16};
  options.kv_memory_mib = 8;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const std::vector<RequestResult> results = run_all(*engine, std::vector<Request>(6, request_of(100, 20)));
  for (const RequestResult& result : results) EXPECT_EQ(result.choices.at(0).tokens, results[0].choices.at(0).tokens);
}

TEST(KvBudget, ABudgetBelowTwoPagesIsRefused) {
  EngineOptions options{.model_path = default_model()};
  options.kv_memory_mib = 1;
  const auto engine = Engine::load(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(engine.status().message(), ::testing::HasSubstr("raise --kv-memory"));
}

}  // namespace
}  // namespace bass::testing
