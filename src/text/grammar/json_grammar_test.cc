#include "text/grammar/json_grammar.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/grammar/json_schema.h"
#include "text/grammar/json_schema_testing.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonGrammarTest, AnyValueIsWhatIsWritten) {
  const Grammar grammar = json_schema_grammar("true").value();
  const std::vector<std::string> values{
      "null",
      "true",
      "false",
      "0",
      "-1",
      "1.5",
      "-0.25e-3",
      "1E+5",
      "\"\"",
      "[]",
      "{}",
      R"([1,[2,[3,{}]],"x",null])",
      R"({"a":{"b":[true,{"c":""}]},"\u00e4":"\ud83d\ude00 \" \\ \/ \b\f\n\r\t \u0001"})"};
  for (const std::string& value : values) {
    const Json json = Json::parse(value);
    for (const int indent : {-1, 0, 1, 2, 4}) {
      const std::string dumped = json.dump(indent);
      EXPECT_TRUE(matches(grammar, dumped)) << dumped;
      EXPECT_TRUE(matches(grammar, json.dump(indent, '\t', true))) << dumped;
      for (const char* wrong : {"x", ",", "]", " ", "\n"}) {
        EXPECT_FALSE(matches(grammar, dumped + wrong)) << dumped << wrong;
      }
      EXPECT_FALSE(matches(grammar, " " + dumped));
      if (json.is_number()) continue;
      EXPECT_FALSE(matches(grammar, std::string_view(dumped).substr(0, dumped.size() - 1))) << dumped;
    }
    EXPECT_TRUE(matches(grammar, value)) << value;
  }
}

TEST(JsonGrammarTest, AnyValueIsJson) {
  const std::string deep = std::string(60, '[') + std::string(60, ']');
  expect({{"{}",
           {deep, R"({"a": 1, "b": [1, 2]})"},
           {"[" + deep, "", "nul", "[1,]", "[,1]", "{1:2}", R"({"a"})", "{\"a\":}"}},
          {R"({"title":"x","description":"y"})", {"1", "[]"}, {"x"}},
          {"true", {"1"}, {"'a'", "+1", "01", ".5", "1.", "1e", "--1", "NaN", "[1 2]", "{\"a\":1 \"b\":2}"}}});
}

TEST(JsonGrammarTest, WhiteSpaceIsBounded) {
  const std::string indent(20, ' ');
  expect({{"true",
           {"[ 1, 2 ]", "[\n1,\n" + indent + "2\n\t]", "{ \"a\": 1 }", "{ }", "[\n]", "{\n}"},
           {"[  1]", "[\n\n1]", "[\r\n1]", "[\n" + indent + " 1]", "[1 ,2]", "{\"a\" :1}", "[\t1]", " 1", "1 ", "{  }",
            "[ \n]"}}});
}

TEST(JsonGrammarTest, NumbersAreBounded) {
  const std::string n16(16, '1'), n17(17, '1');
  expect({{R"({"type":"number"})",
           {"0", "-0", n16, "0." + n16, "-" + n16 + "." + n16 + "e-12", "1E5"},
           {n17, "0." + n17, "1e123", "01", "-", "1.e5", "\"1\""}},
          {R"({"type":"integer"})", {"0", "-12", n16}, {"1.0", "1e3", n17, "01", "1.5", "null"}}});
}

TEST(JsonGrammarTest, StringsAreUnicode) {
  expect({{R"({"type":"string"})",
           {R"("")", "\"\xC3\xA4\xF0\x9F\x98\x80\x7f\"", R"("\"\\\/\b\f\n\r\t")", R"("\u0000\uD7FF\uE000\uABCD")",
            R"("\uD83D\uDe00")"},
           {"\"\n\"", "\"\x1f\"", "\"\"\"", R"("\")", R"("\v")", R"("\uD83D")", R"("\uD83Dx")", R"("\uDE00")",
            R"("\uDE00\uD83D")", R"("\u00g0")", R"("\u123")", "\"\xC3\"", "\"\xED\xA0\x80\"", "\"a", "a\"", "1"}}});
}

}  // namespace
}  // namespace bass
