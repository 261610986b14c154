#include "text/grammar/grammar_automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace bass {
namespace {

using State = GrammarAutomaton::State;

Grammar of_regex(std::string_view pattern) {
  GrammarBuilder builder;
  const Result<Grammar::Sequence> root = regex_sequence(builder, pattern, RegexText::kPlain);
  EXPECT_TRUE(root.ok()) << pattern << ": " << root.status().message();
  return builder.finish(root.value()).value();
}

Grammar finish(GrammarBuilder& builder, const Grammar::Sequence& root) {
  Result<Grammar> grammar = builder.finish(root);
  EXPECT_TRUE(grammar.ok()) << grammar.status().message();
  return std::move(grammar).value();
}

State run(GrammarAutomaton& automaton, std::string_view text) {
  State state = automaton.start();
  for (size_t i = 0; i < text.size() && state != GrammarAutomaton::kDead; ++i) {
    state = automaton.next(state, static_cast<uint8_t>(text[i]));
  }
  return state;
}

bool matches(GrammarAutomaton& automaton, std::string_view text) {
  const State state = run(automaton, text);
  return state != GrammarAutomaton::kDead && automaton.is_accepting(state);
}

// Brackets of two kinds inside one another: what no finite automaton can do.
Grammar nested_brackets() {
  GrammarBuilder builder;
  const Grammar::RuleId inside = builder.declare();
  const auto around = [&](std::string_view open, std::string_view close) {
    return builder.concat({builder.text(open), builder.rule(inside), builder.text(close), builder.rule(inside)});
  };
  builder.define(inside, {{}, around("(", ")"), around("[", "]")});
  return finish(builder, builder.rule(inside));
}

TEST(GrammarAutomaton, FollowsNestedBrackets) {
  GrammarAutomaton automaton(nested_brackets());
  for (const char* text : {"", "()", "[()]", "(([]))[]", "((((((((((((()))))))))))))"}) {
    EXPECT_TRUE(matches(automaton, text)) << text;
  }
  for (const char* text : {"(", "(()", "[("}) {
    EXPECT_NE(run(automaton, text), GrammarAutomaton::kDead) << text;
    EXPECT_FALSE(matches(automaton, text)) << text;
  }
  for (const char* text : {")", "(]", "([)]", "())", "x"}) EXPECT_EQ(run(automaton, text), GrammarAutomaton::kDead);
}

TEST(GrammarAutomaton, EqualTextsToFollowAreOneState) {
  GrammarAutomaton automaton(nested_brackets());
  EXPECT_EQ(run(automaton, "()[]()"), run(automaton, "[[]]()()"));
  EXPECT_EQ(run(automaton, "(()"), run(automaton, "("));
  EXPECT_NE(run(automaton, "("), run(automaton, "["));
}

TEST(GrammarAutomaton, RepetitionsDoNotPileUp) {
  GrammarBuilder builder;
  const Grammar::Sequence letter = builder.bytes(ByteSet().set('a').set('b'));
  GrammarAutomaton automaton(finish(builder, builder.repeat(letter, 0, std::nullopt)));
  const State one = run(automaton, "a");
  EXPECT_EQ(run(automaton, std::string(100'000, 'a')), one);
  EXPECT_EQ(run(automaton, "abababab"), one);
}

TEST(GrammarAutomaton, CountsRepetitions) {
  GrammarBuilder builder;
  GrammarAutomaton automaton(finish(builder, builder.repeat(builder.text("ab"), 2, 4)));
  for (int n = 0; n < 7; ++n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "ab";
    EXPECT_EQ(matches(automaton, text), n >= 2 && n <= 4) << n;
  }
  EXPECT_TRUE(automaton.is_final(run(automaton, "abababab")));
  EXPECT_FALSE(automaton.is_final(run(automaton, "abab")));
}

TEST(GrammarAutomaton, AlternativesThatBeginAlikeAreFollowedTogether) {
  GrammarBuilder builder;
  const Grammar::Sequence choice = builder.any_of({builder.text("ab"), builder.text("abc"), builder.text("abd")});
  GrammarAutomaton automaton(finish(builder, builder.concat({choice, builder.optional(builder.text("c"))})));
  for (const char* text : {"ab", "abc", "abcc", "abd", "abdc"}) EXPECT_TRUE(matches(automaton, text)) << text;
  for (const char* text : {"a", "abccc", "abdd", "b"}) EXPECT_FALSE(matches(automaton, text)) << text;
}

TEST(GrammarAutomaton, RulesThatMatchNothingAreDead) {
  GrammarBuilder builder;
  const Grammar::RuleId nothing = builder.declare();
  builder.define(nothing, {});
  GrammarAutomaton automaton(finish(builder, builder.rule(nothing)));
  EXPECT_EQ(automaton.start(), GrammarAutomaton::kDead);
}

TEST(GrammarAutomaton, SaysWhenThereAreTooManyStates) {
  GrammarAutomaton automaton(nested_brackets());
  EXPECT_TRUE(matches(automaton, "(())"));
  const std::string deep(GrammarAutomaton::kMaxStates, '(');
  run(automaton, deep.substr(0, deep.size() / 5));
  EXPECT_FALSE(automaton.is_crowded());
  run(automaton, deep.substr(0, deep.size() / 3 * 2));
  EXPECT_TRUE(automaton.is_crowded() && !automaton.is_full());
  EXPECT_EQ(run(automaton, deep), GrammarAutomaton::kDead);
  EXPECT_TRUE(automaton.is_full());
  EXPECT_TRUE(matches(automaton, "(())")) << "what is known stays";
  automaton.forget();
  automaton.allow_work();
  EXPECT_TRUE(matches(automaton, "(()[])[[]]")) << "and there is room again";
}

TEST(GrammarAutomaton, ForgetsWhatNobodyHolds) {
  GrammarAutomaton automaton(nested_brackets());
  const State start = automaton.start(), held = run(automaton, "([["), other = run(automaton, "[[[[");
  automaton.hold(held);
  automaton.hold(held);
  automaton.hold(other);
  automaton.release(other);
  automaton.release(held);
  EXPECT_EQ(automaton.n_states(), 8u);
  automaton.forget();
  EXPECT_EQ(automaton.n_states(), 2u);
  EXPECT_EQ(automaton.start(), start);
  // Ids that were given up are others' now; what was held has its meaning still.
  const State deep = run(automaton, "((((((((");
  EXPECT_EQ(run(automaton, "([["), held);
  EXPECT_EQ(automaton.next(automaton.next(automaton.next(held, ']'), ']'), ')'), start);
  EXPECT_EQ(automaton.next(held, ')'), GrammarAutomaton::kDead);
  EXPECT_NE(deep, held);
  automaton.release(held);
  automaton.forget();
  EXPECT_EQ(automaton.n_states(), 1u);
}

// Where a repetition may have begun at many places, only the one that leaves most is of use.
TEST(GrammarAutomaton, PlacesThatARepetitionMayHaveBegunAtAreNoStatesOfTheirOwn) {
  for (const auto& [pattern, max_states] : std::initializer_list<std::pair<const char*, size_t>>{
           {"[ab ]* [ab ]{1,100}", 110}, {"([ab]{1,20} ?){1,200}", 60'000}, {"([ab]{0,9}){0,9}", 50}}) {
    GrammarAutomaton automaton(of_regex(pattern));
    std::mt19937 random(1);
    for (int i = 0; i < 20; ++i) {
      std::string text;
      while (text.size() < 150) text += "ab "[random() % (text.empty() || text.back() == ' ' ? 2 : 3)];
      automaton.allow_work();
      run(automaton, text);
      ASSERT_FALSE(automaton.is_full()) << pattern;
    }
    EXPECT_LT(automaton.n_states(), max_states) << pattern;
  }
}

// Repetitions of repetitions, put together at random, on all short texts: what is dropped for being contained elsewhere
// must be missing nowhere.
TEST(GrammarAutomaton, AmbiguousRepetitionsAreWhatAnotherRecogniserSays) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return random() % n; };
  const std::function<std::string(int)> pattern_of = [&](int depth) -> std::string {
    if (depth == 0) return std::array{"a", "b", "[ab]"}[below(3)];
    std::string pattern;
    for (uint32_t i = 0; i <= below(3); ++i) {
      const uint32_t min = below(3), max = min + below(4);
      pattern += "(" + pattern_of(depth - 1) + (below(3) == 0 ? "|" + pattern_of(depth - 1) : "") + ")";
      pattern += below(5) == 0 ? "*" : "{" + std::to_string(min) + "," + std::to_string(std::max(max, 1u)) + "}";
    }
    return pattern;
  };
  size_t n_matching = 0, n_texts = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string pattern = pattern_of(1 + i % 2);
    const Grammar grammar = of_regex(pattern);
    GrammarAutomaton automaton(grammar);
    EarleyRecogniser recogniser(grammar);
    for (uint32_t bits = 1; bits < 1u << 8; ++bits) {  // behind the leading one
      std::string text;
      for (int at = std::bit_width(bits) - 2; at >= 0; --at) text += (bits >> at & 1) != 0 ? 'b' : 'a';
      const bool is_match = recogniser.matches(text);
      automaton.allow_work();
      ASSERT_EQ(matches(automaton, text), is_match) << pattern << " on " << text;
      n_matching += is_match ? 1 : 0;
      ++n_texts;
    }
    ASSERT_FALSE(automaton.is_full());
  }
  EXPECT_GT(n_matching, n_texts / 10);
  EXPECT_LT(n_matching, n_texts * 9 / 10);
}

// The same of lists in lists whose lengths are bounded.
TEST(GrammarAutomaton, BoundedListsInListsAreWhatAnotherRecogniserSays) {
  for (const char* schema : {R"({"type": "array", "items": {"$ref": "#"}, "maxItems": 2})",
                             R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 1, "maxItems": 3},
                                           {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}]})"}) {
    const Grammar grammar = json_schema_grammar(schema).value();
    GrammarAutomaton automaton(grammar);
    EarleyRecogniser recogniser(grammar);
    int n_matching = 0;
    for (int number = 1; number < 65'536; ++number) {
      std::string text;
      for (int rest = number; rest > 0; rest /= 4) text += "?[],"[rest % 4];  // other lengths by what is left out
      std::erase(text, '?');
      const bool is_match = recogniser.matches(text);
      automaton.allow_work();
      ASSERT_EQ(matches(automaton, text), is_match) << schema << " on " << text;
      n_matching += is_match ? 1 : 0;
    }
    EXPECT_GT(n_matching, 3);
  }
}

TEST(GrammarAutomaton, FindsRunsOfBytesThatMayComeInAnyOrder) {
  GrammarAutomaton automaton(of_regex("[a-z]{6}(-|[0-9]{3})[a-z]*"));
  const auto letters = [] {
    ByteSet set;
    for (char c = 'a'; c <= 'z'; ++c) set.set(static_cast<uint8_t>(c));
    return set;
  }();
  EXPECT_EQ(automaton.find_run(automaton.start(), 1, 100).len, 6u);
  EXPECT_EQ(automaton.find_run(automaton.start(), 1, 100).bytes, letters);
  EXPECT_EQ(automaton.find_run(automaton.start(), 1, 4).len, 4u);
  EXPECT_EQ(automaton.find_run(run(automaton, "abcdef"), 1, 100).len, 3u);
  EXPECT_EQ(automaton.find_run(run(automaton, "abcdef"), 1, 100).bytes.count(), 10u);
  EXPECT_EQ(automaton.find_run(run(automaton, "abcdef-x"), 1, 100).len, 100u);
  EXPECT_EQ(automaton.find_run(automaton.start(), 27, 100).len, 0u) << "26 letters are too few";
}

// Two kinds of lists whose first elements are such lists again: what may lie around a bracket doubles with each one.
// What was too much at one place is nothing to others: texts of many requests run through one automaton.
TEST(GrammarAutomaton, APlaceOfTooManyPossibilitiesIsTheOnlyOneThatIsGivenUp) {
  std::string many = "q";
  for (size_t i = 0; i <= GrammarAutomaton::kMaxStateStacks; ++i) many += "|q";
  GrammarAutomaton automaton(of_regex("(?:a[0-9]{20}|bx(?:" + many + "))z"));
  (void)run(automaton, "bx");
  EXPECT_TRUE(automaton.is_full());
  automaton.allow_work();
  const State behind = run(automaton, "a1");
  ASSERT_NE(behind, GrammarAutomaton::kDead);
  EXPECT_EQ(automaton.next(behind, 'x'), GrammarAutomaton::kDead);
  EXPECT_FALSE(automaton.is_full()) << "it was looked at";
  EXPECT_TRUE(matches(automaton, "a12345678901234567890z"));
}

TEST(GrammarAutomaton, PossibilitiesThatMultiplyAreGivenUp) {
  GrammarBuilder builder;
  const Grammar::RuleId value = builder.declare();
  const auto list = [&](std::string_view end) {
    return builder.concat({builder.text("["), builder.rule(value), builder.text(end)});
  };
  builder.define(value, {list("1]"), list("2]"), builder.text("0")});
  GrammarAutomaton automaton(finish(builder, builder.rule(value)));
  EXPECT_TRUE(matches(automaton, "[[[01]2]1]"));
  EXPECT_EQ(run(automaton, std::string(100, '[')), GrammarAutomaton::kDead);
  EXPECT_TRUE(automaton.is_full());
}

}  // namespace
}  // namespace bass
