#include "server/response_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api_call.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ResponseCall response(const Json& body) {
  Result<ResponseCall> call = read_response_call(body);
  EXPECT_TRUE(call.ok()) << call.status().message();
  return call.ok() ? std::move(call).value() : ResponseCall{};
}

Json messages_of(const Json& input) { return response({{"input", input}}).chat["messages"]; }

/// Of reading it as a whole.
std::string error_of(const std::string& body) {
  const Result<ApiCall> call = read_api_call(ApiEndpoint::kResponse, body, {});
  EXPECT_FALSE(call.ok()) << body;
  return call.status().message();
}

TEST(ResponseCall, ATextIsAUsersMessageBehindTheInstructions) {
  const Json chat = response(Json::parse(R"({"input": "hi", "instructions": "Be brief.", "max_output_tokens": 7,
                                             "seed": 3, "stop": ["."], "store": true})"))
                        .chat;
  EXPECT_EQ(chat["messages"], Json::parse(R"([{"role": "system", "content": "Be brief."},
                                             {"role": "user", "content": "hi"}])"));
  EXPECT_EQ(chat["max_completion_tokens"], 7);
  EXPECT_EQ(chat["seed"], 3);
  EXPECT_EQ(chat["stop"], Json::array({"."}));
  EXPECT_FALSE(chat.contains("input"));
  EXPECT_FALSE(chat.contains("instructions"));
}

TEST(ResponseCall, ItemsOfAnAssistantAreOneMessage) {
  const Json messages = messages_of(Json::parse(R"([
    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}],
     "encrypted_content": null},
    {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{\"x\": 1}", "status": "completed"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
    {"type": "function_call_output", "call_id": "c1", "output": "one"},
    {"type": "message", "role": "assistant", "content": "Done."},
    {"role": "assistant", "content": "Really."}])"));
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_EQ(messages[0]["content"].size(), 2u);
  EXPECT_EQ(messages[0]["content"][1], (Json{{"type", "text"}, {"text", "b"}}));
  EXPECT_EQ(messages[1]["role"], "assistant");
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["content"][0]["text"], "I look.");
  EXPECT_EQ(messages[1]["tool_calls"][0],
            Json::parse(R"({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}})"));
  EXPECT_EQ(messages[1]["tool_calls"][1]["function"]["name"], "g");
  EXPECT_EQ(messages[2], Json::parse(R"({"role": "tool", "tool_call_id": "c2", "content": [{"type": "text",
                                        "text": "two"}], "name": "g"})"));
  EXPECT_EQ(messages[3]["name"], "f");
  EXPECT_EQ(messages[4]["content"], "Done.");
  EXPECT_EQ(messages[5]["content"], "Really.");
}

TEST(ResponseCall, WhatIsSaidOrThoughtBehindACallIsAnotherMessage) {
  const Json call = {{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}};
  const Json thoughts = {{"type", "reasoning"}, {"summary", {{{"type", "summary_text"}, {"text", "so"}}}}};
  const Json said = {{"role", "assistant"}, {"content", "x"}};
  const Json messages = messages_of({call, said, thoughts, call});
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_TRUE(messages[0]["content"].is_null());
  EXPECT_EQ(messages[1]["content"], "x");
  EXPECT_FALSE(messages[1].contains("tool_calls"));
  EXPECT_EQ(messages[2]["reasoning_content"], "so");
  EXPECT_EQ(messages[2]["tool_calls"].size(), 1u);
}

TEST(ResponseCall, ThoughtsThatNothingFollowsAreNoMessage) {
  const Json thoughts = {{"type", "reasoning"}, {"content", {{{"type", "reasoning_text"}, {"text", "so"}}}}};
  const Json asked = {{"role", "user"}, {"content", "x"}}, said = {{"role", "assistant"}, {"content", "y"}};
  const Json messages = messages_of({asked, thoughts, asked, said, thoughts});
  ASSERT_EQ(messages.size(), 3u);
  for (const Json& message : messages) EXPECT_FALSE(message.contains("reasoning_content"));
}

TEST(ResponseCall, ToolsAndFormatsAreWrittenFlat) {
  const ResponseCall call = response(Json::parse(R"({"input": "x",
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true},
             "verbosity": "low"}})"));
  EXPECT_EQ(call.chat["tools"], Json::parse(R"([{"type": "function", "function": {"name": "f", "description": "d",
                                                "parameters": {"type": "object"}, "strict": true}}])"));
  EXPECT_EQ(call.chat["tool_choice"], Json::parse(R"({"type": "function", "function": {"name": "f"}})"));
  EXPECT_EQ(call.chat["response_format"]["json_schema"]["schema"], Json::parse(R"({"type": "object"})"));
  EXPECT_EQ(call.repeated["tool_choice"]["name"], "f");
  EXPECT_EQ(call.repeated["text"]["format"]["name"], "n");
  const Json allowed = response(Json::parse(R"({"input": "x", "tool_choice": {"type": "allowed_tools", "mode": "auto",
    "tools": [{"type": "function", "name": "f"}]}})"))
                           .chat["tool_choice"];
  EXPECT_EQ(allowed, Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
    "tools": [{"type": "function", "function": {"name": "f"}}]}})"));
}

TEST(ResponseCall, LogprobsAreIncludedOrCounted) {
  EXPECT_FALSE(response({{"input", "x"}, {"include", {"reasoning.encrypted_content"}}}).chat.contains("logprobs"));
  EXPECT_FALSE(response({{"input", "x"}, {"top_logprobs", 0}}).chat.contains("logprobs"));
  EXPECT_EQ(response({{"input", "x"}, {"include", {"message.output_text.logprobs"}}}).chat["logprobs"], true);
  EXPECT_EQ(response({{"input", "x"}, {"top_logprobs", 2}}).chat["logprobs"], true);
}

TEST(ResponseCall, IsReadAsAChatsCall) {
  const Result<ApiCall> call = read_api_call(ApiEndpoint::kResponse, R"({"input": "x", "max_output_tokens": 9,
    "model": "m", "metadata": {"a": "b"}, "text": {"format": {"type": "json_object"}}, "stream": true})",
                                             {});
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_EQ(call->shape.endpoint, ApiEndpoint::kResponse);
  EXPECT_EQ(call->shape.schema_key, "text.format");
  EXPECT_TRUE(call->shape.is_streamed);
  EXPECT_EQ(call->model, "m");
  EXPECT_EQ(call->requests.front().max_tokens, 9);
  EXPECT_EQ(call->requests.front().messages.front().content, "x");
  EXPECT_EQ((*call->shape.repeated)["metadata"]["a"], "b");
  EXPECT_EQ((*call->shape.repeated)["max_output_tokens"], 9);
  EXPECT_EQ((*call->shape.repeated)["temperature"], 0.8);
}

TEST(ResponseCall, ErrorsNameTheCallersKey) {
  EXPECT_THAT(error_of("{}"), StartsWith("\"input\" is missing"));
  EXPECT_THAT(error_of(R"({"input": []})"), StartsWith("\"input\": must be a string, or a list of items"));
  EXPECT_THAT(error_of(R"({"input": [5]})"), StartsWith("\"input\"[0]: must be an object"));
  EXPECT_THAT(error_of(R"({"input": [{"role": "tool", "content": "x"}]})"), HasSubstr("\"role\" \"tool\""));
  EXPECT_THAT(error_of(R"({"input": [{"content": "x"}]})"), HasSubstr("\"type\" is missing"));
  EXPECT_THAT(error_of(R"({"input": [{"type": "item_reference", "id": "x"}]})"), HasSubstr("not kept here"));
  EXPECT_THAT(error_of(R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})"),
              HasSubstr("images and files are not supported"));
  EXPECT_THAT(error_of(R"({"input": [{"type": "function_call", "name": "f", "arguments": {}}]})"),
              HasSubstr("\"call_id\": must be a string"));
  EXPECT_THAT(error_of(R"({"input": "x", "max_output_tokens": -2})"), StartsWith("\"max_output_tokens\" -2"));
  EXPECT_THAT(error_of(R"({"input": "x", "max_tokens": 2})"),
              StartsWith("\"max_tokens\": it is \"max_output_tokens\""));
  EXPECT_THAT(error_of(R"({"input": "x", "messages": []})"), StartsWith("\"messages\": it is \"input\""));
  EXPECT_THAT(error_of(R"({"input": "x", "n": 2})"), StartsWith("\"n\" 2: a response is one answer"));
  EXPECT_THAT(error_of(R"({"input": "x", "previous_response_id": "resp_1"})"), HasSubstr("answers are not kept"));
  EXPECT_THAT(error_of(R"({"input": "x", "tools": [{"type": "web_search"}]})"), StartsWith("\"tools\"[0]"));
  EXPECT_THAT(error_of(R"({"input": "x", "tools": [{"type": "function", "function": {"name": "f"}}]})"),
              StartsWith("\"tools\"[0]: \"name\""));
  EXPECT_THAT(error_of(R"({"input": [{"type": "reasoning", "summary": []}]})"), HasSubstr("nothing to answer"));
  EXPECT_THAT(error_of(R"({"input": "x", "tool_choice": {"type": "file_search"}})"), StartsWith("\"tool_choice\""));
  EXPECT_THAT(error_of(R"({"input": "x", "text": {"format": {"type": "grammar"}}})"), StartsWith("\"text\""));
  EXPECT_THAT(error_of(R"({"input": "x", "text": {"format": {"type": "json_schema", "schema": {"type": "odd"}}}})"),
              StartsWith("\"text.format\""));
  EXPECT_THAT(error_of(R"({"input": "x", "wrong": 1})"), HasSubstr("unknown key"));
  EXPECT_THAT(error_of(R"({"input": "x", "metadata": {"a": ")" + std::string(1 << 20, 'x') + "\"}}"),
              StartsWith("\"metadata\": what an answer repeats"));
}

// What is passed on is looked through for each key.
TEST(ResponseCall, MayNotHaveManyKeys) {
  Json body{{"input", "a"}};
  for (int i = 0; i < 300; ++i) body["k" + std::to_string(i)] = 0;
  EXPECT_THAT(error_of(body.dump()), HasSubstr("301 keys"));
}

TEST(ResponseCall, WhatIsRepeatedIsBoundedAndTheLargestPartIsNamed) {
  const std::string large(600'000, 'a');
  EXPECT_THAT(error_of(Json{{"input", "a"}, {"instructions", large + large}, {"metadata", {{"a", "b"}}}}.dump()),
              StartsWith("\"instructions\": what an answer repeats"));
  EXPECT_THAT(error_of(Json{{"input", "a"}, {"instructions", large}, {"metadata", {{"a", large + "a"}}}}.dump()),
              StartsWith("\"metadata\": what an answer repeats"));
}

TEST(ResponseCall, WhatAsksForNothingIsTaken) {
  EXPECT_TRUE(read_api_call(ApiEndpoint::kResponse, R"({"input": "x", "previous_response_id": null, "n": 1,
    "background": false, "truncation": "disabled", "conversation": null, "reasoning": {"effort": "low"},
    "max_tool_calls": 3, "user": "u", "service_tier": "auto", "safety_identifier": "s", "prompt_cache_key": "k",
    "include": [], "tools": [], "context_management": []})",
                            {})
                  .ok());
}

}  // namespace
}  // namespace bass
