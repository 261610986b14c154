#include "server/api_call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ApiCall chat(const std::string& rest) {
  Result<ApiCall> call =
      read_api_call(ApiEndpoint::kChat, R"({"messages": [{"role": "user", "content": "hi"}])" + rest + "}", {});
  EXPECT_TRUE(call.ok()) << call.status().message();
  return call.ok() ? std::move(call).value() : ApiCall{};
}

ApiCall completion(const std::string& body) {
  Result<ApiCall> call = read_api_call(ApiEndpoint::kCompletion, body, {});
  EXPECT_TRUE(call.ok()) << call.status().message();
  return call.ok() ? std::move(call).value() : ApiCall{};
}

std::string error_of(ApiEndpoint endpoint, const std::string& body) {
  const Result<ApiCall> call = read_api_call(endpoint, body, {});
  EXPECT_FALSE(call.ok()) << body;
  return call.status().message();
}

TEST(ApiCall, WhatIsNotSaidIsAsTheServerWasTold) {
  GenerateOptions defaults;
  defaults.request.max_tokens = 77;
  defaults.request.sampling.temperature = 0.25F;
  defaults.request.sampling.top_k = 9;
  const auto read = [&](const std::string& body) { return read_api_call(ApiEndpoint::kCompletion, body, defaults); };
  const Request silent = read(R"({"prompt": "a"})")->requests[0];
  const Request null = read(R"({"prompt": "a", "max_tokens": null, "temperature": null, "top_k": null})")->requests[0];
  for (const Request& request : {silent, null}) {
    EXPECT_EQ(request.max_tokens, 77);
    EXPECT_EQ(request.sampling.temperature, 0.25F);
    EXPECT_EQ(request.sampling.top_k, 9);
  }
  EXPECT_EQ(read(R"({"prompt": "a", "max_tokens": 3, "top_k": 0})")->requests[0].max_tokens, 3);
}

TEST(ApiCall, TakesOptionsOfTheTableByTheirNames) {
  const Request request =
      chat(R"(, "max_completion_tokens": 5, "temperature": 0, "top_p": 0.5, "min_p": 0.1, "seed": 18446744073709551615,
              "stop": "x", "logit_bias": {"3": -100}, "presence_penalty": 1, "time_budget": 2.5, "verify": "match",
              "drafter": "ngram", "draft_length": "fixed:2")")
          .requests[0];
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5F);
  EXPECT_EQ(request.seed, ~uint64_t{0});
  EXPECT_THAT(request.stop, ElementsAre("x"));
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair<TokenId, float>(3, -100.0F)));
  EXPECT_EQ(request.time_budget_s, 2.5);
  EXPECT_EQ(request.speculation.verify, VerifyRule::kMatch);
  EXPECT_EQ(request.speculation.draft_length, "fixed:2");
  EXPECT_THAT(chat(R"(, "stop": ["x", "y"])").requests[0].stop, ElementsAre("x", "y"));
}

TEST(ApiCall, SamplesAreAsManyAsBestOfAsks) {
  const ApiCall plain = completion(R"({"prompt": "a", "n": 3})");
  EXPECT_EQ(plain.shape.n_choices, 3);
  EXPECT_EQ(plain.requests[0].n, 3);
  const ApiCall best = completion(R"({"best_of": 5, "prompt": "a", "n": 2})");
  EXPECT_EQ(best.shape.n_choices, 2);
  EXPECT_EQ(best.requests[0].n, 5);
  EXPECT_TRUE(completion(R"({"prompt": "a", "n": 2, "best_of": 2, "stream": true})").shape.is_streamed);
}

TEST(ApiCall, PromptsAreTextsOrTokensOneOrMany) {
  EXPECT_EQ(completion(R"({"prompt": "ab"})").requests[0].prompt, "ab");
  EXPECT_THAT(completion(R"({"prompt": [1, 2, 3]})").requests[0].prompt_tokens, ElementsAre(1, 2, 3));
  const ApiCall many = completion(R"({"prompt": ["a", [4], "b"], "seed": 10})");
  ASSERT_EQ(many.requests.size(), 3u);
  EXPECT_EQ(many.requests[2].prompt, "b");
  EXPECT_THAT(many.requests[1].prompt_tokens, ElementsAre(4));
  EXPECT_EQ(many.requests[0].seed, 10u);
  EXPECT_EQ(many.requests[2].seed, 12u);
}

TEST(ApiCall, AConversationIsRead) {
  const ApiCall call = read_api_call(ApiEndpoint::kChat, R"({"model": "m", "logprobs": true, "stream": true,
    "stream_options": {"include_usage": true, "include_obfuscation": false},
    "messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                 {"role": "assistant", "content": "c", "refusal": null, "annotations": []}]})",
                                     {})
                           .value();
  EXPECT_EQ(call.model, "m");
  EXPECT_TRUE(call.shape.has_logprobs && call.shape.is_streamed && call.shape.has_usage);
  ASSERT_EQ(call.requests[0].messages.size(), 2u);
  EXPECT_EQ(call.requests[0].messages[0].content, "ab");
  EXPECT_EQ(call.requests[0].messages[1].role, "assistant");
}

TEST(ApiCall, WhatCannotBeDoneIsAnErrorOnlyWhereItIsAsked) {
  chat(R"(, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "top_logprobs": 0,
           "reasoning_effort": "none", "user": "u", "metadata": {"a": "b"}, "store": false)");
  for (const char* rest :
       {R"("tools": [{}])", R"("tool_choice": "required")", R"("response_format": {"type": "json_schema"})",
        R"("audio": {})", R"("reasoning_effort": "high")", R"("chat": false)"}) {
    const std::string body = fmt::format(R"({{"messages": [{{"role": "user", "content": "hi"}}], {}}})", rest);
    EXPECT_THAT(error_of(ApiEndpoint::kChat, body), HasSubstr("is not supported here")) << rest;
  }
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "messages": []})"), HasSubstr("\"messages\""));
  EXPECT_THAT(error_of(ApiEndpoint::kChat, R"({"prompt": "a"})"), HasSubstr("\"prompt\""));
}

TEST(ApiCall, ErrorsNameTheKey) {
  const auto error = [](const std::string& rest) {
    return error_of(ApiEndpoint::kCompletion, fmt::format(R"({{"prompt": "a", {}}})", rest));
  };
  EXPECT_THAT(error(R"("n": 1.5)"), HasSubstr("\"n\" 1.5"));
  EXPECT_THAT(error(R"("best_of": 0)"), HasSubstr("\"best_of\" 0: must be a whole number from 1 to 65536"));
  EXPECT_THAT(error(R"("best_of": 99999999999999999999)"), HasSubstr("\"best_of\""));
  EXPECT_THAT(error(R"("stream": 1)"), HasSubstr("\"stream\" 1: must be true or false"));
  EXPECT_THAT(error(R"("stream_options": [])"), HasSubstr("\"stream_options\": must be an object"));
  EXPECT_THAT(error(R"("logprobs": true)"), HasSubstr("\"logprobs\" true"));
  EXPECT_THAT(error(R"("max_completion_tokens": 5)"), HasSubstr("unknown key \"max_completion_tokens\""));
  EXPECT_THAT(error(R"("seed": -1)"), HasSubstr("\"seed\" -1"));
  EXPECT_THAT(error(R"("device": "cpu")"), HasSubstr("unknown key \"device\""));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": [1, -2]})"), HasSubstr("\"prompt\" -2"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": [1, 4294967296]})"), HasSubstr("4294967296"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": [true]})"), HasSubstr("\"prompt\": must be a string"));
}

TEST(ApiCall, PromptsAndSamplesOfACallAreBounded) {
  const auto prompts = [](size_t n, int n_samples) {
    nlohmann::json body{{"n", n_samples}};
    body["prompt"] = std::vector<std::string>(n, "a");
    return body.dump();
  };
  EXPECT_EQ(completion(prompts(kMaxPrompts, 32)).shape.n_prompts, kMaxPrompts);
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, prompts(kMaxPrompts + 1, 1)), HasSubstr("2049 prompts"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, prompts(kMaxPrompts, 33)), HasSubstr("more than 65536"));
}

TEST(ApiCall, AnErrorIsShorterThanWhatIsWrong) {
  const std::string body = R"({"prompt": "a", "stream": ")" + std::string(100000, 'x') + "\"}";
  EXPECT_LT(error_of(ApiEndpoint::kCompletion, body).size(), 200u);
}

}  // namespace
}  // namespace bass
