// Calls of a file in one engine: all are answered, refused ones at once, and what is cancelled says so.
#include "server/batch_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/engine_run.h"

namespace bass::testing {
namespace {

using ::testing::HasSubstr;

class BatchRunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 4, .n_threads = 2});
    ASSERT_NE(engine_, nullptr);
    run_.emplace(engine_.get(), GenerateOptions{}, "tiny");
  }

  std::optional<BatchAnswer> begin(size_t call_idx, const std::string& body) {
    return run_->begin(call_idx, ApiEndpoint::kCompletion, body, fmt::format("cmpl-{}", call_idx));
  }
  static std::string body_of(size_t i) {
    return fmt::format(R"({{"prompt": [[{}, 5, 9], [7, {}]], "seed": {}, "max_tokens": {}, "n": 2}})", i + 1, i + 2, i,
                       3 + i % 7);
  }
  std::map<size_t, BatchAnswer> wait_for_all() {
    std::map<size_t, BatchAnswer> answers;
    while (!run_->is_idle()) {
      for (BatchAnswer& answer : run_->wait(std::chrono::seconds(60)))
        EXPECT_TRUE(answers.emplace(answer.call_idx, answer).second) << answer.call_idx << " was answered twice";
    }
    return answers;
  }

  std::unique_ptr<Engine> engine_;
  std::optional<BatchRun> run_;
};

TEST_F(BatchRunTest, EveryCallHasItsOwnAnswer) {
  constexpr size_t kCalls = 12;
  std::map<size_t, std::string> alone;
  for (size_t i = 0; i < kCalls; ++i) {
    EXPECT_FALSE(begin(i, body_of(i)).has_value());
    alone[i] = wait_for_all().at(i).body;
  }
  for (size_t i = 0; i < kCalls; ++i) EXPECT_FALSE(begin(i, body_of(i)).has_value());
  const std::map<size_t, BatchAnswer> together = wait_for_all();
  ASSERT_EQ(together.size(), kCalls);
  for (const auto& [i, answer] : together) {
    const auto choices = nlohmann::json::parse(answer.body)["choices"];
    EXPECT_EQ(answer.http_status, 200);
    EXPECT_EQ(choices.size(), 4u);
    EXPECT_EQ(choices, nlohmann::json::parse(alone[i])["choices"]) << i;
    EXPECT_THAT(answer.body, HasSubstr(fmt::format("\"id\":\"cmpl-{}\"", i)));
  }
}

TEST_F(BatchRunTest, HasRoomForSomeBatches) {
  size_t n = 0;
  for (; run_->has_room(false); ++n) ASSERT_FALSE(begin(n, body_of(n)).has_value());
  EXPECT_EQ(n, 4u) << "of four samples each, for four batches of four";
  EXPECT_FALSE(run_->has_room(true));
  wait_for_all();
  EXPECT_TRUE(run_->has_room(true));
}

TEST_F(BatchRunTest, ACallMakesRoomAsItsSamplesEnd) {
  const std::string body = R"({"prompt": [[1, 2], [3, 4]], "n": 8, "max_tokens": 100, "ignore_eos": true})";
  EXPECT_FALSE(begin(0, body).has_value());
  EXPECT_FALSE(run_->has_room(false));
  while (!run_->has_room(false)) EXPECT_TRUE(run_->wait(std::chrono::seconds(60)).empty() || run_->is_idle());
  EXPECT_FALSE(run_->is_idle()) << "the others of its samples go on";
  EXPECT_EQ(wait_for_all().at(0).http_status, 200);
  EXPECT_TRUE(run_->has_room(true));
}

TEST_F(BatchRunTest, ATimeThatWasTooShortForATokenIsNoAnswer) {
  EXPECT_FALSE(begin(0, R"({"prompt": [1, 5], "n": 500, "max_tokens": 200, "time_budget": 0.02})").has_value());
  const BatchAnswer answer = wait_for_all().at(0);
  EXPECT_EQ(answer.http_status, 503);
  EXPECT_THAT(answer.body, HasSubstr("time_budget"));
}

// Also where the first of a call's prompts runs already.
TEST_F(BatchRunTest, RefusesWhatAServerRefuses) {
  const std::map<std::string, std::pair<int, std::string>> wrong = {
      {R"({"prompt": "a", "model": "other"})", {404, "is not served here"}},
      {R"({"prompt": "a", "n": 70000})", {400, "\\\"n\\\""}},
      {R"({"prompt": [[1, 2], [1000000]]})", {400, "1000000"}},
      {R"({"prompt": "a", "stream": true})", {400, "\\\"stream\\\""}},
      {R"({)", {400, "JSON"}}};
  for (const auto& [body, answer] : wrong) {
    const std::optional<BatchAnswer> refused = begin(0, body);
    ASSERT_TRUE(refused.has_value()) << body;
    EXPECT_EQ(refused->http_status, answer.first) << body;
    EXPECT_THAT(refused->body, HasSubstr(answer.second)) << body;
    EXPECT_TRUE(run_->is_idle());
  }
  EXPECT_FALSE(begin(1, body_of(1)).has_value());
  EXPECT_EQ(wait_for_all().at(1).http_status, 200);
}

TEST_F(BatchRunTest, WhatIsCancelledIsToBeAskedAgain) {
  for (size_t i = 0; i < 6; ++i)
    EXPECT_FALSE(begin(i, R"({"prompt": [1, 5], "max_tokens": 200, "n": 3, "ignore_eos": true})").has_value());
  run_->cancel();
  const std::map<size_t, BatchAnswer> answers = wait_for_all();
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_EQ(answers.at(5).http_status, 503);
  EXPECT_FALSE(begin(0, body_of(0)).has_value());  // and its end cancels
}

}  // namespace
}  // namespace bass::testing
