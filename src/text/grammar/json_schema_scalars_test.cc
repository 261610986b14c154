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
      {R"({"pattern":"^[a-z]+$","maxLength":3})", {R"("a")", R"("abc")"}, {R"("")", R"("abcd")", R"("a1")"}},
      {R"({"pattern":"b","minLength":2,"maxLength":3})",
       {R"("ab")", R"("bb")", R"("xby")"},
       {R"("b")", R"("abcd")", R"("aa")"}},
      {R"({"pattern":"^a*$","minLength":3})", {R"("aaa")", R"("aaaaaaa")"}, {R"("aa")", R"("aab")"}},
      {R"({"pattern":".","maxLength":2})",
       {"\"\xC3\xA4\xF0\x9F\x98\x80\"", R"("\"\u0001")", R"("\\x")"},
       {R"("")", "\"\xC3\xA4\xF0\x9F\x98\x80z\"", R"("\"\\x")"}},
      {R"({"format":"date","minLength":2,"maxLength":30})", {R"("2024-02-29")"}, {R"("2024-02-30")"}},
      {R"({"format":"date","pattern":"^2024"})", {R"("2024-02-29")"}, {R"("2023-02-28")"}},
      {R"({"format":"unheard-of","pattern":"^a"})", {R"("ab")"}, {R"("b")"}},
      {R"({"format":"uri","minLength":1,"maxLength":2083})", {R"("https://a.example/b?c=d#e")"}, {R"("a b")", R"("")"}},
      {R"({"format":"uri","maxLength":9})", {R"("http://ab")"}, {R"("http://abc")"}},
  });
  expect_refused({
      {R"~({"pattern":"a(?=b)"})~", "\"pattern\" at # is not supported: the pattern has a lookahead at byte 1"},
      {R"({"pattern":"^a{4}$","maxLength":3})", "nothing matches"},
      {R"({"pattern":"^(.{2000}a){8}$","maxLength":100000})",
       "\"pattern\" at # is not supported: it has too many places"},
      {R"({"pattern":1})", "\"pattern\" at # must be a string"},
      {R"({"format":1})", "\"format\" at # must be a string"},
      {R"({"format":"date","maxLength":9})", "nothing matches"},
      {R"({"format":"date","pattern":"a"})", "nothing matches"},
      {R"({"minLength":3,"maxLength":2})", "nothing matches"},
      {R"({"items":{"minLength":"x"}})", "\"minLength\" at #/items must be"},
  });
}

std::vector<std::string> quoted(std::vector<std::string> texts) {
  for (std::string& text : texts) text.insert(0, 1, '"').push_back('"');
  return texts;
}

// All strings of few letters, against each of the constraints by itself.
TEST(JsonSchemaScalarsTest, PatternsWithLengthsAreBoth) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; texts[i].size() < 5; ++i) {
    for (const char c : {'a', 'b', '\n'}) texts.push_back(texts[i] + c);
  }
  size_t n_accepted = 0;
  for (const std::string pattern :
       {"^a*$", "ab", "^(ab|b)+$", "^.{2,4}$", "a.a", "^(a?b){1,2}a*$", "^[^a]|b$", "(a|\\n)+$"}) {
    const Grammar alone = json_schema_grammar(Json{{"pattern", pattern}}.dump()).value();
    for (const int min : {0, 1, 3}) {
      for (const int max : {3, 5, 100}) {
        const Json schema{{"pattern", pattern}, {"minLength", min}, {"maxLength", max}};
        const Grammar both = json_schema_grammar(schema.dump()).value();
        for (const std::string& text : texts) {
          const std::string written = Json(text).dump();
          const auto n = static_cast<int>(text.size());
          const bool is_wanted = matches(alone, written) && n >= min && n <= max;
          ASSERT_EQ(matches(both, written), is_wanted) << schema << " " << written;
          n_accepted += is_wanted ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(n_accepted, 200U);
}

TEST(JsonSchemaScalarsTest, ManyStringsOfOneKindAreOneRule) {
  Json schema{{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 40; ++i) {
    schema["properties"]["link" + std::to_string(i)] = {{"format", "uri"}, {"minLength", 1}, {"maxLength", 2083}};
  }
  EXPECT_TRUE(json_schema_grammar(schema.dump()).ok());
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
      {"ipv6",
       {"::", "::1", "1::", "fe80::1", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8", "::ffff:192.168.1.10",
        "1:2:3:4:5:6:1.2.3.4", "1::3:4:5:6:7:8", "1:2:3:4:5:6:7::", "ABCD::"},
       {"", ":", ":::", "1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:2:3:4:5:6:7:1.2.3.4",
        "g::", "1:2:3:4:5:6:7:8::", "::1.2.3", ":1:2:3:4:5:6:7"}},
      {"hostname",
       {"localhost", "a", "example.com", "a-b.c-d.example.co.uk", "x1.y2.z3.a.b.c.d.e", std::string(63, 'a') + ".org"},
       {"", "-a", "a-", "a..b", ".a", "a.", "a_b", std::string(64, 'a'), "a b"}},
      {"duration",
       {"P1D", "PT5M", "P1Y2M3DT4H5M6S", "P2W", "PT0S", "P1M", "P3DT12H", "PT36H"},
       {"", "P", "PT", "1D", "P1", "P1H", "PT1D", "P1W2D", "P1Y3D", "PT1H6S", "P1DT", "P-1D", "PT1.5S"}},
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
  });
}

TEST(JsonSchemaScalarsTest, MultiplesOfIntegers) {
  for (const int multiple : {1, 2, 5, 7, 12, 100, 365}) {
    for (const auto& [min, max] : std::vector<std::pair<int, int>>{{-1100, 1100}, {0, 500}, {-77, -3}, {91, 733}}) {
      Json schema{{"type", "integer"}, {"multipleOf", multiple}, {"minimum", min}, {"maximum", max}};
      const Result<Grammar> grammar = json_schema_grammar(schema.dump());
      for (int i = -1100; i <= 1100; ++i) {
        const bool is_wanted = min <= i && i <= max && i % multiple == 0;
        EXPECT_EQ(grammar.ok() && matches(grammar.value(), std::to_string(i)), is_wanted) << i << " " << schema;
      }
      for (const char* text : {"", "-", "00", "-0", "0.0", "1.0"}) {
        EXPECT_FALSE(grammar.ok() && matches(grammar.value(), text)) << text << " " << schema;
      }
    }
  }
  expect({{R"({"type":"integer","multipleOf":1024})", {"0", "-1024", "9999999999998976"}, {"1", "1025", "-0"}},
          {R"({"type":"integer","multipleOf":2.5})", {"5", "-10"}, {"2", "2.5"}},
          {R"({"type":"integer","multipleOf":0.001})", {"7"}, {"7.001"}}});
  expect_refused({
      {R"({"type":"integer","multipleOf":1025})", "\"multipleOf\" at # is not supported"},
      {R"({"type":"integer","multipleOf":0})", "\"multipleOf\" at # must be a number above 0"},
      {R"({"type":"integer","multipleOf":"2"})", "\"multipleOf\" at # must be a number above 0"},
      {R"({"type":"integer","multipleOf":7,"minimum":8,"maximum":13})", "nothing matches"},
  });
}

// Hundredths, in all the ways that they may be written.
TEST(JsonSchemaScalarsTest, MultiplesOfDecimals) {
  for (const int multiple : {1, 5, 10, 25, 50, 100, 150}) {
    for (const auto& [min, max] : std::vector<std::pair<int, int>>{{-350, 350}, {-130, 227}, {5, 25}, {0, 0}}) {
      const Json schema{
          {"type", "number"}, {"multipleOf", multiple / 100.0}, {"minimum", min / 100.0}, {"maximum", max / 100.0}};
      const Result<Grammar> grammar = json_schema_grammar(schema.dump());
      const auto is_matched = [&](const std::string& text) { return grammar.ok() && matches(grammar.value(), text); };
      for (int i = -350; i <= 350; ++i) {
        const bool is_wanted = min <= i && i <= max && i % multiple == 0;
        const std::string sign = i < 0 ? "-" : "", whole = std::to_string(std::abs(i) / 100);
        const std::string tenths = std::to_string(std::abs(i) / 10 % 10), last = std::to_string(std::abs(i) % 10);
        const bool has_tenths = multiple % 100 != 0, has_hundredths = multiple % 10 != 0;
        EXPECT_EQ(is_matched(sign + whole + "." + tenths + last), is_wanted && has_hundredths) << i << " " << schema;
        if (i % 10 != 0) continue;
        EXPECT_EQ(is_matched(sign + whole + "." + tenths), is_wanted && has_tenths) << i << " " << schema;
        if (i % 100 != 0) continue;
        EXPECT_EQ(is_matched(sign + whole), is_wanted) << i << " " << schema;
      }
      for (const char* text : {"", "-", ".5", "1.", "00.5", "1e0"}) EXPECT_FALSE(is_matched(text)) << text << schema;
    }
  }
  expect({{R"({"type":"number","multipleOf":0.01})", {"0", "-0.5", "9999999999999999.99"}, {"0.005", "1.005"}},
          {R"({"type":"number","multipleOf":1e-16,"minimum":0,"maximum":1})", {"0.0000000000000001"}, {"1.1"}}});
  expect_refused({{R"({"type":"number","multipleOf":0.123456})", "\"multipleOf\" at # is not supported"},
                  {R"({"type":"number","multipleOf":1e-17})", "\"multipleOf\" at # is not supported"}});
}

}  // namespace
}  // namespace bass
