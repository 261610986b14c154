// What ends a sample, and what must not yet, on tiny random models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/engine_run.h"
#include "support/made_up_prompt.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

TEST(Engine, StopStringsCutTheTextButNotTheTokens) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request = greedy_request(prompt_of(5, 12), 60);
  const ChoiceResult whole = run_one(*engine, request).choices[0];
  ASSERT_GT(whole.text.size(), 10u);
  // A stop string from the middle of the text, beginning at a character.
  size_t begin = whole.text.size() / 2;
  while ((static_cast<unsigned char>(whole.text[begin]) & 0xC0) == 0x80) ++begin;
  size_t end = begin + 4;
  while (end < whole.text.size() && (static_cast<unsigned char>(whole.text[end]) & 0xC0) == 0x80) ++end;
  request.stop = {whole.text.substr(begin, end - begin), "never to be found"};
  const ChoiceResult stopped = run_one(*engine, request).choices[0];
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(request.stop[0])));
  EXPECT_LT(stopped.tokens.size(), whole.tokens.size());
  EXPECT_TRUE(std::equal(stopped.tokens.begin(), stopped.tokens.end(), whole.tokens.begin()));
}

TEST(Engine, ATokenMayEndASample) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request = greedy_request(prompt_of(5, 12), 60);  // which ignores end tokens
  const ChoiceResult whole = run_one(*engine, request).choices[0];
  const auto first = std::ranges::find(whole.tokens, whole.tokens[20]);
  request.stop_token_ids = {*first};
  const ChoiceResult stopped = run_one(*engine, request).choices[0];
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.tokens, std::vector(whole.tokens.begin(), first)) << "it is in no answer";
}

// Whoever drafts, and however far: the bias makes end tokens the likeliest ones wherever they are allowed.
TEST(Engine, NoSampleEndsBeforeItsLeastLength) {
  TempFolder folder;
  const std::string random = folder / "random.gguf";
  write_random_model(tiny_model(kTinyModel), 7, random, /*n_dropped=*/0);
  constexpr TokenId kStopToken = 9;
  for (const std::string& draft : {std::string(), tiny_model(kTinyModel), random}) {
    auto engine = load_engine({.model_path = tiny_model(kTinyModel), .draft_path = draft, .n_threads = 1});
    for (const char* const draft_length : {"off", "fixed:1", "fixed:5", "bass"}) {
      for (const int min_tokens : {0, 1, 4, 7, 12}) {
        Request request = greedy_request(prompt_of(5, 12), 12);
        request.min_tokens = min_tokens;
        request.stop_token_ids = {kStopToken};
        request.sampling.logit_bias = {{kStopToken, 1000.0F}};
        request.speculation.draft_length = draft_length;
        const ChoiceResult choice = run_one(*engine, request).choices[0];
        EXPECT_EQ(choice.tokens.size(), static_cast<size_t>(min_tokens)) << draft_length;
        EXPECT_EQ(choice.reason, min_tokens == 12 ? FinishReason::kLength : FinishReason::kStop);
      }
    }
  }
}

TEST(Engine, StopStringsCountBehindTheLeastLength) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request = greedy_request(prompt_of(5, 12), 40);
  request.stop = {run_one(*engine, request).choices[0].text.substr(0, 1)};
  EXPECT_TRUE(run_one(*engine, request).choices[0].text.empty()) << "a control: it is there at once";
  request.min_tokens = 10;
  const ChoiceResult choice = run_one(*engine, request).choices[0];
  EXPECT_GE(choice.tokens.size(), 10U);
  EXPECT_TRUE(choice.text.starts_with(request.stop[0]));
}

TEST(Engine, RefusesLengthsAndStopTokensThatCannotBe) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request = greedy_request(prompt_of(5, 12), 40);
  request.min_tokens = 41;
  EXPECT_THAT(engine->check(request).message(), ::testing::HasSubstr("from 0 to max_tokens, which is 40"));
  request.min_tokens = -1;
  EXPECT_FALSE(engine->check(request).ok());
  request.min_tokens = 40;
  EXPECT_TRUE(engine->check(request).ok());
  request.stop_token_ids = {1'000'000};
  EXPECT_THAT(engine->check(request).message(), ::testing::HasSubstr("one of stop_token_ids is 1000000"));
  request.stop_token_ids.assign(257, 1);
  EXPECT_THAT(engine->check(request).message(), ::testing::HasSubstr("at most 256"));
}

}  // namespace
}  // namespace bass::testing
