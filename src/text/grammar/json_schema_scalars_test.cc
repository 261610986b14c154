#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/grammar/json_schema_testing.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonSchemaScalarsTest, Types) {
  expect({
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "1", "\"true\""}},
      {R"({"type":"null"})", {"null"}, {"true", ""}},
      {R"({"type":["string","null"]})", {"\"a\"", "null"}, {"1", "[]"}},
      {R"({"type":["integer","number"]})", {"1", "1.5"}, {"\"1\""}},
      {R"({"type":"string","nullable":true})", {"\"a\"", "null"}, {"1"}},
      {R"({"type":"string","nullable":false})", {"\"a\""}, {"null"}},
      {R"({"type":"object"})", {"{}", R"({"a":1})"}, {"[]"}},
      {R"({"type":"array"})", {"[]", "[1,\"a\"]"}, {"{}"}},
      {R"({"type":"integer","minLength":3,"properties":{"a":true}})", {"1"}, {"\"abc\"", "{}"}},
      {R"({"minLength":1})", {"\"a\""}, {"\"\"", "1"}},
      {R"({"items":{"type":"integer"}})", {"[1]"}, {"1", "[\"a\"]"}},
      {R"({"required":["a"],"items":true})", {R"({"a":1})", "[]"}, {"{}", "1"}},
  });
  expect_refused({
      {R"({"type":"text"})", "\"type\" at # must be of object, array"},
      {R"({"type":7})", "\"type\" at # must be"},
      {R"({"type":[]})", "nothing matches"},
      {R"({"type":"string","nullable":1})", "\"nullable\" at # must be true or false"},
  });
}

TEST(JsonSchemaScalarsTest, EnumAndConst) {
  expect({
      {R"({"enum":["a","b\"\n",1,2.5,null,[1,{"x":2}]]})",
       {"\"a\"", R"("b\"\n")", "1", "2.5", "null", R"([1,{"x":2}])"},
       {"\"b\"", "2", "\"\"", "[1, {\"x\":2}]", "\"\\u0061\""}},
      {R"({"const":{"b":1,"a":"\u00e4"}})", {"{\"b\":1,\"a\":\"\xC3\xA4\"}"}, {"{}", R"({"a":"x","b":1})"}},
      {R"({"const":null})", {"null"}, {"0"}},
      {R"({"type":"string","enum":["a",1],"title":"x"})", {"\"a\""}, {"1"}},
      {R"({"type":"integer","enum":[1,1.5,2.0]})", {"1", "2.0"}, {"1.5"}},
      {R"({"enum":["a"],"nullable":true})", {"\"a\"", "null"}, {"\"b\""}},
  });
  expect_refused({
      {R"({"enum":[]})", "nothing matches"},
      {R"({"enum":[1],"type":"string"})", "nothing matches"},
      {R"({"enum":"a"})", "\"enum\" at # must be a list"},
      {R"({"enum":["a"],"minLength":1})", "\"minLength\" at # beside \"enum\""},
      {R"({"enum":["a"],"const":"a"})", "\"const\" at # beside \"enum\""},
  });
}

TEST(JsonSchemaScalarsTest, Strings) {
  expect({
      {R"({"minLength":2,"maxLength":3})",
       {R"("ab")", "\"\xC3\xA4\xF0\x9F\x98\x80\"", R"("\n\u0041\ud83d\ude00")"},
       {R"("a")", R"("abcd")", R"("\n")", "ab"}},
      {R"({"maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"minLength":1})", {R"("a")", R"("abcdefghijk")"}, {R"("")"}},
      {R"({"pattern":"^[a-z]+$"})", {R"("abc")"}, {R"("")", R"("a1")", "abc"}},
      {R"({"pattern":"[0-9]"})", {R"("1")", R"("a1b")"}, {R"("ab")"}},
      {R"({"pattern":"^\"\\\\$"})", {R"("\"\\")"}, {R"(""\")"}},
      {R"({"type":"string","format":"unheard-of"})", {R"("abc")"}, {"1"}},
      {R"({"format":"date","minLength":1})", {R"("2024-02-29")"}, {R"("abc")", R"("")"}},
      {R"({"format":"unheard-of","maxLength":2})", {R"("ab")"}, {R"("abc")"}},
  });
  expect_refused({
      {R"~({"pattern":"a(?=b)"})~", "\"pattern\" at # is not supported: the pattern has a lookahead at byte 1"},
      {R"({"pattern":"a","maxLength":3})", "\"pattern\" at # beside minLength or maxLength"},
      {R"({"pattern":1})", "\"pattern\" at # must be a string"},
      {R"({"format":1})", "\"format\" at # must be a string"},
      {R"({"format":"date","maxLength":30})", "\"format\" at # beside a pattern or lengths"},
      {R"({"format":"date","minLength":2})", "\"format\" at # beside a pattern or lengths"},
      {R"({"format":"date","pattern":"a"})", "\"format\" at # beside a pattern or lengths"},
      {R"({"minLength":3,"maxLength":2})", "nothing matches"},
      {R"({"items":{"minLength":"x"}})", "\"minLength\" at #/items must be"},
  });
}

std::vector<std::string> quoted(std::vector<std::string> texts) {
  for (std::string& text : texts) text.insert(0, 1, '"').push_back('"');
  return texts;
}

TEST(JsonSchemaScalarsTest, Formats) {
  struct Format {
    std::string name;
    std::vector<std::string> accepted;
    std::vector<std::string> rejected;
  };
  const std::vector<Format> formats{
      {"date",
       {"2024-02-29", "2000-02-29", "1999-12-31", "2023-04-30", "2023-02-28"},
       {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-00-10", "2023-1-1", "", "2023-01-32",
        "x2023-01-01"}},
      {"time",
       {"23:59:59Z", "00:00:00.123+05:30", "12:30:00-08:00"},
       {"24:00:00Z", "12:30Z", "12:30:00", "12:60:00Z", "12:30:60Z"}},
      {"date-time",
       {"2024-02-29T12:00:00Z", "2024-01-01T00:00:00.5+01:00"},
       {"2024-02-29 12:00:00Z", "2024-02-29", "2023-02-29T12:00:00Z"}},
      {"uuid",
       {"123e4567-e89b-12d3-a456-426614174000", "ABCDEF00-0000-0000-0000-000000000000"},
       {"123e4567-e89b-12d3-a456-42661417400", "g23e4567-e89b-12d3-a456-426614174000"}},
      {"email",
       {"a@b", "first.last+tag@example.co.uk", "x_y@a-b.c"},
       {"a", "@b", "a@", "a..b@c", ".a@b", "a@-b", "a b@c", "a@b..c"}},
      {"ipv4",
       {"0.0.0.0", "255.255.255.255", "192.168.1.10"},
       {"256.0.0.0", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3."}},
      {"uri",
       {"https://example.com/a/b?q=1&r=/x#top", "mailto:a@b.c", "urn:isbn:123", "http://u:p@host:80", "file:///etc/x",
        "a:", "http://h/%41"},
       {"example.com/a", "//host", "1http://x", "http://a b", "http://x/%4", "http://x#a#b", ""}},
  };
  for (const Format& f : formats) {
    expect({{R"({"type":"string","format":")" + f.name + "\"}", quoted(f.accepted), quoted(f.rejected)}});
  }
}

TEST(JsonSchemaScalarsTest, IntegerRanges) {
  const std::vector<std::pair<int, int>> ranges{{0, 0},     {0, 9},     {0, 10},   {1, 100},  {5, 123},
                                                {-5, 5},    {-123, -7}, {99, 101}, {37, 512}, {-100, 99},
                                                {190, 210}, {7, 7},     {-1, 0},   {1, 299}};
  for (const auto& [min, max] : ranges) {
    const Json schema{{"type", "integer"}, {"minimum", min}, {"exclusiveMaximum", max + 1}};
    const Grammar grammar = json_schema_grammar(schema.dump()).value();
    for (int i = -1100; i <= 1100; ++i) {
      EXPECT_EQ(matches(grammar, std::to_string(i)), min <= i && i <= max) << i << " in " << min << " " << max;
    }
    for (const char* text : {"", "-", "00", "01", "-0", "1.0", "7 "}) EXPECT_FALSE(matches(grammar, text)) << text;
  }
}

TEST(JsonSchemaScalarsTest, IntegerBounds) {
  const std::string top = "9999999999999999";
  expect({
      {R"({"type":"integer","minimum":0})", {"0", "5", top}, {"-1", "00", "1" + top}},
      {R"({"type":"integer","exclusiveMinimum":0})", {"1", top}, {"0", "-1"}},
      {R"({"type":"integer","maximum":-1.5})", {"-2", "-" + top}, {"-1", "0"}},
      {R"({"type":"integer","exclusiveMinimum":1.5,"exclusiveMaximum":4.0})", {"2", "3"}, {"1", "4"}},
      {R"({"type":"integer","minimum":1,"exclusiveMinimum":1})", {"2"}, {"1"}},
      {R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})",
       {"0", top, "-" + top},
       {"1.5"}},
      {R"({"type":"integer","minimum":10,"maximum":18446744073709551615})", {"10", top}, {"9"}},
      {R"({"type":"integer","minimum":9999999999999998})", {"9999999999999998", top}, {"9999999999999997"}},
      {R"({"type":"integer","minimum":-1e300,"maximum":1e3})", {"1000", "-" + top}, {"1001"}},
  });
  expect_refused({
      {R"({"type":"integer","minimum":2,"maximum":1})", "nothing matches"},
      {R"({"type":"integer","minimum":1e300})", "\"minimum\" at # leaves only numbers"},
      {R"({"type":"integer","minimum":"1"})", "\"minimum\" at # must be a number"},
      {R"({"type":"integer","exclusiveMinimum":true})", "\"exclusiveMinimum\" at # must be a number"},
      {R"({"type":"integer","multipleOf":2})", "\"multipleOf\" at # is not supported"},
      {R"({"type":"number","multipleOf":1})", "\"multipleOf\" at # is not supported"},
      {R"({"type":"number","multipleOf":2})", "\"multipleOf\" at # is not supported"},
  });
}

}  // namespace
}  // namespace bass
