#include "server/tool_calls.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "support/growth.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_schema.h"

namespace bass {
namespace {

const auto kTools = std::make_shared<const CallableTools>(CallableTools{{"add", "now"}});

/// The text, then calls as [name arguments]: what comes of an answer that comes in pieces of n bytes.
std::string read(const std::string& answer, size_t n) {
  ToolCallReader reader(kTools);
  std::string text, calls;
  const auto note = [&](const ToolCallReader::Piece& piece) {
    text += piece.text;
    for (const ToolCall& call : piece.calls) calls += fmt::format("[{} {}]", call.name, call.arguments);
  };
  for (size_t at = 0; at < answer.size(); at += n) note(reader.take(answer.substr(at, n)));
  ToolCallReader::Piece rest;
  reader.finish(&rest);
  note(rest);
  return text + calls;
}

void expect(const std::string& answer, const std::string& expected) {
  for (const size_t n : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{10}, answer.size() + 1})
    EXPECT_EQ(read(answer, n), expected) << answer << ", " << n << " bytes at a time";
}

constexpr const char* kAdd = R"(<tool_call>
{"name": "add", "arguments": {"a": 2}}
</tool_call>)";

TEST(ToolCallReader, TellsCallsFromText) {
  expect(kAdd, R"([add {"a": 2}])");
  expect(std::string("Let me see. \n") + kAdd, R"(Let me see.[add {"a": 2}])");
  expect(std::string(kAdd) + "\n" + kAdd + "\n\n", R"([add {"a": 2}][add {"a": 2}])");
  expect(std::string(kAdd) + "\nI wait. ", R"(I wait. [add {"a": 2}])");
  expect(std::string("Well") + kAdd + " \nI wait.",
         "Well\nI wait."
         R"([add {"a": 2}])");
  expect(R"(<tool_call>[{"name":"now","arguments":{}},{"name":"add","parameters":{"b":1}}]</tool_call>)",
         R"([now {}][add {"b":1}])");
  expect(R"(<tool_call>{"name":"add","arguments":"{\"a\":1}"}</tool_call>)", R"([add {"a":1}])");
}

TEST(ToolCallReader, TheLastEndMayBeMissing) {
  expect(R"(So: <tool_call>{"name": "now", "arguments": {}})", "So:[now {}]");
  expect(R"(So: <tool_call>{"name": "now", "argu)", R"(So: <tool_call>{"name": "now", "argu)");
}

TEST(ToolCallReader, MarksNeedNotBePaired) {
  expect("I will use <tool_call> for that.\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
         "I will use <tool_call> for that.[now {}]");
  expect("<tool_call>{\"name\":\"now\",\"arguments\":{}}\n<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>",
         "[now {}][add {}]");
  expect("<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":\"}\\\"</tool_call>{\"}}</tool_call>",
         "[add {\"a\":\"}\\\"</tool_call>{\"}]");
  expect("<tool_call>{\"name\":\"now\",\"arguments\":{}}\n</tool_", "[now {}]");
  expect("<tool_call>{\"name\":\"now\",\"arguments\":{}} <", "<[now {}]");
  expect("<tool_call>[<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>", "<tool_call>[[now {}]");
}

TEST(ToolCallReader, ArgumentsAreAsTheyWereWritten) {
  expect(R"({"arguments": {"id": 123456789012345678901234, "x": 1e5 ,"y":[{},"a\u0041\"]"]}, "name": "add"})",
         R"([add {"id": 123456789012345678901234, "x": 1e5 ,"y":[{},"a\u0041\"]"]}])");
}

TEST(ToolCallReader, OneCallIsTheFirst) {
  ToolCallReader reader(std::make_shared<const CallableTools>(CallableTools{{"add", "now"}, /*only_one=*/true}));
  ToolCallReader::Piece piece = reader.take(std::string(kAdd) + kAdd + "Then.");
  EXPECT_EQ(piece.calls.size(), 1);
  reader.finish(&piece);
  EXPECT_EQ(piece.text, "Then.");
}

// Whatever it is, and however it comes, it is the same.
TEST(ToolCallReader, PiecesDoNotMatter) {
  constexpr std::array kParts{"<tool_call>",
                              "</tool_call>",
                              "{\"name\":\"now\",\"arguments\":{}}",
                              "{",
                              "}",
                              "[",
                              "]",
                              ",",
                              "\"",
                              "\\",
                              " ",
                              "\n",
                              "a",
                              "<",
                              "/",
                              "{\"name\": \"add\", \"parameters\": {\"a\": [1]}}",
                              "<tool_",
                              "call>",
                              "\"arguments\":",
                              "5"};
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same texts each run
  int n_with_calls = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const size_t n_parts = 1 + random() % 12;
    for (size_t i = 0; i < n_parts; ++i) text += kParts[random() % kParts.size()];
    const std::string whole = read(text, text.size());
    ASSERT_EQ(read(text, 1), whole) << text;
    ASSERT_EQ(read(text, 1 + random() % 9), whole) << text;
    n_with_calls += whole.find("[add {") != whole.npos || whole.find("[now {") != whole.npos ? 1 : 0;
  }
  EXPECT_GT(n_with_calls, 500);
}

// A pattern can have a model write them.
TEST(ToolCallReader, ManyMarksTakeNoLongTime) {
  const auto read_marks = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "<tool_call>[ ";
    ToolCallReader reader(kTools);
    std::string read;
    for (size_t at = 0; at < text.size(); at += 4) read += reader.take(text.substr(at, 4)).text;
    ToolCallReader::Piece rest;
    reader.finish(&rest);
    EXPECT_EQ(read + rest.text, text);
  };
  EXPECT_LT(testing::growth(3000, read_marks), testing::kMostGrowth);
}

TEST(ToolCallReader, AWholeAnswerMayBeACall) {
  expect(R"( {"name": "add", "parameters": {"a": 2}} )", R"([add {"a": 2}])");
  expect(R"([{"name": "add", "arguments": {"a": 2}}, {"name": "now", "arguments": {}}])", R"([add {"a": 2}][now {}])");
}

TEST(ToolCallReader, AnythingElseIsText) {
  for (const char* text : {"",
                           " ",
                           "A text.\n",
                           "{",
                           "{\"a\": 1}",
                           "[1, 2]",
                           "a < b",
                           "<tool_",
                           "<tool_call>",
                           "<tool_call>{}</tool_call>",
                           "x <tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call> y",
                           "{\"name\": \"add\"}",
                           "{\"name\": \"add\", \"arguments\": 5}",
                           "<tool_call></tool_call>",
                           "<tool_call><tool_call>",
                           "[1] One",
                           "[ ",
                           "[{",
                           "[{}]",
                           "{} {}",
                           "\n\n<tool_call>\n\n"}) {
    expect(text, text);
  }
}

TEST(ToolCallReader, TextComesAsSoonAsItIsCertain) {
  ToolCallReader reader(kTools);
  EXPECT_EQ(reader.take("One ").text, "One");
  EXPECT_EQ(reader.take("two <too").text, " two");
  EXPECT_EQ(reader.take("k").text, " <took");
  EXPECT_EQ(reader.take(" <tool_call>{").text, "");
  EXPECT_EQ(ToolCallReader(kTools).take("[1] One").text, "[1] One");
}

std::string schema_of(const char* tools) { return tool_call_schema(read_tools(tools).value()).dump(); }

TEST(ToolCallSchema, IsOfOneOrOfSeveral) {
  EXPECT_EQ(schema_of(R"([{"type":"function","function":{"name":"now"}}])"),
            R"({"type":"object","properties":{"name":{"const":"now"},)"
            R"("arguments":{"type":"object","properties":{},"additionalProperties":false}},)"
            R"("required":["name","arguments"],"additionalProperties":false})");
  const std::string two = schema_of(R"([{"function":{"name":"f"}},{"function":{"name":"g","parameters":{}}}])");
  EXPECT_THAT(two, ::testing::StartsWith(R"({"anyOf":[{)"));
  EXPECT_TRUE(json_schema_grammar(two).ok());
}

TEST(ToolCallSchema, ArgumentsAreAnObject) {
  const std::string loose = schema_of(R"([{"function":{"name":"f","parameters":{"title":"F","nullable":true}}}])");
  EXPECT_THAT(loose, ::testing::HasSubstr(R"("arguments":{"title":"F","type":"object"})"));
  for (const char* root :
       {R"("anyOf":[{"type":"object"},{"type":"null"}])", R"("$ref":"#/$defs/a","$defs":{"a":{"type":"object"}})",
        R"("type":["object","null"])", R"("allOf":[{"properties":{"a":{}}}])"}) {
    const std::string schema =
        schema_of(fmt::format(R"([{{"function":{{"name":"f","parameters":{{{}}}}}}}])", root).c_str());
    const Result<Grammar> grammar = json_schema_grammar(schema);
    ASSERT_TRUE(grammar.ok()) << root << ": " << grammar.status().message();
    EXPECT_FALSE(matches(grammar.value(), R"({"name":"f","arguments":null})")) << root;
    EXPECT_TRUE(matches(grammar.value(), R"({"name":"f","arguments":{}})")) << root;
  }
  EXPECT_FALSE(
      json_schema_grammar(schema_of(R"([{"function":{"name":"f","parameters":{"anyOf":[{"type":"null"}]}}}])")).ok());
  const std::string with_values = schema_of(R"([{"function":{"name":"f","parameters":{"properties":
      {"a":{"const":{"$ref":"#/x"}}}}}}])");
  EXPECT_THAT(with_values, ::testing::HasSubstr(R"({"const":{"$ref":"#/x"}})"));
}

TEST(ToolCallSchema, PropertiesMayBeNamedAsKeywords) {
  const std::string schema = schema_of(R"([{"function":{"name":"f","parameters":{"type":"object","properties":{
      "default":{"$ref":"#/$defs/enum"}},"$defs":{"enum":{"type":"array","items":{"$ref":"#/$defs/S"}},"S":{"type":"string"}}}}}])");
  EXPECT_TRUE(json_schema_grammar(schema).ok()) << json_schema_grammar(schema).status().message();
}

// As pydantic writes them.
TEST(ToolCallSchema, ReferencesStillReachWhatTheyMean) {
  const std::string parameters =
      R"({"type":"object","properties":{"p":{"$ref":"#/$defs/Point"},"$ref":{"type":"string"}},"required":["p"],)"
      R"("$defs":{"Point":{"type":"object","properties":{"x":{"type":"integer"},"next":{"$ref":"#/$defs/Point"}}}}})";
  const std::string one = R"({"function":{"name":"f","parameters":)" + parameters + "}}";
  const std::string another = R"({"function":{"name":"g","parameters":)" + parameters + "}}";
  for (const std::string& tools : {"[" + one + "]", "[" + one + "," + another + "]"}) {
    const std::string schema = schema_of(tools.c_str());
    EXPECT_TRUE(json_schema_grammar(schema).ok()) << json_schema_grammar(schema).status().message();
  }
  EXPECT_FALSE(json_schema_grammar(R"({"properties":{"a":)" + parameters + "}}").ok())
      << "as they were they reach nothing";
}

}  // namespace
}  // namespace bass
