#include "server/api_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/sent_event.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr TokenId kHalf = 0, kBegin = 1, kWord = 2;

// kBegin is special; kWord has a space that is not shown where a text begins.
const TokenTextOf kTexts = [](TokenId id, bool at_start) -> TokenText {
  if (id == kHalf) return {"\xC3"};
  if (id == kBegin) return {"<s>", /*is_special=*/true, at_start};
  if (id == kWord) return {at_start ? "w" : " w"};
  return {std::string(1, static_cast<char>(id))};
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
  WholeAnswer answer(shape_of(ApiEndpoint::kChat, 2, 2), kHead, kTexts);
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
  WholeAnswer answer(shape_of(ApiEndpoint::kCompletion, 3, 2, 2), kHead, kTexts);
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
    WholeAnswer answer(shape_of(ApiEndpoint::kChat, 2, 2), kHead, kTexts);
    answer.take(0, finished(0));
    answer.take(0, finished(1, reason));
    answer.take(0, done(1));
    EXPECT_FALSE(answer.finish().ok());
  }
  WholeAnswer answer(shape_of(ApiEndpoint::kChat, 1, 1), kHead, kTexts);
  Event event = done(1);
  event.error = resource_exhausted("no memory");
  answer.take(0, event);
  EXPECT_EQ(answer.finish().status().message(), "no memory");
}

TEST(WholeAnswer, TokensOfLogprobsMayBePartsOfCharacters) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.has_logprobs = true;
  WholeAnswer answer(shape, kHead, kTexts);
  answer.take(0, tokens(0, "", {{kHalf, -0.5F}}));
  answer.take(0, finished(0));
  answer.take(0, done(1));
  const Json token = finish(&answer)["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["bytes"], Json::array({0xC3}));
  EXPECT_EQ(token["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(token["logprob"], -0.5);
}

Event prompt_of_two() {
  Event event;
  event.kind = Event::Kind::kPrompt;
  event.n_prompt_tokens = 2;
  event.prompt_tokens = {'p', 'q'};
  event.prompt_logprobs = {-2};
  event.top_logprobs = {{'r', -0.25F}};
  return event;
}

Event tokens_with_top(std::vector<TokenInfo> infos, std::vector<TopLogprob> top) {
  Event event = tokens(0, "a", std::move(infos));
  event.top_logprobs = std::move(top);
  return event;
}

TEST(WholeAnswer, TellsWhatElseCouldHaveStoodInATokensPlace) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.has_logprobs = true;
  shape.n_top = 2;
  WholeAnswer answer(shape, kHead, kTexts);
  answer.take(0, tokens_with_top({{'a', -1}, {'b', -2}}, {{'c', -0.5F}, {'a', -1}, {'b', -2}, {}}));
  answer.take(0, finished(0));
  answer.take(0, done(1));
  const Json content = finish(&answer)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0], (Json{{"token", "c"}, {"logprob", -0.5}, {"bytes", {99}}}));
  EXPECT_EQ(content[1]["top_logprobs"].size(), 1u) << "there are no more";
}

TEST(WholeAnswer, EchoesThePrompt) {
  ApiShape shape = shape_of(ApiEndpoint::kCompletion, 1, 1);
  shape.has_logprobs = shape.has_echo = true;
  shape.n_top = 1;
  for (const char* said : {"pq", ""}) {  // as a text and as token ids
    shape.echoed = {said};
    WholeAnswer answer(shape, kHead, kTexts);
    answer.take(0, prompt_of_two());
    answer.take(0, tokens_with_top({{'a', -3}}, {{'c', -0.5F}}));
    answer.take(0, finished(0, FinishReason::kLength));
    answer.take(0, done(2));
    const Json json = finish(&answer);
    EXPECT_EQ(json["choices"][0]["text"], "pqa");
    EXPECT_EQ(json["choices"][0]["logprobs"],
              (Json{{"tokens", {"p", "q", "a"}},
                    {"token_logprobs", {nullptr, -2, -3}},
                    {"top_logprobs", {nullptr, {{"r", -0.25}, {"q", -2}}, {{"c", -0.5}, {"a", -3}}}},
                    {"text_offset", {0, 1, 2}}}));
    EXPECT_EQ(json["usage"]["prompt_tokens"], 2) << "counted once";
  }
}

// As SentencePiece has it: a token begins every text, and the first word's space is not shown.
TEST(WholeAnswer, OffsetsAreThoseOfTheTextThatIsEchoed) {
  ApiShape shape = shape_of(ApiEndpoint::kCompletion, 1, 1);
  shape.has_logprobs = shape.has_echo = true;
  shape.n_top = 1;
  Event prompt;
  prompt.kind = Event::Kind::kPrompt;
  prompt.prompt_tokens = {kBegin, kWord, kWord, kBegin, kHalf};
  prompt.prompt_logprobs = {-1, -2, -3, -4};
  prompt.top_logprobs = {{kWord, -1}, {kWord, -2}, {kHalf, -1}, {kHalf, -4}};
  struct Case {
    std::string said;
    std::string text;
    std::vector<int> offsets;
  };
  const std::string word = "w w<s>\xEF\xBF\xBD";
  for (const auto& [said, text, offsets] :
       {Case{word, word, {0, 0, 1, 3, 6, 7, 9, 9}}, Case{"", "<s>" + word, {0, 3, 4, 6, 9, 10, 12, 12}}}) {
    shape.echoed = {said};
    WholeAnswer answer(shape, kHead, kTexts);
    answer.take(0, prompt);
    answer.take(0, tokens_with_top({{kWord, -1}, {kBegin, -2}, {'a', -3}}, {{kWord, -1}, {'a', -1}, {'a', -3}}));
    answer.take(0, finished(0));
    answer.take(0, done(5));
    const Json choice = finish(&answer)["choices"][0];
    EXPECT_EQ(choice["text"], text + "a");
    EXPECT_EQ(choice["logprobs"]["text_offset"], Json(offsets));
    EXPECT_EQ(choice["logprobs"]["tokens"], (Json{"<s>", "w", " w", "<s>", "bytes:\\xc3", " w", "<s>", "a"}));
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][1], (Json{{"w", -1}}));
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][5], (Json{{" w", -1}}));
  }
}

// A prompt of special tokens alone is no text: the answer begins one.
TEST(WholeAnswer, TheFirstWordOfATextHasNoSpace) {
  for (const TokenId last : {kBegin, TokenId{'p'}}) {
    ApiShape shape = shape_of(ApiEndpoint::kCompletion, 1, 1);
    shape.has_logprobs = true;
    WholeAnswer answer(shape, kHead, kTexts);
    Event prompt;
    prompt.kind = Event::Kind::kPrompt;
    prompt.prompt_tokens = {kBegin, last};
    answer.take(0, prompt);
    answer.take(0, tokens(0, "w w", {{kBegin, -1}, {kWord, -1}, {kWord, -1}}));
    answer.take(0, finished(0));
    answer.take(0, done(2));
    const Json logprobs = finish(&answer)["choices"][0]["logprobs"];
    const bool is_start = last == kBegin;
    EXPECT_EQ(logprobs["tokens"], (Json{"<s>", is_start ? "w" : " w", " w"}));
    EXPECT_EQ(logprobs["text_offset"], (is_start ? Json{0, 0, 1} : Json{0, 0, 2}));
  }
}

// The decoder of a tokenizer.json may take the space of the very first token alone: one that stands in no text is not
// it.
TEST(WholeAnswer, ATokenThatIsNotEchoedBeginsNothing) {
  ApiShape shape = shape_of(ApiEndpoint::kCompletion, 1, 1);
  shape.has_logprobs = shape.has_echo = true;
  const TokenTextOf texts = [](TokenId id, bool at_start) {
    TokenText text = kTexts(id, at_start);
    text.at_start = false;
    return text;
  };
  struct Case {
    std::string said;
    std::vector<TokenId> tokens;
    std::vector<int> offsets;
  };
  for (const auto& [said, tokens, offsets] :
       {Case{"w w<s>p", {kBegin, kWord, kWord, kBegin, 'p'}, {0, 0, 1, 3, 6}}, Case{"<s>w", {kBegin, kWord}, {0, 3}}}) {
    shape.echoed = {said};
    WholeAnswer answer(shape, kHead, texts);
    Event prompt;
    prompt.kind = Event::Kind::kPrompt;
    prompt.prompt_tokens = tokens;
    prompt.prompt_logprobs.assign(tokens.size() - 1, -1);
    answer.take(0, prompt);
    answer.take(0, finished(0));
    answer.take(0, done(2));
    const Json choice = finish(&answer)["choices"][0];
    EXPECT_EQ(choice["logprobs"]["text_offset"], Json(offsets)) << said;
  }
}

Json object_of(const std::string& event) {
  EXPECT_THAT(event, StartsWith("data: "));
  return Json::parse(event.substr(6));
}

TEST(StreamedAnswer, SendsRoleTextsAndReason) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 2, 2);
  shape.has_usage = true;
  StreamedAnswer answer(shape, kHead, kTexts);
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
  StreamedAnswer answer(shape_of(ApiEndpoint::kCompletion, 3, 3, 2), kHead, kTexts);
  EXPECT_EQ(object_of(answer.take(1, tokens(2, "a", {{'a', -1}})).value())["choices"][0]["index"], 5);
  EXPECT_EQ(answer.end(), "data: [DONE]\n\n");
}

TEST(StreamedAnswer, CountsAsItGoesWhereThatIsWanted) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.has_running_usage = true;
  StreamedAnswer answer(shape, kHead, kTexts);
  EXPECT_EQ(answer.take(0, prompt_of_two()).value(), "");
  const Json first = object_of(answer.take(0, tokens(0, "a", {{'a', -1}})).value());
  EXPECT_EQ(first["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(first["usage"]["completion_tokens"], 1);
  EXPECT_EQ(object_of(answer.take(0, finished(0)).value())["usage"]["total_tokens"], 3);
}

TEST(StreamedAnswer, BeginsWithTheEchoedPrompt) {
  ApiShape shape = shape_of(ApiEndpoint::kCompletion, 2, 2);
  shape.has_echo = true;
  shape.echoed = {"pq"};
  StreamedAnswer answer(shape, kHead, kTexts);
  const std::string pieces = answer.take(0, prompt_of_two()).value();
  EXPECT_EQ(object_of(pieces.substr(0, pieces.find('\n')))["choices"][0]["text"], "pq");
  EXPECT_THAT(pieces, HasSubstr(R"("index":1,"text":"pq")"));
}

TEST(StreamedAnswer, EndsWithTheErrorOfASample) {
  StreamedAnswer answer(shape_of(ApiEndpoint::kChat, 1, 1), kHead, kTexts);
  Event event = finished(0, FinishReason::kError);
  event.error = internal_error("broken");
  EXPECT_EQ(answer.take(0, event).status().message(), "broken");
}

ApiShape with_tools(bool must_call_named = false) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.tools = std::make_shared<const CallableTools>(CallableTools{{"add"}});
  shape.must_call_named = must_call_named;
  return shape;
}

constexpr const char* kTwoCalls =
    "So: <tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>\n"
    "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";

// Some clients take these for ends of lines.
TEST(StreamedAnswer, LinesOfUnicodeDoNotEndAnEvent) {
  const std::string event = server_sent_event({{"text", "a\u0085b\u2028c\u2029d\ne\u00e9"}});
  EXPECT_EQ(event, "data: {\"text\":\"a\\u0085b\\u2028c\\u2029d\\ne\u00e9\"}\n\n");
  EXPECT_EQ(nlohmann::json::parse(event.substr(6))["text"], "a\u0085b\u2028c\u2029d\ne\u00e9");
}

ApiShape thinking_shape() {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.parts_reasoning = true;
  return shape;
}

TEST(WholeAnswer, TellsThoughtsFromTheAnswer) {
  const auto message_of = [](const ApiShape& shape, const Event& prompt) {
    WholeAnswer answer(shape, kHead, kTexts);
    answer.take(0, prompt);
    answer.take(0, tokens(0, "<think>\nHm.\n</think>\n\n", {{'a', -1}}));
    answer.take(0, tokens(0, "Yes.", {{'b', -1}}));
    answer.take(0, finished(0));
    answer.take(0, done(1));
    return finish(&answer)["choices"][0]["message"];
  };
  Event prompt;
  prompt.kind = Event::Kind::kPrompt;
  prompt.prompt_tokens = {kBegin, 'x'};
  EXPECT_EQ(message_of(thinking_shape(), prompt)["reasoning_content"], "Hm.");
  EXPECT_EQ(message_of(thinking_shape(), prompt)["content"], "Yes.");
  const Json plain = message_of(shape_of(ApiEndpoint::kChat, 1, 1), prompt);
  EXPECT_EQ(plain["content"], "<think>\nHm.\n</think>\n\nYes.");
  EXPECT_FALSE(plain.contains("reasoning_content"));
  for (const char c : std::string("<think>\n")) prompt.prompt_tokens.push_back(c);
  EXPECT_EQ(message_of(thinking_shape(), prompt)["reasoning_content"], "<think>\nHm.") << "the template has begun them";
}

// Where a last message is gone on with, what it says decides, and not how it ends.
TEST(WholeAnswer, AMarkAtTheEndOfATextThatIsGoneOnWithBeginsNoThoughts) {
  ApiShape shape = thinking_shape();
  shape.continues_message = true;
  Event prompt;
  prompt.kind = Event::Kind::kPrompt;
  for (const char c : std::string("The tag is <think>")) prompt.prompt_tokens.push_back(c);
  for (const bool has_begun : {false, true}) {
    shape.continues_thoughts = has_begun;
    WholeAnswer answer(shape, kHead, kTexts);
    for (const Event& event : {prompt, tokens(0, "Yes.", {{'b', -1}}), finished(0), done(1)}) answer.take(0, event);
    const Json message = finish(&answer)["choices"][0]["message"];
    EXPECT_EQ(message["content"], has_begun ? "" : "Yes.");
    EXPECT_EQ(message.value("reasoning_content", ""), has_begun ? "Yes." : "");
  }
}

TEST(StreamedAnswer, SendsThoughtsBeforeTheAnswer) {
  StreamedAnswer answer(thinking_shape(), kHead, kTexts);
  std::string stream;
  for (const char* const text : {"<thi", "nk>\nHm", ".\n</thi", "nk>\n", "Yes."}) {
    stream += answer.take(0, tokens(0, text, {{'a', -1}})).value();
  }
  stream += answer.take(0, finished(0)).value();
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"role":"assistant","content":"","reasoning_content":"Hm"})"));
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"reasoning_content":"."})"));
  EXPECT_THAT(stream, HasSubstr(R"("delta":{"content":"Yes."})"));
  EXPECT_THAT(stream, ::testing::Not(HasSubstr("think")));
}

TEST(StreamedAnswer, ThoughtsMayComeBeforeACall) {
  ApiShape shape = thinking_shape();
  shape.tools = std::make_shared<const CallableTools>(CallableTools{.names = {"f"}});
  StreamedAnswer answer(shape, kHead, kTexts);
  std::string stream = answer.take(0, tokens(0, R"(<think>f?</think>{"name": "f", "arguments": {}})", {})).value();
  stream += answer.take(0, finished(0)).value();
  EXPECT_THAT(stream, HasSubstr(R"("reasoning_content":"f?")"));
  EXPECT_THAT(stream, HasSubstr(R"("function":{"name":"f","arguments":"{}"})"));
}

TEST(WholeAnswer, HasTheToolsThatAreCalled) {
  WholeAnswer answer(with_tools(), kHead, kTexts);
  answer.take(0, tokens(0, kTwoCalls, {}));
  answer.take(0, finished(0));
  const Json choice = finish(&answer)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "So:");
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2);
  EXPECT_EQ(calls[0]["function"], (Json{{"name", "add"}, {"arguments", "{\"a\": 1}"}}));
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
}

TEST(WholeAnswer, ACallThatWasNamedEndsAsTextDoes) {
  WholeAnswer answer(with_tools(true), kHead, kTexts);
  answer.take(0, tokens(0, R"({"name":"add","arguments":{}})", {}));
  answer.take(0, finished(0));
  const Json choice = finish(&answer)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1);
}

TEST(WholeAnswer, ACallThatWasCutIsText) {
  WholeAnswer answer(with_tools(), kHead, kTexts);
  answer.take(0, tokens(0, R"({"name":"add","argum)", {}));
  answer.take(0, finished(0, FinishReason::kLength));
  const Json choice = finish(&answer)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["content"], R"({"name":"add","argum)");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
}

// Clients that wait for a call would take its beginning for an answer.
TEST(WholeAnswer, ACallThatMustComeIsOneWhereItWasCut) {
  ApiShape shape = shape_of(ApiEndpoint::kChat, 1, 1);
  shape.tools = std::make_shared<const CallableTools>(CallableTools{.names = {"add", "a\"b"}, .must_call = true});
  const auto message_of = [&](const std::string& text) {
    WholeAnswer answer(shape, kHead, kTexts);
    answer.take(0, tokens(0, text, {}));
    answer.take(0, finished(0, FinishReason::kLength));
    const Json choice = finish(&answer)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "length");
    return choice["message"];
  };
  const auto function_of = [&](const std::string& text) { return message_of(text)["tool_calls"][0]["function"]; };
  EXPECT_EQ(function_of(R"({ "name": "add", "arguments": {"a": "x)"),
            (Json{{"name", "add"}, {"arguments", R"({"a": "x)"}}));
  EXPECT_EQ(function_of(R"({"name":"add","argum)"), (Json{{"name", "add"}, {"arguments", ""}}));
  EXPECT_EQ(function_of(R"({"name":"a\"b","arguments": )"), (Json{{"name", "a\"b"}, {"arguments", ""}}));
  EXPECT_EQ(function_of(R"({"name":"add","arguments":{}})"), (Json{{"name", "add"}, {"arguments", "{}"}})) << "whole";
  for (const char* text : {"{", R"({"name": "ad)", R"({"name")"}) {
    EXPECT_EQ(message_of(text)["content"], text);
    EXPECT_FALSE(message_of(text).contains("tool_calls"));
  }
}

TEST(StreamedAnswer, CallsComeWhole) {
  StreamedAnswer answer(with_tools(), kHead, kTexts);
  std::string stream;
  for (const char c : std::string(kTwoCalls)) stream += answer.take(0, tokens(0, std::string(1, c), {})).value();
  stream += answer.take(0, finished(0)).value();
  std::string content;
  std::vector<Json> calls;
  Json reason;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const Json choice = Json::parse(stream.substr(at + 6, end - at - 6))["choices"][0];
    content += choice["delta"].value("content", "");
    for (const Json& call : choice["delta"].value("tool_calls", Json::array())) calls.push_back(call);
    reason = choice["finish_reason"];
    EXPECT_TRUE(reason.is_null() || choice["delta"].empty()) << choice;
    at = end + 2;
  }
  EXPECT_EQ(content, "So:");
  EXPECT_EQ(reason, "tool_calls");
  ASSERT_EQ(calls.size(), 2);
  EXPECT_EQ(calls[0]["index"], 0);
  EXPECT_EQ(calls[1]["index"], 1);
  EXPECT_EQ(calls[0]["function"]["arguments"], "{\"a\": 1}");
}

// An answer that is one call as a whole is known to be so at its end.
TEST(StreamedAnswer, TheReasonComesBehindACall) {
  StreamedAnswer answer(with_tools(), kHead, kTexts);
  std::string stream = answer.take(0, tokens(0, R"({"name": "add", "arguments": {}})", {})).value();
  stream += answer.take(0, finished(0)).value();
  const size_t last = stream.rfind("data: ");
  const Json end = Json::parse(stream.substr(last + 6))["choices"][0];
  EXPECT_EQ(end["delta"], Json::object());
  EXPECT_EQ(end["finish_reason"], "tool_calls");
  const size_t before = stream.rfind("data: ", last - 1);
  const Json call = Json::parse(stream.substr(before + 6, last - before - 6))["choices"][0];
  EXPECT_EQ(call["delta"]["tool_calls"].size(), 1);
  EXPECT_TRUE(call["finish_reason"].is_null());
}

}  // namespace
}  // namespace bass
