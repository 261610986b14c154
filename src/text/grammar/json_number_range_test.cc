#include "text/grammar/json_number_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/grammar_automaton.h"
#include "text/grammar/json_schema_testing.h"

namespace bass {
namespace {

const std::string kTop(16, '9');

std::string zeros(size_t n) { return std::string(n, '0'); }

TEST(JsonNumberRangeTest, InclusiveBounds) {
  expect({
      {R"({"type":"number","minimum":0,"maximum":1})",
       {"0", "1", "0.5", "-0", "-0.0", "0.0", "1.0", "1." + zeros(16), "0." + kTop, "0." + zeros(15) + "1"},
       {"1.0000000000000001",
        "-0.0000000000000001",
        "1.1",
        "2",
        "10",
        "-1",
        "0.",
        ".5",
        "00",
        "01",
        "+1",
        "",
        "-",
        "1e0",
        "0.5e-1",
        "5E-1",
        "1." + zeros(17),
        "0.1 ",
        "--0",
        "1.0.0",
        "-1.0"}},
      {R"({"type":"number","minimum":0})",
       {"0", "7.25", kTop, kTop + "." + kTop, "1000000.5"},
       {"-1", "-0.1", "1" + kTop, "01.5", "1e3"}},
      {R"({"type":"number","maximum":-1.5})",
       {"-1.5", "-1.500", "-1.51", "-2", "-" + kTop + "." + kTop},
       {"-1.49", "-1.4999999999999999", "-1", "0", "-0", "1.5", "-01.5"}},
      {R"({"type":"number","minimum":-0.25,"maximum":12.5})",
       {"-0.25", "-0.2", "-0.250", "0", "-0.0", "3.999", "9", "10", "12.5", "12.50", "12.4999", "12"},
       {"-0.26", "-0.2500000000000001", "12.51", "12.5000000000000001", "13", "20", "-1", "-3"}},
      {R"({"type":"number","minimum":2.5,"maximum":2.5})", {"2.5", "2.50"}, {"2", "2.4", "2.51", "-2.5", "25"}},
      {R"({"type":"number","minimum":0,"maximum":0})", {"0", "-0", "0.0", "-0.00"}, {"0.1", "-0.1", "1", "00"}},
  });
}

TEST(JsonNumberRangeTest, ExclusiveBounds) {
  expect({
      {R"({"type":"number","exclusiveMinimum":0})",
       {"0.0000000000000001", "1", "0.10", kTop},
       {"0", "0.0", "-0", "0." + zeros(16), "-1", "-0.1"}},
      {R"({"type":"number","exclusiveMaximum":0})",
       {"-0.0000000000000001", "-1", "-0.5"},
       {"0", "-0", "-0.0", "0.0", "1", "-0." + zeros(16)}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0." + kTop, "0." + zeros(15) + "1"},
       {"0", "1", "1.0", "0.0", "-0.5", "-0"}},
      {R"({"type":"number","exclusiveMinimum":-1.5,"maximum":100})",
       {"-1.4999999999999999", "-1", "100", "100.0", "99.5"},
       {"-1.5", "-1.50", "-2", "100.0000000000000001", "101"}},
      {R"({"type":"number","minimum":1,"exclusiveMinimum":1})", {"1.1", "2"}, {"1", "1.0", "0"}},
      {R"({"type":"number","minimum":2,"exclusiveMinimum":1})", {"2", "2.0"}, {"1.5", "1"}},
      {R"({"type":"number","maximum":5,"exclusiveMaximum":7})", {"5", "-5"}, {"5.1", "6"}},
  });
}

// However a bound is written, and where numbers have no digits left to tell them from it.
TEST(JsonNumberRangeTest, FormsOfBounds) {
  expect({
      {R"({"type":"number","minimum":1e-2,"maximum":1.5E+2})", {"0.01", "150", "149.9"}, {"0.009", "150.1", "0"}},
      {R"({"type":"number","minimum":0.1,"maximum":0.30})", {"0.1", "0.3", "0.2999999999999999"}, {"0.0999", "0.31"}},
      {R"({"type":"number","minimum":1.0,"maximum":3e0})", {"1", "3.0"}, {"0.9", "3.1"}},
      {R"({"type":"number","minimum":-0.0})", {"0", "-0"}, {"-1", "-0.1"}},
      {R"({"type":"number","minimum":1e-20})", {"0.0000000000000001", "1"}, {"0", "-0"}},
      {R"({"type":"number","exclusiveMinimum":1e-20})", {"0.0000000000000001", "1"}, {"0", "-0"}},
      {R"({"type":"number","maximum":5e-324})", {"0", "-0", "-1"}, {"0.0000000000000001"}},
      {R"({"type":"number","exclusiveMaximum":5e-324})", {"0", "-0", "-1"}, {"0.0000000000000001"}},
      {R"({"type":"number","minimum":-1e-20})", {"0", "-0", "1"}, {"-0.0000000000000001"}},
      {R"({"type":"number","exclusiveMaximum":-1e-20})", {"-0.0000000000000001"}, {"0", "-0"}},
      {R"({"type":"number","maximum":-1.25e-16})", {"-0.0000000000000002"}, {"-0.0000000000000001", "0"}},
      {R"({"type":"number","minimum":-1e300,"maximum":1e300})",
       {"-" + kTop + "." + kTop, kTop + "." + kTop, "0", "-0.5"},
       {"1e1", "1" + kTop}},
      {R"({"type":"number","minimum":9999999999999999})", {kTop, kTop + ".5"}, {"9999999999999998." + kTop}},
      {R"({"type":"number","minimum":-9223372036854775808,"maximum":18446744073709551615})", {"0", kTop}, {"1e1"}},
      {R"({"type":"number","minimum":1e15,"maximum":1e16})", {"1" + zeros(15), kTop}, {"999999999999999." + kTop}},
  });
}

TEST(JsonNumberRangeTest, BesideOtherKeywords) {
  expect({
      {R"({"minimum":0.5})", {"0.5", "1"}, {"0.4", "\"a\"", "null"}},
      {R"({"exclusiveMinimum":0,"maximum":1,"title":"x"})", {"1", "0.1"}, {"0", "1.5"}},
      {R"({"type":["number","integer"],"maximum":1})", {"1", "0.5", "-7"}, {"1.5", "2"}},
      {R"({"type":["number","null"],"minimum":0,"maximum":1})", {"0.25", "null"}, {"2", "-0.5"}},
      {R"({"type":["string","number"],"minimum":3})", {"3.5", "\"1\""}, {"2"}},
      {R"({"type":"integer","minimum":0.5,"maximum":2})", {"1", "2"}, {"0", "1.0", "0.5", "3"}},
      {R"({"type":"string","minimum":2})", {"\"a\""}, {"2"}},
      {R"({"type":"number"})", {"1e5", "-1.5E-3"}, {"1e"}},
      {R"({"properties":{"p":{"type":"number","minimum":0,"maximum":1}},"required":["p"]})",
       {R"({"p":0.75})", R"({"p": 1})"},
       {R"({"p":1.75})", R"({"p":-1})"}},
      {R"({"type":"array","items":{"type":"number","exclusiveMinimum":0}})", {"[]", "[0.5,1, 2]"}, {"[0]", "[1,-1]"}},
      {R"({"allOf":[{"type":"number","minimum":0},{"maximum":1}]})", {"0.5"}, {"1.5", "-0.5"}},
      {R"({"anyOf":[{"type":"number","maximum":-1},{"type":"number","minimum":1}]})", {"-1.5", "1"}, {"0.5", "0"}},
  });
}

TEST(JsonNumberRangeTest, Refused) {
  expect_refused({
      {R"({"type":"number","minimum":1,"maximum":0.5})", "nothing matches the schema at #"},
      {R"({"type":"number","exclusiveMinimum":1,"maximum":1})", "nothing matches the schema at #"},
      {R"({"type":"number","minimum":1,"exclusiveMaximum":1.0})", "nothing matches the schema at #"},
      {R"({"type":"number","exclusiveMinimum":1e-17,"exclusiveMaximum":1e-16})", "nothing matches the schema at #"},
      {R"({"properties":{"x":{"minimum":1e16}}})",
       "\"minimum\" at #/properties/x leaves only numbers of more than 16 digits"},
      {R"({"type":"number","exclusiveMinimum":9999999999999999e3})", "\"exclusiveMinimum\" at # leaves only numbers"},
      {R"({"type":"number","maximum":-1e300})", "\"maximum\" at # leaves only numbers"},
      {R"({"type":"integer","minimum":0.2,"maximum":0.8})", "nothing matches the schema at #"},
      {R"({"type":"number","minimum":"0"})", "\"minimum\" at # must be a number"},
      {R"({"properties":{"x":{"maximum":null}}})", "\"maximum\" at #/properties/x must be a number"},
      {R"({"type":"number","minimum":0,"exclusiveMinimum":true})", "\"exclusiveMinimum\" at # must be a number"},
  });
}

// The ways to write so many hundredths.
std::vector<std::string> texts_of_hundredths(int hundredths) {
  const std::string sign = hundredths < 0 ? "-" : "";
  const std::string whole = std::to_string(std::abs(hundredths) / 100);
  const int rest = std::abs(hundredths) % 100;
  const std::string two = {static_cast<char>('0' + rest / 10), static_cast<char>('0' + rest % 10)};
  std::vector<std::string> texts{sign + whole + "." + two, sign + whole + "." + two + "000"};
  if (rest % 10 == 0) texts.push_back(sign + whole + "." + two[0]);
  if (rest == 0) texts.push_back(sign + whole);
  if (hundredths == 0) texts.insert(texts.end(), {"-0", "-0.0", "-0.00", "-0.0000"});
  return texts;
}

TEST(JsonNumberRangeTest, AllHundredthsNearSmallBounds) {
  const std::vector<std::pair<int, int>> ranges{{0, 100}, {1, 99},     {-100, 100}, {-1, 0},   {-250, -50}, {5, 5},
                                                {0, 0},   {95, 1205},  {-1001, 7},  {90, 110}, {110, 190},  {1, 1000},
                                                {37, 52}, {-110, -90}, {199, 300},  {-7, 900}};
  for (const auto& [min, max] : ranges) {
    GrammarBuilder builder;
    const DecimalUnits hundredth = kUnitsOfOne / 100;
    const Grammar::Sequence sequence = NumberRangeGrammar(builder).decimals(min * hundredth, max * hundredth);
    const Grammar grammar = builder.finish(sequence).value();
    for (int i = -1300; i <= 1300; ++i) {
      for (const std::string& text : texts_of_hundredths(i)) {
        EXPECT_EQ(matches(grammar, text), min <= i && i <= max) << text << " in " << min << " " << max;
      }
    }
  }
}

/// A decimal of so many units as text, with as few digits behind the point as it needs.
std::string text_of(DecimalUnits units) {
  std::string digits;
  for (DecimalUnits rest = units < 0 ? -units : units; rest > 0; rest /= 10) {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  }
  if (digits.size() < 17) digits.insert(0, 17 - digits.size(), '0');
  digits.insert(digits.size() - 16, ".");
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return (units < 0 ? "-" : "") + digits;
}

class RandomDecimals {
 public:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator_); }

  // Digits of any number, many of them zeros and nines.
  DecimalUnits any() {
    DecimalUnits units = 0;
    const int n_digits = below(33), n_zeros = below(n_digits + 1);
    for (int i = 0; i < n_digits; ++i) {
      const int kind = below(4);
      units = units * 10 + (i >= n_digits - n_zeros || kind == 0 ? 0 : kind == 1 ? 9 : below(10));
    }
    return below(2) == 0 ? units : -units;
  }

  // Differs in one place, by little or much.
  DecimalUnits near(DecimalUnits units) {
    DecimalUnits step = 1;
    for (int i = below(32); i > 0; --i) step *= 10;
    return std::clamp(units + (below(3) - 1) * step, -kMaxUnits, kMaxUnits);
  }

  // The text of a decimal, at times with zeros behind it that change nothing.
  std::string written(DecimalUnits units) {
    std::string text = text_of(units);
    if (units == 0 && below(2) == 0) text.insert(0, "-");
    if (below(2) == 0) return text;
    if (text.find('.') == text.npos) text += ".0";
    const size_t n_digits = text.size() - text.find('.') - 1;
    return text + zeros(static_cast<size_t>(below(static_cast<int>(17 - n_digits))));
  }

 private:
  std::mt19937 generator_{20};
};

size_t n_elements(const Grammar& grammar) {
  size_t n = 0;
  for (const Grammar::Rule& rule : grammar.rules()) {
    for (const Grammar::Sequence& alternative : rule.alternatives) n += alternative.size();
  }
  return n;
}

bool automaton_matches(GrammarAutomaton& automaton, std::string_view text) {
  automaton.allow_work();
  GrammarAutomaton::State state = automaton.start();
  for (const char c : text) {
    state = automaton.next(state, static_cast<uint8_t>(c));
    if (state == GrammarAutomaton::kDead) return false;
  }
  return automaton.is_accepting(state);
}

// What a random text is changed to, so that it is no number as it should be.
std::string spoiled(const std::string& text, RandomDecimals& random) {
  const bool has_point = text.find('.') != text.npos;
  switch (random.below(5)) {
    case 0:
      return text + "e0";
    case 1:
      return has_point ? text + zeros(17) : text + ".";
    case 2:
      return text[0] == '-' ? "-0" + text.substr(1) : "0" + text;
    case 3:
      return has_point ? text + ".0" : zeros(17) + text;
    default:
      return text + " ";
  }
}

TEST(JsonNumberRangeTest, RandomRangesAreExact) {
  RandomDecimals random;
  int n_within = 0, n_without = 0;
  for (int round = 0; round < 400; ++round) {
    const DecimalUnits one = random.any(), other = round % 2 == 0 ? random.any() : random.near(one);
    const auto [min, max] = std::minmax({one, other});
    GrammarBuilder builder;
    const Grammar::Sequence sequence = NumberRangeGrammar(builder).decimals(min, max);
    const Grammar grammar = builder.finish(sequence).value();
    EXPECT_LT(n_elements(grammar), 400u) << text_of(min) << " " << text_of(max);
    GrammarAutomaton automaton(grammar);
    for (int i = 0; i < 60; ++i) {
      const DecimalUnits units = i % 3 == 0 ? random.any() : random.near(i % 3 == 1 ? min : max);
      const std::string text = random.written(units);
      const bool is_within = min <= units && units <= max;
      (is_within ? n_within : n_without) += 1;
      EXPECT_EQ(matches(grammar, text), is_within) << text << " in " << text_of(min) << " " << text_of(max);
      EXPECT_EQ(automaton_matches(automaton, text), is_within) << text;
      EXPECT_FALSE(matches(grammar, spoiled(text, random))) << text;
    }
    EXPECT_FALSE(automaton.is_full());
  }
  EXPECT_GT(n_within, 5000);
  EXPECT_GT(n_without, 5000);
}

// As a schema's text, of few enough digits that no double is between them and what is compared.
TEST(JsonNumberRangeTest, RandomSchemasAreExact) {
  RandomDecimals random;
  for (int round = 0; round < 300; ++round) {
    DecimalUnits scale = 1;
    for (int i = random.below(18); i > 0; --i) scale *= 10;
    const auto bound = [&] { return (random.below(2'000'000'001) - 1'000'000'000) * scale; };
    const auto [min, max] = std::minmax({bound(), bound()});
    const bool is_above = random.below(2) == 0, is_below = random.below(2) == 0;
    if (min == max && (is_above || is_below)) continue;
    const std::string schema = std::string(R"({"type":"number",")") + (is_above ? "exclusiveMinimum" : "minimum") +
                               "\":" + text_of(min) + ",\"" + (is_below ? "exclusiveMaximum" : "maximum") +
                               "\":" + text_of(max) + "}";
    const Result<Grammar> grammar = json_schema_grammar(schema);
    ASSERT_TRUE(grammar.ok()) << schema << grammar.status().message();
    for (int i = 0; i < 40; ++i) {
      const DecimalUnits near = random.near(i % 2 == 0 ? min : max);
      const DecimalUnits units = i < 2 ? (i == 0 ? min : max) : i % 5 == 0 ? random.any() : near;
      const bool is_within = (is_above ? min < units : min <= units) && (is_below ? units < max : units <= max);
      const std::string text = random.written(units);
      EXPECT_EQ(matches(grammar.value(), text), is_within) << text << " under " << schema;
    }
  }
}

}  // namespace
}  // namespace bass
