#include "server/api_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const TokenBytes kBytes = [](TokenId id) {
  return id == 0 ? std::string("\xC3") : std::string(1, static_cast<char>(id));
};

Event tokens(int choice_idx, const std::string& text, std::vector<TokenInfo> infos) {
  Event event;
  event.kind = Event::Kind::kTokens;
  event.choice_idx = choice_idx;
  event.text = text;
  event.tokens = std::move(infos);
  return event;
}

Event finished(int choice_idx, FinishReason reason = FinishReason::kStop) {
  Event event;
  event.kind = Event::Kind::kFinished;
  event.choice_idx = choice_idx;
  event.finish_reason = reason;
  return event;
}

Event done(int n_prompt_tokens, int n_cached_tokens = 0) {
  Event event;
  event.n_prompt_tokens = n_prompt_tokens;
  event.n_cached_tokens = n_cached_tokens;
  return event;
}

ApiShape shape_of(ApiEndpoint endpoint, int n_samples, int n_choices, size_t n_prompts = 1) {
  return {.endpoint = endpoint, .n_prompts = n_prompts, .n_samples = n_samples, .n_choices = n_choices};
}

Json finish(WholeAnswer* answer) { return Json::parse(answer->finish().value()); }

const ApiHead kHead{"id-1", 5, "m"};

TEST(WholeAnswer, PutsPiecesTogetherAndCountsTokens) {
  WholeAnswer answer(shape_of(ApiEndpoint::kChat, 2, 2), kHead, kBytes);
  answer.take(0, tokens(1, "x", {{'x', -1}}));
  answer.take(0, tokens(0, "a", {{'a', -1}}));
  answer.take(0, tokens(0, "b", {{'b', -1}, {'c', -1}}));
  answer.take(0, finished(0, FinishReason::kLength));
  answer.take(0, finished(1));
  answer.take(0, done(7, 5));
  const Json json = finish(&answer);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "ab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][1]["message"]["content"], "x");
  EXPECT_EQ(json["usage"], (Json{{"prompt_tokens", 7},
                                 {"completion_tokens", 4},
                                 {"total_tokens", 11},
                                 {"prompt_tokens_details", {{"cached_tokens", 5}}}}));
  EXPECT_TRUE(json["choices"][0]["logprobs"].is_null());
}

TEST(WholeAnswer, GivesTheBestOfEachPrompt) {
  WholeAnswer answer(shape_of(ApiEndpoint::kCompletion, 3, 2, 2), kHead, kBytes);
  const float logprobs[2][3] = {{-3, -1, -2}, {-1, -2, -0.5F}};
  for (size_t prompt = 0; prompt < 2; ++prompt) {
    for (int i = 0; i < 3; ++i) {
      answer.take(prompt, tokens(i, std::to_string(i), {{'a', logprobs[prompt][i]}}));
      // The likeliest one of the second prompt was stopped before its end.
      answer.take(prompt, finished(i, prompt == 1 && i == 2 ? FinishReason::kDeadline : FinishReason::kStop));
    }
    answer.take(prompt, done(1));
  }
  const Json choices = finish(&answer)["choices"];
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0]["text"], "1");
  EXPECT_EQ(choices[1]["text"], "2");
  EXPECT_EQ(choices[2]["text"], "0");
  EXPECT_EQ(choices[3]["text"], "1");
  EXPECT_EQ(choices[3]["index"], 3);
}

TEST(WholeAnswer, IsAnErrorWhereASampleFailedOrTheEngineEnded) {
  for (const FinishReason reason : {FinishReason::kError, FinishReason::kCancelled}) {
    WholeAnswer answer(shape_of(ApiEndpoint::kChat, 2, 2), kHead, kBytes);
    answer.take(0, finished(0));
    answer.take(0, finished(1, reason));
    answer.take(0, done(1));
    EXPECT_FALSE(answer.finish().ok());
  }
  WholeAnswer answer(shape_of(ApiEndpoint::kChat, 1, 1), kHead, kBytes);
  Event event = done(1);
  event.error = resource_exhausted("no memory");
  answer.take(0, event);
  EXPECT_EQ(answer.finish().status().message(), "no memory");
}

TEST(WholeAnswer, TokensOfLogprobsMayBePartsOfCharacters) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.has_logprobs = true;
  WholeAnswer answer(shape, kHead, kBytes);
  answer.take(0, tokens(0, "", {{0, -0.5F}}));
  answer.take(0, finished(0));
  answer.take(0, done(1));
  const Json token = finish(&answer)["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["bytes"], Json::array({0xC3}));
  EXPECT_EQ(token["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(token["logprob"], -0.5);
}

Json object_of(const std::string& event) {
  EXPECT_THAT(event, StartsWith("data: "));
  return Json::parse(event.substr(6));
}

TEST(StreamedAnswer, SendsRoleTextsAndReason) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 2, 2);
  shape.has_usage = true;
  StreamedAnswer answer(shape, kHead, kBytes);
  const Json first = object_of(answer.take(0, tokens(1, "a\n", {{'a', -1}})).value());
  EXPECT_EQ(first["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", "a\n"}}));
  EXPECT_EQ(first["choices"][0]["index"], 1);
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(answer.take(0, tokens(1, "", {{'b', -1}})).value(), "") << "nothing to say yet";
  const Json last = object_of(answer.take(0, finished(1)).value());
  EXPECT_EQ(last["choices"][0]["delta"], Json::object());
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(object_of(answer.take(0, finished(0)).value())["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(answer.take(0, done(3)).value(), "");
  EXPECT_THAT(answer.end(), HasSubstr(R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
                                      R"("prompt_tokens_details":{"cached_tokens":0}})"));
  EXPECT_TRUE(answer.end().ends_with("data: [DONE]\n\n"));
}

TEST(StreamedAnswer, CountsTheChoicesOfAllPrompts) {
  StreamedAnswer answer(shape_of(ApiEndpoint::kCompletion, 3, 3, 2), kHead, kBytes);
  EXPECT_EQ(object_of(answer.take(1, tokens(2, "a", {{'a', -1}})).value())["choices"][0]["index"], 5);
  EXPECT_EQ(answer.end(), "data: [DONE]\n\n");
}

TEST(StreamedAnswer, EndsWithTheErrorOfASample) {
  StreamedAnswer answer(shape_of(ApiEndpoint::kChat, 1, 1), kHead, kBytes);
  Event event = finished(0, FinishReason::kError);
  event.error = internal_error("broken");
  EXPECT_EQ(answer.take(0, event).status().message(), "broken");
}

}  // namespace
}  // namespace bass
