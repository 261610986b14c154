#include "server/response_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "server/api_answer.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;

const ApiHead kResponseHead{"resp_ab", 5, "m"};

AnswerPiece said(const std::string& text) { return {.reasoning = {}, .answer = {text, {}}}; }
AnswerPiece thought(const std::string& text) { return {.reasoning = text, .answer = {}}; }
AnswerPiece called(const std::string& name) {
  return {.reasoning = {}, .answer = {{}, {{.name = name, .arguments = "{}"}}}};
}

/// The events in a stream's text.
std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> events;
  std::istringstream lines(stream);
  for (std::string line, name; std::getline(lines, line);) {
    if (line.starts_with("event: ")) name = line.substr(7);
    if (!line.starts_with("data: ")) continue;
    events.push_back(Json::parse(line.substr(6)));
    EXPECT_EQ(events.back()["type"], name);
  }
  return events;
}

std::vector<std::string> types_of(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events) types.push_back(event["type"].get<std::string>().substr(9));
  return types;
}

Json usage() { return {{"total_tokens", 3}}; }

TEST(ResponseStream, TellsOfATextFromItsBeginningToItsEnd) {
  ResponseStream stream(ResponseObject(kResponseHead, nullptr));
  std::string text = stream.begin();
  for (const char* const part : {"He", "llo"}) text += stream.take(said(part), Json::array());
  text += stream.finish(FinishReason::kStop);
  text += stream.end(usage());
  const std::vector<Json> events = events_of(text);
  EXPECT_THAT(types_of(events), ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                                            "output_text.delta", "output_text.delta", "output_text.done",
                                            "content_part.done", "output_item.done", "completed"));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[2]["item"]["status"], "in_progress");
  EXPECT_EQ(events[4]["item_id"], events[2]["item"]["id"]);
  EXPECT_EQ(events[4]["delta"], "He");
  EXPECT_EQ(events[6]["text"], "Hello");
  EXPECT_EQ(events[8]["item"]["content"][0]["text"], "Hello");
  const Json response = events[9]["response"];
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"], Json::array({events[8]["item"]}));
  EXPECT_EQ(response["usage"], usage());
}

TEST(ResponseStream, ThoughtsTextsAndCallsAreItemsEach) {
  ResponseStream stream(ResponseObject(kResponseHead, nullptr));
  std::string text = stream.take(thought("hm"), Json::array());
  for (const AnswerPiece& piece : {said("I look."), called("f"), called("g"), said("\nDone.")})
    text += stream.take(piece, Json::array());
  text += stream.finish(FinishReason::kStop);
  text += stream.end(usage());
  const Json output = events_of(text).back()["response"]["output"];
  EXPECT_THAT(types_of(events_of(text)).front(), "created");
  ASSERT_EQ(output.size(), 5u);
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"], Json::parse(R"([{"type": "reasoning_text", "text": "hm"}])"));
  EXPECT_EQ(output[1]["content"][0]["text"], "I look.");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[3]["name"], "g");
  EXPECT_NE(output[2]["call_id"], output[3]["call_id"]);
  EXPECT_EQ(output[4]["content"][0]["text"], "Done.");
  std::set<std::string> ids;
  for (size_t i = 0; i < output.size(); ++i) ids.insert(output[i]["id"].get<std::string>());
  EXPECT_EQ(ids.size(), output.size());
  for (const Json& event : events_of(text)) {
    if (event["type"] == "response.output_item.done") {
      EXPECT_EQ(event["item"], output[event["output_index"].get<size_t>()]);
    }
  }
}

TEST(ResponseStream, AnAnswerThatWasCutIsIncomplete) {
  ResponseStream stream(ResponseObject(kResponseHead, nullptr));
  std::string text = stream.take(said("He"), Json::array());
  text += stream.finish(FinishReason::kLength);
  text += stream.end(usage());
  const Json last = events_of(text).back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
}

TEST(ResponseStream, AFailureIsToldWithWhatThereWas) {
  ResponseStream stream(ResponseObject(kResponseHead, nullptr));
  std::string text = stream.take(said("He"), Json::array());
  text += stream.fail("no memory");
  const Json last = events_of(text).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["error"]["message"], "no memory");
  ASSERT_EQ(last["response"]["output"].size(), 1u);
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "He");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
  EXPECT_EQ(types_of(events_of(text)).at(events_of(text).size() - 2), "output_item.done");
}

TEST(ResponseItems, ACallThatWasCutIsIncomplete) {
  ResponseItems items("resp_ab");
  ResponseItems::Events events;
  items.take({.reasoning = {}, .answer = {{}, {{.name = "f", .arguments = "{\"ci", .is_cut = true}}}}, Json::array(),
             &events);
  items.finish(/*is_cut=*/true, &events);
  ASSERT_EQ(items.output().size(), 1u);
  EXPECT_EQ(items.output()[0]["status"], "incomplete");
}

TEST(ResponseItems, AnAnswerOfNothingIsAnEmptyText) {
  for (const bool is_cut : {false, true}) {
    ResponseItems items("resp_ab");
    ResponseItems::Events events;
    items.finish(is_cut, &events);
    ASSERT_EQ(items.output().size(), 1u);
    EXPECT_EQ(items.output()[0]["content"][0]["text"], "");
  }
}

TEST(ResponseItems, ThoughtsThatWereCutHaveNoTextBehindThem) {
  for (const bool is_cut : {false, true}) {
    ResponseItems items("resp_ab");
    ResponseItems::Events events;
    items.take(thought("hm"), Json::array(), &events);
    items.finish(is_cut, &events);
    EXPECT_EQ(items.output().size(), is_cut ? 1u : 2u);
  }
}

TEST(ResponseItems, ATextTakesTheLogprobsThatHaveComeBeforeIt) {
  ResponseItems items("resp_ab");
  ResponseItems::Events events;
  items.take(said("a"), Json::array({1}), &events);
  items.take({}, Json::array({2}), &events);
  items.take(said("b"), Json::array({3}), &events);
  items.take({}, Json::array({4}), &events);
  EXPECT_EQ(events.back()["logprobs"], Json::array({2, 3}));
  items.finish(/*is_cut=*/false, &events);
  EXPECT_EQ(items.output()[0]["content"][0]["logprobs"], Json::array({1, 2, 3, 4}));
}

const TokenTextOf kThinkingTexts = [](TokenId id, bool /*at_start*/) -> TokenText {
  if (id == 0) return {"<think>"};
  if (id == 1) return {"</think>"};
  return {std::string(1, static_cast<char>(id))};
};

Event tokens(const std::string& text, std::vector<TokenInfo> infos) {
  Event event;
  event.kind = Event::Kind::kTokens;
  event.text = text;
  event.tokens = std::move(infos);
  return event;
}

Event finished() {
  Event event;
  event.kind = Event::Kind::kFinished;
  event.finish_reason = FinishReason::kStop;
  return event;
}

TEST(Response, IsTheSameAsAWholeAndAsAStream) {
  ApiShape shape{.endpoint = ApiEndpoint::kResponse, .has_logprobs = true, .parts_reasoning = true};
  shape.repeated = std::make_shared<const Json>(Json{{"metadata", {{"a", "b"}}}});
  WholeAnswer whole(shape, kResponseHead, kThinkingTexts);
  StreamedAnswer streamed(shape, kResponseHead, kThinkingTexts);
  Event prompt;
  prompt.kind = Event::Kind::kPrompt;
  prompt.n_prompt_tokens = 4;
  Event done;
  done.n_prompt_tokens = 4;
  std::string text;
  for (const Event& event : {prompt, tokens("<think>hm</think>", {{0, -1}, {'h', -1}, {'m', -1}, {1, -1}}),
                             tokens("a", {{'a', -2}}), tokens("b", {{'b', -3}}), finished(), done}) {
    whole.take(0, event);
    text += streamed.take(0, event).value();
  }
  text += streamed.end();
  const Json object = Json::parse(whole.finish().value());
  EXPECT_EQ(events_of(text).back()["response"], object);
  EXPECT_EQ(object["metadata"]["a"], "b");
  EXPECT_EQ(object["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(object["output"][1]["content"][0]["text"], "ab");
  EXPECT_EQ(object["output"][1]["content"][0]["logprobs"].size(), 6u);
  EXPECT_EQ(object["usage"], Json::parse(R"({"input_tokens": 4, "input_tokens_details": {"cached_tokens": 0,
    "cache_write_tokens": 0},
    "output_tokens": 6, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 10})"));
}

// However many tokens come at once.
TEST(Response, HasItsTextsAndCallsInTheirOrder) {
  ApiShape shape{.endpoint = ApiEndpoint::kResponse};
  shape.tools = std::make_shared<const CallableTools>(CallableTools{{"f", "g"}});
  const std::string answer = R"(I look.<tool_call>{"name": "f", "arguments": {}}</tool_call>
<tool_call>{"name": "g", "arguments": {"a": 1}}</tool_call>
Done.)";
  WholeAnswer whole(shape, kResponseHead, kThinkingTexts);
  for (const Event& event : {tokens(answer, {}), finished(), Event()}) whole.take(0, event);
  const Json object = Json::parse(whole.finish().value());
  ASSERT_EQ(object["output"].size(), 4u);
  EXPECT_EQ(object["output"][0]["content"][0]["text"], "I look.");
  EXPECT_EQ(object["output"][1]["name"], "f");
  EXPECT_EQ(object["output"][2]["name"], "g");
  EXPECT_EQ(object["output"][3]["content"][0]["text"], "Done.");
  for (const size_t n : {1, 2, 3, 7, 20, 50, 200}) {
    StreamedAnswer streamed(shape, kResponseHead, kThinkingTexts);
    std::string text;
    for (size_t at = 0; at < answer.size(); at += n) text += streamed.take(0, tokens(answer.substr(at, n), {})).value();
    for (const Event& event : {finished(), Event()}) text += streamed.take(0, event).value();
    text += streamed.end();
    EXPECT_EQ(events_of(text).back()["response"]["output"], object["output"]) << n;
  }
}

}  // namespace
}  // namespace bass
