#include "text/grammar/json_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/grammar/json_schema_keywords.h"
#include "text/grammar/json_schema_testing.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

TEST(JsonSchemaTest, ObjectsKeepTheOrderOfTheSchema) {
  const std::string three = R"("properties":{"z":{"type":"integer"},"a":{"type":"string"},"m":{"type":"null"}})";
  expect({
      {"{" + three + "}",
       {"{}", R"({"z":1})", R"({"a":"x"})", R"({"m":null})", R"({"z":1,"a":"x"})", R"({"z":1,"m":null})",
        R"({"a":"x","m":null})", R"({ "z": 1, "a": "x", "m": null })", "{\n  \"z\": 1,\n  \"m\": null\n}"},
       {R"({"a":"x","z":1})", R"({"z":"x"})", R"({"z":1,})", R"({,"z":1})", R"({"y":1})", R"({"z":1,"z":1})",
        R"({"z":1,"y":1})", "[]"}},
      {"{" + three + R"(,"required":["a"]})",
       {R"({"a":""})", R"({"z":1,"a":""})", R"({"z":1,"a":"","m":null})"},
       {"{}", R"({"z":1})", R"({"m":null})", R"({"z":1,"m":null})"}},
      {"{" + three + R"(,"required":["m","z"]})",
       {R"({"z":1,"m":null})", R"({"z":1,"a":"","m":null})"},
       {R"({"z":1})", R"({"m":null})"}},
      {R"({"properties":{}})", {"{}", "{ }", "{\n}"}, {R"({"a":1})", "{  }"}},
      {R"({"properties":{"a\"\u00e4/":true}})", {"{\"a\\\"\xC3\xA4/\":1}"}, {R"({"a":1})"}},
  });
}

TEST(JsonSchemaTest, AdditionalProperties) {
  const std::string two = R"({"properties":{"ab":{"type":"integer"},"a":{"type":"integer"}},)";
  expect({
      {two + R"("additionalProperties":true})",
       {"{}", R"({"x":[]})", R"({"ab":1,"x":""})", R"({"x":1,"y":2})", R"({"":1})", R"({"abc":""})", R"({"b":""})",
        R"({"ac":""})", R"({"a\"":""})", R"({"\"a":""})", "{\"a\xC3\xA4\":\"\"}", R"({"abc\u0041":""})"},
       {R"({"ab":""})", R"({"a":""})", R"({"x":1,"a":2})", R"({"\u0061b":""})", R"({"a\u0062":""})", R"({"x":1,})"}},
      {two + R"("additionalProperties":{"type":"string"},"required":["r"]})",
       {R"({"r":"x"})", R"({"ab":1,"r":"x","q":"y"})"},
       {"{}", R"({"r":1})", R"({"r":"x","q":1})", R"({"r":"x","r":"y"})", R"({"q":"y","r":"x"})"}},
      {two + R"("additionalProperties":false})", {"{}", R"({"ab":1})"}, {R"({"x":1})"}},
      {two + R"("required":["r"]})", {R"({"r":[]})", R"({"a":1,"r":2})"}, {"{}", R"({"r":1,"x":1})"}},
      {R"({"required":["b","a"]})", {R"({"b":1,"a":2})", R"({"b":1,"a":2,"c":3})"}, {R"({"a":1,"b":2})", R"({"b":1})"}},
      {R"({"additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"additionalProperties":{"type":"null"}})", {"{}", R"({"a":null,"b":null})"}, {R"({"a":1})"}},
      {R"({"type":"object","minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"minProperties":2})", {R"({"a":1,"b":2,"c":3})"}, {R"({"a":1})"}},
      {R"({"maxProperties":0})", {"{}"}, {R"({"a":1})"}},
      {R"({"propertyNames":{"type":"string"},"additionalProperties":{"type":"null"}})",
       {R"({"a":null})"},
       {R"({"a":1})"}},
      {R"({"propertyNames":{"enum":["a","b",1]}})", {"{}", R"({"b":1,"a":2})"}, {R"({"c":1})", "{1:1}"}},
      {R"({"propertyNames":{"$ref":"#/$defs/N"},"minProperties":1,"$defs":{"N":{"pattern":"^x","maxLength":2}}})",
       {R"({"x":1,"xy":2})"},
       {"{}", R"({"xyz":1})", R"({"y":1})"}},
      {R"({"properties":{"a":true},"propertyNames":{"type":"string"}})", {R"({"a":1})"}, {R"({"b":1})"}},
      {R"({"x-order":3,"type":"integer","x-":{"not":1}})", {"1"}, {R"("a")"}},
      {R"({"properties":{"a":false}})", {"{}"}, {R"({"a":1})"}},
      {R"({"properties":{"a":true,"b":false,"c":true},"required":["c"]})",
       {R"({"a":1,"c":2})", R"({"c":2})"},
       {R"({"b":1,"c":2})", R"({"a":1,"b":1,"c":2})", R"({"a":1})"}},
      {R"({"properties":{"ab":false},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1})", R"({"abc":1,"b":2})"},
       {R"({"ab":1})", R"({"a":1,"ab":2})"}},
  });
  expect_refused({
      {R"({"properties":{"a":true},"maxProperties":1})", "\"maxProperties\" at # beside properties"},
      {R"({"minProperties":1,"additionalProperties":false})", "nothing matches"},
      {R"({"required":["a"],"additionalProperties":false})", "nothing matches"},
      {R"({"required":"a"})", "\"required\" at # must be a list of names"},
      {R"({"required":[1]})", "\"required\" at # must be a list of names"},
      {R"({"properties":[]})", "\"properties\" at # must be an object"},
      {R"({"properties":{"a":false},"required":["a"]})", "nothing matches the schema at #"},
      {R"({"properties":{"a":{"anyOf":[false]}}})", "nothing matches the schema at #/properties/a"},
      {R"({"properties":{"a/b~":{"type":"x"}}})", "at #/properties/a~1b~0 must be"},
      {R"({"properties":{"a":7}})", "the schema at #/properties/a must be an object, true or false"},
  });
}

TEST(JsonSchemaTest, ManyOptionalPropertiesStaySmall) {
  const auto n_rules = [](int n) {
    Json schema;
    for (int i = 0; i < n; ++i) schema["properties"]["name" + std::to_string(i)]["type"] = "integer";
    return json_schema_grammar(schema.dump()).value().rules().size();
  };
  EXPECT_LT(n_rules(200) - n_rules(100), 1000U);
  EXPECT_EQ(n_rules(200) - n_rules(100), n_rules(300) - n_rules(200));
}

TEST(JsonSchemaTest, Arrays) {
  const std::string pair = R"("prefixItems":[{"type":"integer"},{"type":"string"}])";
  expect({
      {R"({"items":{"type":"integer"}})",
       {"[]", "[1]", "[1, 2,3]", "[\n  1,\n  2\n]"},
       {"[\"a\"]", "[1,]", "[,]", "1", "[1"}},
      {R"({"items":{"type":"integer"},"minItems":2})", {"[1,2]", "[1,2,3]"}, {"[]", "[1]"}},
      {R"({"items":{"type":"integer"},"minItems":1,"maxItems":2})", {"[1]", "[1,2]"}, {"[]", "[1,2,3]"}},
      {R"({"items":{"enum":["a","b"]},"maxItems":1})", {"[]", "[\"a\"]"}, {"[\"a\",\"b\"]"}},
      {R"({"maxItems":0})", {"[]", "[ ]"}, {"[1]", "[  ]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {"{" + pair + "}", {"[]", "[1]", "[1,\"a\"]", "[1,\"a\",null,{}]"}, {"[\"a\"]", "[1,2]", "[1,\"a\",]"}},
      {"{" + pair + R"(,"items":false})", {"[]", "[ 1, \"a\" ]"}, {"[1,\"a\",1]", "[1,]"}},
      {"{" + pair + R"(,"items":false,"minItems":2})", {"[1,\"a\"]"}, {"[]", "[1]", "[1,\"a\",1]"}},
      {"{" + pair + R"(,"items":{"type":"null"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,\"a\"]", "[1,\"a\",null]"},
       {"[]", "[1,\"a\",1]", "[1,\"a\",null,null]"}},
      {"{" + pair + R"(,"minItems":4})", {"[1,\"a\",2,3]", "[1,\"a\",2,3,4]"}, {"[1,\"a\",2]", "[1,\"a\"]"}},
      {"{" + pair + R"(,"maxItems":1})", {"[]", "[1]"}, {"[1,\"a\"]"}},
      {"{" + pair + R"(,"maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"items":true,"uniqueItems":false})", {"[1,1]"}, {"1"}},
      {R"({"enum":["a"],"uniqueItems":false})", {R"("a")"}, {"[]"}},
      {R"({"minLength":1,"uniqueItems":false})", {R"("a")"}, {"[]"}},
      {R"({"items":{"enum":[1,1.0,2]},"uniqueItems":true})", {"[1,2]", "[2]"}, {"[1,1]", "[1,1.0]", "[1.0]"}},
      {R"({"items":{"enum":["a","b",1]},"uniqueItems":true})",
       {"[]", R"(["b"])", R"([1, "a"])", R"(["b","a",1])", "[ 1 ]"},
       {R"(["a","a"])", R"(["a",1,"b","a"])", "[1,1]", R"(["a",])"}},
      {R"({"items":{"$ref":"#/$defs/C"},"uniqueItems":true,"minItems":1,"maxItems":2,"$defs":{"C":{"enum":["a","b","c"]}}})",
       {R"(["b"])", R"(["c","a"])"},
       {"[]", R"(["b","b"])", R"(["a","b","c"])"}},
      {R"({"items":{"type":"string"},"uniqueItems":true})", {R"(["a","b"])"}, {"[1]"}},
      {R"({"type":"object","dependentRequired":{},"dependentSchemas":{},"dependencies":{},"patternProperties":{}})",
       {"{}", R"({"a":1})"},
       {"1"}},
      {R"({"type":"integer","multipleOf":1,"minimum":5})", {"5", "17"}, {"4", "5.0"}},
  });
  expect_refused({
      {R"({"minItems":3,"maxItems":2})", "nothing matches"},
      {R"({"minItems":1,"items":false})", "nothing matches"},
      {"{" + pair + R"(,"items":false,"minItems":3})", "nothing matches"},
      {R"({"minItems":-1})", "\"minItems\" at # must be a whole number"},
      {R"({"minItems":1.5})", "\"minItems\" at # must be a whole number"},
      {R"({"maxItems":"1"})", "\"maxItems\" at # must be a whole number"},
      {R"({"maxItems":100001})", "\"maxItems\" at # is more than 100000"},
      {R"({"maxItems":1e300})", "\"maxItems\" at # is more than 100000"},
      {R"({"items":[true]})", "call it \"prefixItems\""},
      {R"({"prefixItems":{}})", "\"prefixItems\" at # must be a list"},
      {R"({"prefixItems":[true,false]})", "nothing matches the schema at #/prefixItems/1"},
      {R"({"items":{"type":"a"}})", "at #/items must be"},
  });
}

TEST(JsonSchemaTest, AnyOf) {
  expect({
      {R"({"anyOf":[{"type":"integer"},{"type":"null"},false]})", {"1", "null"}, {"\"a\"", ""}},
      {R"({"oneOf":[{"const":"a"},{"const":"b"}],"discriminator":{"propertyName":"x"}})",
       {"\"a\"", "\"b\""},
       {"\"c\""}},
      {R"({"type":"object","properties":{"a":true,"b":true},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
       {"{}", R"({"c":1})"}},
      {R"({"type":["string","integer"],"anyOf":[{"type":"integer"},{"maxLength":1}]})",
       {"1", "\"a\""},
       {"\"ab\"", "null"}},
  });
  expect_refused({
      {R"({"anyOf":[]})", "nothing matches"},
      {R"({"anyOf":[false]})", "nothing matches"},
      {R"({"anyOf":{}})", "\"anyOf\" at # must be a list"},
      {R"({"anyOf":[true],"oneOf":[true]})", "\"oneOf\" at # beside \"anyOf\""},
      {R"({"anyOf":[{"foo":1}]})", "\"foo\" at #/anyOf/0 is not known"},
      {R"({"minLength":1,"anyOf":[{"minLength":2}]})", "\"minLength\" at #/anyOf/0 is there twice"},
  });
}

TEST(JsonSchemaTest, AllOf) {
  const std::string base =
      R"("$defs":{"Base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}})";
  expect({
      {"{" + base + R"(,"allOf":[{"$ref":"#/$defs/Base"},{"properties":{"x":{"type":"null"}}}],"required":["x"]})",
       {R"({"id":1,"x":null})"},
       {R"({"id":1})", R"({"x":null})", R"({"x":null,"id":1})"}},
      {"{" + base + R"(,"$ref":"#/$defs/Base","properties":{"x":{"type":"null"}}})",
       {R"({"id":1})", R"({"id":1,"x":null})"},
       {"{}"}},
      {R"({"allOf":[{"type":["integer","string"]},{"type":["number","null"]}]})", {"1"}, {"1.5", "\"a\"", "null"}},
      {R"({"allOf":[{"minLength":1},{"maxLength":2},true]})", {"\"a\"", "\"ab\""}, {"\"\"", "\"abc\""}},
      {R"({"allOf":[{"type":"string","nullable":true}],"description":"x"})", {"null", "\"\""}, {"1"}},
      {R"({"allOf":[{"type":"string","nullable":true},{"maxLength":1}]})", {"\"\""}, {"null", "\"ab\""}},
  });
  expect_refused({
      {R"({"allOf":[{"minLength":1},{"minLength":2}]})", "\"minLength\" at # is there twice"},
      {R"({"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"null"}}}]})",
       "\"a\" at #/properties is described twice"},
      {R"({"allOf":[{"additionalProperties":false},{"properties":{"a":true}}]})",
       "\"additionalProperties\" at # stands beside"},
      {R"({"allOf":[{"prefixItems":[true]},{"items":false}]})", "\"items\" at # stands beside"},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "nothing matches"},
      {R"({"allOf":[{"type":["1","2","3","4","5","6","7","8"]},{"type":"null"}]})", "lists more types than there are"},
      {R"({"allOf":[]})", "\"allOf\" at # must be a list"},
      {R"({"allOf":[true,false]})", "nothing matches the schema at #/allOf/1"},
      {R"({"allOf":[{"not":{}}]})", "\"not\" at #/allOf/0 is not supported"},
  });
}

TEST(JsonSchemaTest, References) {
  const std::string node =
      R"({"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]})";
  expect({
      {R"({"$defs":{"n":)" + node + R"(},"$ref":"#/$defs/n"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})", R"({"v":1,"next":{"v":2,"next":null})"}},
      {R"({"properties":{"kids":{"type":"array","items":{"$ref":"#"}}}})",
       {"{}", R"({"kids":[{},{"kids":[{}]}]})"},
       {R"({"kids":[1]})"}},
      {R"({"definitions":{"a/b":{"type":"null"}},"items":{"$ref":"#/definitions/a~1b"}})", {"[null]"}, {"[1]"}},
      {R"({"definitions":{"a b~":{"type":"null"}},"items":{"$ref":"#/definitions/a%20b~0","title":"x"}})",
       {"[null]"},
       {"[1]"}},
      {R"({"prefixItems":[{"type":"null"},{"$ref":"#/prefixItems/0"}]})", {"[null,null]"}, {"[null,1]"}},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", {"null"}, {"1", ""}},
      {R"({"properties":{"a":{"type":"null"},"b":{"$ref":"#/properties/a"}}})",
       {R"({"a":null,"b":null})"},
       {R"({"b":1})"}},
      {R"({"$defs":{"n":{"properties":{"n":{"allOf":[{"$ref":"#/$defs/n"},{"required":["x"]}]},"x":true}}},"$ref":"#/$defs/n"})",
       {"{}", R"({"n":{"x":1}})", R"({"n":{"n":{"x":1},"x":1},"x":1})"},
       {R"({"n":{}})", R"({"n":{"n":{},"x":1}})"}},
      {R"({"$ref":"#/$defs/a","nullable":true,"$defs":{"a":{"type":"string"}}})", {"null", "\"x\""}, {"1"}},
  });
  expect_refused({
      {R"({"$ref":"#/$defs/x"})", "\"$ref\" at # refers to \"#/$defs/x\", which is not there"},
      {R"({"$ref":"http://x/y"})", "\"$ref\" at # is \"http://x/y\"; only what begins with"},
      {R"({"$ref":"#name"})", "only what begins with"},
      {R"({"$ref":1})", "\"$ref\" at # must be a string"},
      {R"({"$ref":"#"})", "nothing that ends"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})", "nothing that ends"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "nothing that ends"},
      {R"({"items":{"$ref":"#"},"minItems":1})", "nothing that ends"},
      {R"({"$ref":"#/$defs/)" + std::string(1000, 'x') + "\"}", "xxx...\", which is not there"},
      {R"({"allOf":[{"$ref":"#"},{"minLength":1}]})", "refers to itself"},
  });
}

TEST(JsonSchemaTest, WhatCannotBeFollowedIsRefused) {
  expect_refused({
      {"false", "nothing matches the schema at #"},
      {"7", "the schema at # must be an object"},
      {"", "not valid JSON (at byte 1)"},
      {"{", "not valid JSON (at byte 2)"},
      {"{\"type\": \"string\",}", "not valid JSON (at byte 19)"},
      {"{\"minimum\": 1e999}", "a number that is too large"},
      {std::string("{}\0", 3), "not valid JSON (at byte 3)"},
      {"{\"const\":\"\xC3\"}", "not valid JSON"},
      {R"({"properties":{"x":{"not":{}}}})", "\"not\" at #/properties/x is not supported; leave it out"},
      {R"({"foo":1})", "\"foo\" at # is not known"},
      {R"({"if":{}})", "\"if\" at # is not supported"},
      {R"({"patternProperties":{"^a":{}}})", "\"patternProperties\" at # is not supported"},
      {R"({"uniqueItems":"x","prefixItems":[true]})", "\"uniqueItems\" at # must be true or false"},
      {R"({"uniqueItems":1})", "\"uniqueItems\" at # must be true or false"},
      {R"({"items":{"enum":["a"]},"uniqueItems":true,"minItems":2})", "nothing matches"},
      {R"({"propertyNames":{"maxLength":2},"properties":{"abc":true}})", "\"propertyNames\" at # beside properties"},
      {R"({"propertyNames":{"type":"integer"}})", "nothing matches"},
      {R"({"dependentRequired":{"a":["b"]}})", "\"dependentRequired\" at # is not supported"},
      {R"({"not":{}})", "\"not\" at # is not supported"},
      {R"({"unevaluatedProperties":false})", "\"unevaluatedProperties\" at # is not supported"},
      {R"({"contains":{}})", "\"contains\" at # is not supported"},
      {R"({"items":{"maxLength":99999},"prefixItems":[{"maxLength":99998},{"maxLength":99997},{"maxLength":99996}]})",
       "it is too large"},
      {std::string(kMaxSchemaBytes + 1, ' '), "give at most"},
  });
}

// Each of these took minutes where nothing bounds what a schema may cost.
TEST(JsonSchemaTest, WhatCostsTooMuchIsGivenUpSoon) {
  const auto of_properties = [](int n, auto schema_of) {
    std::string schema = R"({"properties":{)";
    for (int i = 0; i < n; ++i) schema += fmt::format("{}\"p{}\":{}", i == 0 ? "" : ",", i, schema_of(i));
    return schema + "}}";
  };
  const auto repeats = [](int i) { return fmt::format(R"({{"pattern":"^(x?){{0,4000}}$","maxLength":{}}})", 1 + i); };
  const auto multiples = [](int i) { return fmt::format(R"({{"type":"integer","multipleOf":{}}})", 900 + i % 100); };
  const auto bounded = [](int i) { return fmt::format(R"({{"type":"integer","multipleOf":997,"minimum":{}}})", i); };
  const auto sets = [](int i) {
    SchemaJson items{{"enum", SchemaJson::array()}};
    for (int k = 0; k < 8; ++k)
      items["enum"].push_back(std::string(600, static_cast<char>('a' + k)) + std::to_string(i));
    return SchemaJson{{"items", items}, {"uniqueItems", true}}.dump();
  };
  const std::clock_t begin = std::clock();
  EXPECT_FALSE(json_schema_grammar(R"({"pattern":"^(x?){0,16000}$","maxLength":1})").ok());
  EXPECT_FALSE(json_schema_grammar(of_properties(4000, repeats)).ok());
  EXPECT_FALSE(json_schema_grammar(of_properties(5000, multiples)).ok());
  EXPECT_FALSE(json_schema_grammar(of_properties(4000, bounded)).ok());
  EXPECT_TRUE(json_schema_grammar(of_properties(40, sets)).ok());
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 60) << "all at once, with sanitizers, too";
}

TEST(JsonSchemaTest, DepthIsBounded) {
  const auto nested = [](int n) {
    std::string schema;
    for (int i = 0; i < n; ++i) schema += R"({"items":)";
    return schema + "{}" + std::string(static_cast<size_t>(n), '}');
  };
  EXPECT_TRUE(json_schema_grammar(nested(kMaxSchemaNesting - 1)).ok());
  expect_refused({{nested(kMaxSchemaNesting), "nested deeper than 200 levels"},
                  {R"({"const":)" + std::string(100000, '[') + std::string(100000, ']') + "}", "nested deeper"}});
}

// Names, chains and doublings that would take for ever if they were followed one by one.
TEST(JsonSchemaTest, ReferencesDoNotExplode) {
  Json chain{{"$ref", "#/$defs/0"}}, doubling{{"allOf", {{{"$ref", "#/$defs/0"}}, {{"$ref", "#/$defs/0"}}}}},
      tree = chain;
  for (int i = 0; i < 2000; ++i) {
    const Json next{{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    const Json last{{"type", "null"}};
    chain["$defs"][std::to_string(i)] = i < 1999 ? Json{{"items", next}} : last;
    tree["$defs"][std::to_string(i)] = i < 1999 ? Json{{"properties", {{"a", next}, {"b", next}}}} : last;
    if (i < 60) doubling["$defs"][std::to_string(i)] = i < 59 ? Json{{"allOf", {next, next}}, {"title", ""}} : last;
  }
  EXPECT_TRUE(json_schema_grammar(chain.dump()).ok());
  EXPECT_TRUE(json_schema_grammar(tree.dump()).ok());
  const std::string long_name(40000, 'x');
  expect_refused({{R"({"properties":{")" + long_name + R"(":true},"additionalProperties":true})", "too many to tell"}});
  EXPECT_TRUE(json_schema_grammar(R"({"properties":{")" + long_name + R"(":true}})").ok());
  expect_refused({{doubling.dump(), "too much in allOf"}});
}

}  // namespace
}  // namespace bass
