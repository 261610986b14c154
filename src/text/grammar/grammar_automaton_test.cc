#include "text/grammar/grammar_automaton.h"

#include <gtest/gtest.h>

#include <string>

namespace bass {
namespace {

using State = GrammarAutomaton::State;

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
  run(automaton, deep.substr(0, deep.size() / 3));
  EXPECT_FALSE(automaton.is_worn());
  run(automaton, deep.substr(0, deep.size() / 3 * 2));
  EXPECT_TRUE(automaton.is_worn() && !automaton.is_full());
  EXPECT_EQ(run(automaton, deep), GrammarAutomaton::kDead);
  EXPECT_TRUE(automaton.is_full());
  EXPECT_TRUE(matches(automaton, "(())")) << "what is known stays";
}

// Two kinds of lists whose first elements are such lists again: what may lie around a bracket doubles with each one.
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
