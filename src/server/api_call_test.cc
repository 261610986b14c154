#include "server/api_call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <nlohmann/json.hpp>

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  EXPECT_EQ(call.requests[0].messages[0].content, "a\nb");
  EXPECT_EQ(call.requests[0].messages[1].role, "assistant");
}

TEST(ApiCall, ConversationsWithToolsAreRead) {
  const auto read = [](const std::string& message) {
    const std::string body = R"({"messages": [{"role": "user", "content": "x"}, )" + message + "]}";
    Result<ApiCall> call = read_api_call(ApiEndpoint::kChat, body, {});
    EXPECT_TRUE(call.ok()) << call.status().message();
    return call.ok() ? call->requests[0].messages.back() : ChatMessage{};
  };
  const ChatMessage two =
      read(R"({"role": "assistant", "content": null, "id": "m1", "reasoning_content": "hm", "tool_calls": [
                     {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1]}"}},
                     {"id": "b", "type": "function", "function": {"name": "g", "arguments": "no JSON"}}]})");
  EXPECT_EQ(two.content, "");
  EXPECT_EQ(two.tool_calls, R"([{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": [1]}"}},)"
                            R"({"id":"b","type":"function","function":{"name":"g","arguments":"no JSON"}}])");
  const ChatMessage said = read(R"({"role": "assistant", "content": "I ask.", "tool_calls": [
                     {"function": {"name": "f", "arguments": {}}}]})");
  EXPECT_EQ(said.content, "I ask.");
  EXPECT_EQ(said.tool_calls, R"([{"type":"function","function":{"name":"f","arguments":{}}}])");
  EXPECT_EQ(read(R"({"role": "assistant", "function_call": {"name": "f", "arguments": {}}})").tool_calls,
            said.tool_calls);
  EXPECT_EQ(read(R"({"role": "assistant", "content": "Hi", "tool_calls": []})").tool_calls, "");
  EXPECT_EQ(read(R"({"role": "tool", "tool_call_id": "a", "content": "5"})").tool_call_id, "a");
  EXPECT_EQ(read(R"({"role": "tool", "tool_call_id": "a", "content": "5"})").role, "tool");
  EXPECT_EQ(read(R"({"role": "function", "name": "f", "content": "5"})").role, "tool");
  EXPECT_THAT(error_of(ApiEndpoint::kChat, R"({"messages": [{"role": "assistant", "tool_calls": [5]}]})"),
              HasSubstr("\"messages\"[0]: \"tool_calls\": must be like"));
  EXPECT_THAT(error_of(ApiEndpoint::kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
              HasSubstr("images and sounds are not supported"));
}

constexpr const char* kTwoTools =
    R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
                   {"type": "function", "function": {"name": "g"}}])";

TEST(ApiCall, ToolsAreForTheTemplateAndTheAnswer) {
  const ApiCall call = chat(kTwoTools);
  EXPECT_THAT(call.shape.tools->names, ElementsAre("f", "g"));
  EXPECT_FALSE(call.shape.tools->only_one);
  EXPECT_TRUE(chat(std::string(kTwoTools) + R"(, "parallel_tool_calls": false)").shape.tools->only_one);
  EXPECT_TRUE(call.requests[0].tools.has_value());
  EXPECT_FALSE(call.requests[0].json_schema.has_value()) << "the model chooses";
  EXPECT_THAT(chat(std::string(kTwoTools) + R"(, "tool_choice": "auto", "regex": "a")").shape.tools->names,
              ElementsAre("f", "g"));
  for (const char* none : {R"(, "tools": [])", R"(, "tools": null)", R"(, "tool_choice": "none")"}) {
    EXPECT_EQ(chat(none).shape.tools, nullptr) << none;
    EXPECT_FALSE(chat(none).requests[0].tools.has_value()) << none;
  }
  const ApiCall unused = chat(std::string(kTwoTools) + R"(, "tool_choice": "none")");
  EXPECT_FALSE(unused.requests[0].tools.has_value());
  EXPECT_EQ(unused.shape.tools, nullptr);
}

TEST(ApiCall, ACallThatIsWantedIsASchema) {
  const ApiCall any = chat(std::string(kTwoTools) + R"(, "tool_choice": "required")");
  EXPECT_THAT(*any.requests[0].json_schema, HasSubstr(R"({"anyOf":[)"));
  EXPECT_FALSE(any.shape.must_call_named);
  const ApiCall named =
      chat(std::string(kTwoTools) + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  EXPECT_THAT(*named.requests[0].json_schema, HasSubstr(R"({"const":"g"})"));
  EXPECT_THAT(*named.requests[0].json_schema, ::testing::Not(HasSubstr(R"("f")")));
  EXPECT_TRUE(named.shape.must_call_named);
}

TEST(ApiCall, ASchemaLeavesCallsPossible) {
  const ApiCall call =
      chat(std::string(kTwoTools) + R"(, "response_format": {"type": "json_schema", "json_schema": {"schema":
      {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}}})");
  EXPECT_THAT(*call.requests[0].json_schema,
              HasSubstr(R"({"anyOf":[{"type":"array","items":{"$ref":"#/anyOf/0/$defs/n"})"));
  EXPECT_THAT(*call.requests[0].json_schema, HasSubstr(R"({"const":"g"})"));
}

TEST(ApiCall, ToolsThatCannotBeAreTold) {
  const auto error = [](const std::string& rest) {
    return error_of(ApiEndpoint::kChat, R"({"messages": [{"role": "user", "content": "hi"}])" + rest + "}");
  };
  EXPECT_THAT(error(R"(, "tools": [{"type": "function"}])"), HasSubstr("[0]: must be like"));
  EXPECT_THAT(error(R"(, "tools": [{"function": {"name": ""}}])"), HasSubstr("[0]: \"name\": must be"));
  EXPECT_THAT(error(R"(, "tools": [{"function": {"name": "f"}}, {"function": {"name": "f"}}])"),
              HasSubstr("there already"));
  EXPECT_THAT(error(R"(, "tools": [{"function": {"name": "f", "parameters": 5}}])"), HasSubstr("\"parameters\""));
  EXPECT_THAT(error(R"(, "tools": {})"), HasSubstr("must be a list"));
  EXPECT_THAT(error(R"(, "tool_choice": "required")"), HasSubstr("nothing to call without \"tools\""));
  EXPECT_THAT(error(R"(, "tool_choice": "f")"), HasSubstr("\"tool_choice\" \"f\": must be"));
  EXPECT_THAT(error(std::string(kTwoTools) + R"(, "tool_choice": {"function": {"name": "h"}})"),
              HasSubstr("\"h\" is none of"));
  EXPECT_THAT(error(std::string(kTwoTools) + R"(, "tool_choice": "required", "regex": "a")"),
              HasSubstr("cannot follow"));
  EXPECT_THAT(
      error(R"(, "tool_choice": "required", "tools": [{"function": {"name": "f", "parameters": {"not": {}}}}])"),
      HasSubstr("\"tools\": "));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "tools": [{"function": {"name": "f"}}]})"),
              HasSubstr("only chats have tools"));
}

TEST(ApiCall, LengthsDoNotDependOnTheOrderOfKeys) {
  EXPECT_EQ(chat(R"(, "max_tokens": 5, "max_completion_tokens": 2)").requests[0].max_tokens, 2);
  EXPECT_EQ(chat(R"(, "max_completion_tokens": 2, "max_tokens": 5)").requests[0].max_tokens, 2);
  EXPECT_EQ(completion(R"({"max_completion_tokens": 3, "prompt": "a"})").requests[0].max_tokens, 3);
  EXPECT_GT(chat(R"(, "max_tokens": -1)").requests[0].max_tokens, 1 << 30) << "as many as fit";
  const Request none = completion(R"({"max_tokens": 0, "prompt": "a"})").requests[0];
  EXPECT_EQ(none.max_tokens, 0);
  EXPECT_TRUE(none.prompt_logprobs);
}

TEST(ApiCall, ValuesThatMeanNothingElsewhereMeanNothing) {
  GenerateOptions defaults;
  defaults.request.sampling.top_k = 9;
  const Request request = read_api_call(ApiEndpoint::kCompletion,
                                        R"({"prompt": "a", "top_k": -1, "seed": -1, "top_p": 0, "temperature": 1,
                                            "skip_special_tokens": true, "add_generation_prompt": true, "min_tokens": 0,
                                            "stop_token_ids": [], "priority": 0, "cache_prompt": true,
                                            "use_beam_search": false, "verbosity": "medium", "reasoning_effort": "high"})",
                                        defaults)
                              ->requests[0];
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_FALSE(request.seed.has_value());
  EXPECT_EQ(request.sampling.temperature, 0) << "the likeliest token alone";
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "skip_special_tokens": false})"),
              HasSubstr("not supported here; leave it out"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "repeat_penalty": 1.1})"),
              HasSubstr("it is \"repetition_penalty\" here"));
}

TEST(ApiCall, SeedsMayBeNegative) {
  EXPECT_EQ(completion(R"({"prompt": "a", "seed": -2})").requests[0].seed, std::numeric_limits<uint64_t>::max() - 1);
  EXPECT_FALSE(completion(R"({"prompt": "a", "seed": -1})").requests[0].seed.has_value()) << "none, as elsewhere";
}

TEST(ApiCall, AFormatIsOfWhatIsSaidAndACallSaysNothing) {
  const ApiCall call =
      chat(std::string(kTwoTools) + R"(, "tool_choice": "required", "response_format": {"type": "json_object"})");
  EXPECT_EQ(call.shape.schema_key, "tools");
  EXPECT_TRUE(call.shape.tools->must_call);
  EXPECT_FALSE(chat(kTwoTools).shape.tools->must_call);
}

TEST(ApiCall, SomeToolsMayBeAllowed) {
  const auto choice = [](const std::string& mode, const std::string& name) {
    return std::string(kTwoTools) + R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": ")" + mode +
           R"(", "tools": [{"type": "function", "function": {"name": ")" + name + "\"}}]}}";
  };
  const ApiCall may = chat(choice("auto", "g"));
  EXPECT_THAT(may.shape.tools->names, ElementsAre("g"));
  EXPECT_FALSE(may.requests[0].json_schema.has_value());
  const ApiCall must = chat(choice("required", "g"));
  EXPECT_THAT(*must.requests[0].json_schema, ::testing::AllOf(HasSubstr("\"g\""), ::testing::Not(HasSubstr("\"f\""))));
  const std::string messages = R"({"messages": [{"role": "user", "content": "a"}])";
  EXPECT_THAT(error_of(ApiEndpoint::kChat, messages + choice("auto", "h") + "}"), HasSubstr("allows none of the"));
  EXPECT_THAT(error_of(ApiEndpoint::kChat, messages + choice("now", "g") + "}"), HasSubstr("its \"allowed_tools\""));
}

TEST(ApiCall, ThoughtsAreToldApartAndComeBeforeWhatIsBound) {
  const auto check = [](const std::string& rest, bool parts, bool thinks_first) {
    for (const char* const bound : {"", R"(, "regex": "a+")", R"(, "response_format": {"type": "json_object"})"}) {
      const ApiCall call = chat(bound + rest);
      EXPECT_EQ(call.shape.parts_reasoning, parts && (thinks_first || *bound == 0)) << bound << rest;
      EXPECT_EQ(call.requests[0].think_first, thinks_first) << bound << rest;
    }
  };
  check("", true, true);
  check(R"(, "think_first": false)", true, false);
  check(R"(, "separate_reasoning": false)", false, false);
  check(R"(, "separate_reasoning": false, "think_first": true)", false, true);
  const ApiCall call = completion(R"({"prompt": "a"})");
  EXPECT_FALSE(call.shape.parts_reasoning || call.requests[0].think_first);
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "think_first": true})"), HasSubstr("think_first"));
}

TEST(ApiCall, ThoughtsMayHaveABudget) {
  for (const char* const name : {"thinking_budget", "thinking_token_budget", "thinking_budget_tokens"}) {
    EXPECT_EQ(chat(std::string(", \"") + name + "\": 20").requests[0].thinking_budget, 20) << name;
    EXPECT_EQ(chat(std::string(", \"") + name + "\": -1").requests[0].thinking_budget, std::nullopt) << name;
    EXPECT_THAT(error_of(ApiEndpoint::kCompletion, std::string(R"({"prompt": "a", ")") + name + "\": 20}"),
                HasSubstr(name));
  }
  EXPECT_EQ(chat("").requests[0].thinking_budget, std::nullopt);
  for (const char* const value : {"-2", "1.5", "\"a\"", "2147483648"}) {
    EXPECT_THAT(
        error_of(ApiEndpoint::kChat, std::string(R"({"messages": [], "thinking_token_budget": )") + value + "}"),
        StartsWith("\"thinking_token_budget\""));
  }
}

TEST(ApiCall, ALastMessageMayBeGoneOnWith) {
  EXPECT_FALSE(chat("").requests[0].continue_final_message);
  EXPECT_TRUE(chat(R"(, "continue_final_message": true)").requests[0].continue_final_message);
  EXPECT_TRUE(
      chat(R"(, "continue_final_message": true, "add_generation_prompt": false)").requests[0].continue_final_message);
  const auto continues = [](const std::string& said) {
    return read_api_call(
               ApiEndpoint::kChat,
               R"({"messages": [{"role": "assistant", "content": ")" + said + R"("}], "continue_final_message": true})",
               {})
        ->shape.continues_thoughts;
  };
  EXPECT_TRUE(continues("<think>Let me"));
  EXPECT_FALSE(continues("<think>a</think>So"));
  const std::string messages = R"({"messages": [{"role": "user", "content": "a"}], )";
  for (const char* keys :
       {R"("add_generation_prompt": false})", R"("add_generation_prompt": true, "continue_final_message": true})"}) {
    EXPECT_THAT(error_of(ApiEndpoint::kChat, messages + keys), HasSubstr("\"add_generation_prompt\": is false where"));
  }
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "continue_final_message": true})"),
              HasSubstr("only chats have a template"));
}

TEST(ApiCall, EndsThatMustAndMayNotCome) {
  const Request request =
      completion(R"({"prompt": [1, 2.0], "min_tokens": 3, "stop_token_ids": [5, 7.0], "max_tokens": 3})").requests[0];
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_THAT(request.stop_token_ids, ElementsAre(5, 7));
  EXPECT_THAT(request.prompt_tokens, ElementsAre(1, 2));
  EXPECT_EQ(chat(R"(, "min_tokens": 2000, "max_tokens": -1)").requests[0].min_tokens, 2000);
  EXPECT_EQ(chat(R"(, "min_tokens": 2000, "max_completion_tokens": 2000)").requests[0].min_tokens, 2000);
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "min_tokens": 4, "max_tokens": 3})"),
              HasSubstr(R"("min_tokens" 4: must be at most "max_tokens", which is 3)"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "min_tokens": -1})"), HasSubstr("must be >= 0"));
  for (const char* ids : {"5", "[\"a\"]", "[1.5]", "[-1]", "[3000000000]"}) {
    const std::string body = std::string(R"({"prompt": "a", "stop_token_ids": )") + ids + "}";
    EXPECT_THAT(error_of(ApiEndpoint::kCompletion, body), HasSubstr("\"stop_token_ids\"")) << ids;
  }
}

TEST(ApiCall, LogProbabilitiesOfOthersAndOfThePrompt) {
  const ApiCall of_chat = chat(R"(, "top_logprobs": 3, "logprobs": true)");
  EXPECT_EQ(of_chat.shape.n_top, 3);
  EXPECT_EQ(of_chat.requests[0].top_logprobs, 3);
  EXPECT_FALSE(of_chat.requests[0].prompt_logprobs);
  const ApiCall echoed = completion(R"({"prompt": ["a", "b"], "logprobs": 1, "echo": true, "max_tokens": 1})");
  EXPECT_EQ(echoed.shape.n_top, 1);
  EXPECT_TRUE(echoed.requests[1].prompt_logprobs);
  EXPECT_THAT(echoed.shape.echoed, ElementsAre("a", "b"));
  EXPECT_FALSE(completion(R"({"prompt": "a", "echo": true})").requests[0].prompt_logprobs);
  EXPECT_TRUE(echoed.requests[0].sampling.ignore_eos) << "there is one token behind the text in any case";
  const std::string large = R"({"prompt": ")" + std::string(1000, 'a') + R"(", "echo": true, "logprobs": 20, "n": )";
  EXPECT_EQ(completion(large + "700}").shape.n_samples, 700);
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, large + "900}"), HasSubstr("\"echo\": the prompts"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "logprobs": 21})"), HasSubstr("from 0 to 20"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "top_logprobs": 2})"), HasSubstr("unknown key"));
  const std::string silent = R"({"messages": [{"role": "user", "content": "hi"}], "top_logprobs": 2})";
  EXPECT_THAT(error_of(ApiEndpoint::kChat, silent), HasSubstr("has no place without"));
}

TEST(ApiCall, ResponseFormatsAreSchemas) {
  const auto schema_of = [](const std::string& format) {
    return chat(R"(, "response_format": )" + format).requests[0].json_schema.value_or("none");
  };
  EXPECT_EQ(schema_of(R"({"type": "text"})"), "none");
  EXPECT_EQ(schema_of(R"({"type": "json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(schema_of(R"({"type": "json_object", "schema": {"maxProperties": 1}})"), R"({"maxProperties":1})");
  // As it was written, the order of its properties too.
  EXPECT_EQ(schema_of(R"({"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema":
                          {"properties": {"z": {}, "a": {}}}}})"),
            R"({"properties":{"z":{},"a":{}}})");
  for (const char* format : {R"("json")", R"({})", R"({"type": "xml"})", R"({"type": "json_schema"})",
                             R"({"type": "json_schema", "json_schema": {"name": "x"}})",
                             R"({"type": "json_schema", "json_schema": {"schema": "x"}})"}) {
    const std::string body =
        fmt::format(R"({{"messages": [{{"role": "user", "content": "hi"}}], "response_format": {}}})", format);
    EXPECT_THAT(error_of(ApiEndpoint::kChat, body), HasSubstr("\"response_format\"")) << format;
  }
  EXPECT_THAT(error_of(ApiEndpoint::kChat,
                       R"({"messages": [{"role": "user", "content": "hi"}], "response_format": {"type": "json_schema",
                           "json_schema": {"schema": {"properties": {"a": {"not": {}}}}}}})"),
              ::testing::StartsWith("\"response_format\": "));
  ApiShape shape;
  shape.schema_key = "response_format";
  EXPECT_EQ(by_callers_key(shape, invalid_argument("json_schema: no text fits it")).message(),
            "\"response_format\": no text fits it");
  EXPECT_EQ(by_callers_key(shape, invalid_argument("the prompt is empty")).message(), "the prompt is empty");
  const std::string bad = R"({"prompt": "a", "json_schema": {"not": {}}})";
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, bad), HasSubstr("\"json_schema\""));
}

TEST(ApiCall, WhatAnswersHaveToFitInWordsOfVllm) {
  const auto read = [](const std::string& key) { return completion("{\"prompt\": \"a\", " + key + "}").requests[0]; };
  EXPECT_EQ(read(R"("guided_regex": "a+")").regex, "a+");
  EXPECT_EQ(read(R"("structured_outputs": {"regex": "a+", "json": null, "disable_fallback": true})").regex, "a+");
  EXPECT_EQ(read(R"("guided_json": {"type": "null"})").json_schema, R"({"type":"null"})");
  EXPECT_EQ(read(R"("guided_json": "{\"type\": \"null\"}")").json_schema, R"({"type": "null"})");
  EXPECT_EQ(read(R"("structured_outputs": {"json_object": true})").json_schema, R"({"type":"object"})");
  EXPECT_EQ(read(R"("guided_choice": ["yes", "no.", "é\n"])").regex, "(yes|no\\.|é\\x0a)");
  EXPECT_EQ(read(R"("guided_decoding_backend": "auto", "structured_outputs": {})").regex, std::nullopt);
  const auto error = [](const std::string& key) {
    return error_of(ApiEndpoint::kCompletion, "{\"prompt\": \"a\", " + key + "}");
  };
  EXPECT_THAT(error(R"("guided_regex": "(")"), StartsWith("\"guided_regex\""));
  EXPECT_THAT(error(R"("guided_json": {"not": {}})"), StartsWith("\"guided_json\""));
  EXPECT_THAT(error(R"("guided_json": "{")"), StartsWith("\"guided_json\""));
  EXPECT_THAT(error(R"("guided_choice": [])"), StartsWith("\"guided_choice\""));
  EXPECT_THAT(error(R"("guided_choice": ["a", 1])"), StartsWith("\"guided_choice\""));
  EXPECT_THAT(error(R"("guided_grammar": "root ::= a")"), HasSubstr("\"grammar\" is not supported"));
  EXPECT_THAT(error(R"("guided_jsno": true)"), HasSubstr("\"jsno\" is not supported"));
  EXPECT_THAT(error(R"("structured_outputs": {"jsonobject": true})"), HasSubstr("\"jsonobject\" is not supported"));
  EXPECT_THAT(error(R"("structured_outputs": {"regex": "a", "choice": ["a"]})"), HasSubstr("one thing"));
}

TEST(ApiCall, WhatCannotBeDoneIsAnErrorOnlyWhereItIsAsked) {
  chat(R"(, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "top_logprobs": 0,
           "reasoning_effort": "none", "user": "u", "metadata": {"a": "b"}, "store": false)");
  for (const char* rest : {R"("functions": [{}])", R"("function_call": {"name": "f"})", R"("modalities": ["audio"])",
                           R"("audio": {})", R"("echo": true)", R"("chat": false)"}) {
    const std::string body = fmt::format(R"({{"messages": [{{"role": "user", "content": "hi"}}], {}}})", rest);
    EXPECT_THAT(error_of(ApiEndpoint::kChat, body), HasSubstr("; leave it out")) << rest;
  }
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "messages": []})"),
              HasSubstr("/v1/chat/completions"));
  EXPECT_THAT(error_of(ApiEndpoint::kChat, R"({"prompt": "a"})"), HasSubstr("/v1/completions"));
}

TEST(ApiCall, NumbersThatAreWholeMayBeWrittenWithAPoint) {
  const ApiCall call = chat(R"(, "max_tokens": 5.0, "n": 2.0, "top_k": 4e1, "seed": 7.0, "temperature": 1.0)");
  EXPECT_EQ(call.requests[0].max_tokens, 5);
  EXPECT_EQ(call.requests[0].n, 2);
  EXPECT_EQ(call.requests[0].sampling.top_k, 40);
  EXPECT_EQ(call.requests[0].seed, 7U);
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "max_tokens": 5.5})"), HasSubstr("a whole number"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "seed": 1e300})"), HasSubstr("\"seed\""));
}

TEST(ApiCall, AChatMayHaveVariablesForItsTemplate) {
  EXPECT_EQ(chat(R"(, "chat_template_kwargs": {"enable_thinking": false})").requests[0].chat_template_kwargs,
            R"({"enable_thinking":false})");
  EXPECT_FALSE(chat(R"(, "chat_template_kwargs": null)").requests[0].chat_template_kwargs.has_value());
  const auto error = [](std::string_view value) {
    return error_of(ApiEndpoint::kChat, fmt::format(R"({{"messages": [{{"role": "user", "content": "hi"}}],
                                                        "chat_template_kwargs": {}}})",
                                                    value));
  };
  EXPECT_THAT(error("[]"), HasSubstr("\"chat_template_kwargs\" []: must be an object of variables"));
  EXPECT_THAT(error(R"({"messages": []})"), HasSubstr("\"messages\": is what the request says itself"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "a", "chat_template_kwargs": {"a": 1}})"),
              HasSubstr("only chats have a template"));
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
  EXPECT_THAT(error(R"("max_tokens": 18446744073709551615)"), HasSubstr("\"max_tokens\" 18446744073709551615"));
  EXPECT_THAT(error(R"("max_completion_tokens": -2)"), HasSubstr("\"max_completion_tokens\" -2"));
  EXPECT_THAT(error(R"("seed": -2.5)"), HasSubstr("\"seed\" -2.5"));
  EXPECT_THAT(error(R"("device": "cpu")"), HasSubstr("\"device\": unknown key; leave it out"));
  EXPECT_THAT(error(R"("temprature": 1)"), HasSubstr("did you mean \"temperature\"?"));
  EXPECT_THAT(error(R"("maxTokens": 1)"), HasSubstr("did you mean \"max_tokens\"?"));
  EXPECT_THAT(error("\"" + std::string(1000, 's') + "\": 1"), HasSubstr("leave it out"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"promt": "a"})"), HasSubstr("did you mean \"prompt\"?"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": ["a", "b", ""]})"), HasSubstr("\"prompt\"[2] is empty"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": ["", "a"]})"), HasSubstr("\"prompt\"[0] is empty"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, " \n"), HasSubstr("the body is empty"));
  EXPECT_THAT(error_of(ApiEndpoint::kCompletion, R"({"prompt": "\ud83d"})"), HasSubstr("unpaired surrogate"));
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
