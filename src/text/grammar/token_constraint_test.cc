#include "text/grammar/token_constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "text/grammar/behind_thoughts.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/vocab.h"

namespace bass {
namespace {

constexpr int kPadding = 40;  // ids of the model behind those of the tokenizer

// A SentencePiece vocabulary: all bytes, letters, and pieces as real ones have them, and more. The first three are
// control tokens.
std::unique_ptr<Tokenizer> make_tokenizer(const std::vector<std::string>& more = {}) {
  VocabData vocab;
  vocab.model = "llama";
  const auto add = [&](const std::string& text, TokenType type) {
    vocab.tokens.push_back(text);
    vocab.token_types.push_back(static_cast<int32_t>(type));
    vocab.scores.push_back(-static_cast<double>(vocab.tokens.size()));
  };
  add("<unk>", TokenType::kUnknown);
  add("<s>", TokenType::kControl);
  add("</s>", TokenType::kControl);
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  vocab.unknown_id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    add(name, TokenType::kByte);
  }
  for (const char* piece :
       {"{", "}", "\"", ":",  ",",  "{\"",  "\":", "\",", "\"}", "true", "tru", "false", "null", "12", "3",
        "[", "]", "[[", "]]", "]}", "name", "na",  "me",  "a",   "b",    "ab",  "aba",   "é",    "\\"}) {
    add(piece, TokenType::kNormal);
  }
  add(std::string(40, '-'), TokenType::kNormal);
  for (const std::string& piece : more) add(piece, TokenType::kNormal);
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocab));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

class TokenConstraintTest : public ::testing::Test {
 protected:
  using State = TokenConstraint::State;

  [[nodiscard]] std::unique_ptr<TokenConstraint> constrain(Grammar grammar) const {
    return std::make_unique<TokenConstraint>(std::move(grammar), texts_);
  }
  [[nodiscard]] std::unique_ptr<TokenConstraint> of_schema(std::string_view schema) const {
    return constrain(json_schema_grammar(schema).value());
  }
  [[nodiscard]] std::unique_ptr<TokenConstraint> of_regex(std::string_view pattern) const {
    GrammarBuilder builder;
    const Grammar::Sequence root = regex_sequence(builder, pattern, RegexText::kPlain).value();
    return constrain(builder.finish(root).value());
  }
  static bool allows(TokenConstraint& constraint, State state, TokenId id) {
    const uint32_t* const mask = constraint.allowed(state);
    return mask == nullptr || TokenMask::has(mask, id);
  }
  [[nodiscard]] std::vector<TokenId> allowed_ids(TokenConstraint& constraint, State state) const {
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < n_tokens_; ++id) {
      if (allows(constraint, state, id)) ids.push_back(id);
    }
    return ids;
  }
  [[nodiscard]] TokenId id_of(std::string_view text) const {
    for (TokenId id = tokenizer_->vocab_size() - 1; id >= 0; --id) {
      if (tokenizer_->token_bytes(id) == text) return id;
    }
    ADD_FAILURE() << text;
    return 0;
  }
  static State follow(TokenConstraint& constraint, const std::vector<TokenId>& tokens) {
    State state = constraint.start();
    for (const TokenId token : tokens) {
      if (state != TokenConstraint::kDead) state = constraint.next(state, token);
    }
    return state;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer();
  int n_tokens_ = tokenizer_->vocab_size() + kPadding;
  std::shared_ptr<const TokenTexts> texts_ = std::make_shared<const TokenTexts>(*tokenizer_, n_tokens_);
};

// Random walks, where at each place a mask is what each token by itself is told.
TEST_F(TokenConstraintTest, MasksAreWhatEachTokenIsToldByItself) {
  std::mt19937 random(7);
  int n_ended = 0;
  for (const char* schema : {"{}", R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}})",
                             R"({"type": "array", "items": {"enum": [12, 123, "ab", true, null]}, "minItems": 2})",
                             R"({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 1},
                                 {"type": "array", "items": {"$ref": "#"}, "minItems": 2, "maxItems": 2}]})"}) {
    const auto constraint = of_schema(schema);
    const auto other = of_schema(schema);  // where no mask was made
    for (int walk = 0; walk < 30; ++walk) {
      State state = constraint->start();
      std::vector<TokenId> text;
      for (int i = 0; i < 12; ++i) {
        const std::vector<TokenId> ids = allowed_ids(*constraint, state);
        ASSERT_FALSE(ids.empty()) << constraint->why_stuck(state, true);
        State there = other->start();
        for (const TokenId token : text) there = other->next(there, token);
        for (TokenId id = 0; id < n_tokens_; ++id) {
          if (id == *tokenizer_->eos_id()) continue;
          ASSERT_EQ(allows(*constraint, state, id), other->next(there, id) != TokenConstraint::kDead) << id;
        }
        const TokenId next = ids[random() % ids.size()];
        if (next == *tokenizer_->eos_id()) {
          ++n_ended;
          break;
        }
        text.push_back(next);
        state = constraint->next(state, next);
        if (constraint->is_complete(state)) break;
      }
    }
  }
  EXPECT_GT(n_ended, 0);
}

TEST_F(TokenConstraintTest, ControlTokensAndPaddingAreNoText) {
  const auto constraint = of_regex(".*");
  const State state = constraint->start();
  for (const TokenId id : {0, 1, tokenizer_->vocab_size(), n_tokens_ - 1}) {
    EXPECT_FALSE(allows(*constraint, state, id)) << id;
    EXPECT_EQ(constraint->next(state, id), TokenConstraint::kDead) << id;
  }
}

TEST_F(TokenConstraintTest, TheEndIsAllowedWhereTheTextMayEnd) {
  const auto constraint = of_regex("a+");
  const TokenId eos = *tokenizer_->eos_id();
  EXPECT_FALSE(allows(*constraint, constraint->start(), eos));
  const State behind = follow(*constraint, {id_of("a")});
  EXPECT_TRUE(allows(*constraint, behind, eos));
  EXPECT_FALSE(constraint->is_complete(behind)) << "more may follow";
  EXPECT_EQ(constraint->next(behind, eos), TokenConstraint::kDead);
}

TEST_F(TokenConstraintTest, ATextThatNothingMayFollowIsComplete) {
  const auto constraint = of_regex("aba|b");
  EXPECT_TRUE(constraint->is_complete(follow(*constraint, {id_of("ab"), id_of("a")})));
  EXPECT_TRUE(constraint->is_complete(follow(*constraint, {id_of("b")})));
  EXPECT_FALSE(constraint->is_complete(follow(*constraint, {id_of("ab")})));
  EXPECT_FALSE(constraint->is_complete(TokenConstraint::kDead));
}

TEST_F(TokenConstraintTest, TokensMayCutCharactersAndWords) {
  const auto constraint = of_regex("é");
  const State half = follow(*constraint, {3 + 0xC3});
  EXPECT_EQ(allowed_ids(*constraint, half), std::vector<TokenId>{3 + 0xA9});
  EXPECT_TRUE(constraint->is_complete(follow(*constraint, {3 + 0xC3, 3 + 0xA9})));
  EXPECT_TRUE(constraint->is_complete(follow(*constraint, {id_of("é")})));
}

TEST_F(TokenConstraintTest, CountsTheTokensThatMayFollowOneAnother) {
  const auto constraint = of_regex("ab[ab]*c");
  const std::vector<TokenId> tokens{id_of("a"), id_of("b"), id_of("aba"), id_of("na"), id_of("a")};
  EXPECT_EQ(constraint->n_allowed_of(constraint->start(), tokens), 3u);
  EXPECT_EQ(constraint->n_allowed_of(constraint->start(), std::span(tokens).first(2)), 2u);
  EXPECT_EQ(constraint->n_allowed_of(constraint->start(), {}), 0u);
}

TEST_F(TokenConstraintTest, SaysWhyItIsStuck) {
  VocabData vocab;  // of letters alone
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "a", "b"};
  vocab.token_types = {2, 1, 1};
  vocab.scores = {0, -1, -2};
  vocab.unknown_id = 0;
  const auto letters = Tokenizer::create(std::move(vocab)).value();
  GrammarBuilder builder;
  const Grammar::Sequence root = regex_sequence(builder, "a[0-9]", RegexText::kPlain).value();
  TokenConstraint constraint(builder.finish(root).value(), std::make_shared<const TokenTexts>(*letters, 3));
  EXPECT_TRUE(allows(constraint, constraint.start(), 1));
  EXPECT_EQ(constraint.why_stuck(constraint.start(), true), "");
  const State behind = constraint.next(constraint.start(), 1);
  EXPECT_FALSE(allows(constraint, behind, 1));
  EXPECT_NE(constraint.why_stuck(behind, true).find("vocabulary lacks"), std::string::npos);
}

// The states of this language are all that the last 24 letters may be. Where there is no room for more, nothing is
// allowed: a part of what may follow would be another distribution.
TEST_F(TokenConstraintTest, AMaskIsWholeOrEmpty) {
  const auto constraint = of_regex("[ab]*a[ab]{24}");
  const std::vector<TokenId> letters{id_of("a"), id_of("b"), id_of("ab"), id_of("aba")};
  std::mt19937 random(3);
  int n_whole = 0;
  State state = constraint->start();
  bool is_stuck = false;
  for (int i = 0; i < 200'000 && !is_stuck; ++i) {
    size_t n_allowed = 0;
    for (const TokenId id : letters) n_allowed += allows(*constraint, state, id) ? 1 : 0;
    ASSERT_TRUE(n_allowed == letters.size() || n_allowed == 0) << n_allowed;
    is_stuck = n_allowed == 0;
    if (is_stuck) break;
    ++n_whole;
    state = constraint->next(state, letters[random() % letters.size()]);
    ASSERT_NE(state, TokenConstraint::kDead);
  }
  ASSERT_TRUE(is_stuck);
  EXPECT_GT(n_whole, 100);
  EXPECT_NE(constraint->why_stuck(state, true).find("too many possibilities"), std::string::npos);
}

// The same language for as long as one likes: what nobody stands at any more makes room.
TEST_F(TokenConstraintTest, TextsGoOnForLongerThanThereIsRoomForTheirStates) {
  const std::shared_ptr<TokenConstraint> constraint = of_regex("[ab]*a[ab]{24}");
  const std::array letters{id_of("a"), id_of("b"), id_of("ab"), id_of("aba")};
  std::mt19937 random(3);
  ConstraintPlace waits(constraint);  // at a place that the other text leaves behind
  for (const TokenId token : {id_of("a"), id_of("ab"), id_of("aba")}) waits.advance(token);
  const State waited_at = waits.state();
  const std::vector<TokenId> may_follow = allowed_ids(*constraint, waited_at);
  ConstraintPlace place(constraint);
  for (int i = 0; i < 60'000; ++i) {
    for (const TokenId id : letters) ASSERT_TRUE(allows(*constraint, place.state(), id)) << i;
    place.advance(letters[random() % letters.size()]);
    ASSERT_NE(place.state(), TokenConstraint::kDead);
    if (i % 8 == 0) constraint->trim();
  }
  EXPECT_EQ(waits.state(), waited_at);
  EXPECT_EQ(allowed_ids(*constraint, waited_at), may_follow);
  const auto anew = of_regex("[ab]*a[ab]{24}");
  State there = follow(*anew, {id_of("a"), id_of("ab"), id_of("aba")});
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(allowed_ids(*constraint, waits.state()), allowed_ids(*anew, there)) << i;
    const TokenId token = letters[random() % letters.size()];
    waits.advance(token);
    there = anew->next(there, token);
  }
}

// A thought first, and then what tells the alternatives apart: inside it all of them are followed.
TEST_F(TokenConstraintTest, ManyAlternativesThatBeginAlikeAreFollowed) {
  std::string schema = R"({"anyOf": [)";
  for (int i = 0; i < 200; ++i) {
    schema += (i > 0 ? "," : "") +
              std::string(R"({"type": "object", "properties": {"thought": {"type": "string"}, "a)") +
              std::to_string(i) + R"(": {"const": 1}}, "required": ["thought", "a)" + std::to_string(i) + R"("]})";
  }
  const auto constraint = of_schema(schema + "]}");
  State state = constraint->start();
  for (const std::string_view text :
       {"{\"", "t", "h", "o", "u", "g", "h", "t", "\":", "\"", "ab", "\\", "n", "é", "a"}) {
    ASSERT_TRUE(allows(*constraint, state, id_of(text))) << text << constraint->why_stuck(state, true);
    state = constraint->next(state, id_of(text));
  }
}

TEST_F(TokenConstraintTest, AMaskThatWasTooMuchIsMadeAnotherTime) {
  const std::shared_ptr<TokenConstraint> constraint = of_regex("[ab]*a[ab]{24}");
  ConstraintPlace place(constraint);
  std::mt19937 random(3);
  const auto is_stuck = [&] { return !allows(*constraint, place.state(), id_of("a")); };
  for (int i = 0; i < 200'000 && !is_stuck(); ++i) place.advance(id_of(random() % 2 == 0 ? "a" : "b"));
  ASSERT_TRUE(is_stuck()) << "nothing was trimmed";
  EXPECT_NE(constraint->why_stuck(place.state(), true), "");
  constraint->trim();
  EXPECT_FALSE(is_stuck());
  EXPECT_EQ(constraint->why_stuck(place.state(), true), "");
}

// Each bracket doubles what may lie around it. No token has more than two of them, so no more are looked at.
TEST_F(TokenConstraintTest, NothingIsFollowedFurtherThanTokensGo) {
  const auto constraint = of_schema(
      R"({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1, "maxItems": 1},
          {"type": "array", "items": {"$ref": "#"}, "minItems": 2, "maxItems": 2}]})");
  State state = constraint->start();
  for (const std::string_view text : {"[[", "null", "]", "]"}) {
    ASSERT_TRUE(allows(*constraint, state, id_of(text))) << text << constraint->why_stuck(state, true);
    state = constraint->next(state, id_of(text));
  }
  EXPECT_TRUE(constraint->is_complete(state));
}

// --- thoughts with a budget

class ThoughtBudgetTest : public TokenConstraintTest {
 protected:
  static constexpr ThoughtBudget kTwo{ThoughtsAhead::kBegun, 2};

  // With a token for the mark, as models that think have one, or pieces of it alone.
  void use_pieces(const std::vector<std::string>& pieces) {
    tokenizer_ = make_tokenizer(pieces);
    n_tokens_ = tokenizer_->vocab_size() + kPadding;
    texts_ = std::make_shared<const TokenTexts>(*tokenizer_, n_tokens_);
  }
  [[nodiscard]] std::shared_ptr<TokenConstraint> free_text(const ThoughtBudget& budget) const {
    return std::make_shared<TokenConstraint>(texts_, budget);
  }
  [[nodiscard]] std::shared_ptr<TokenConstraint> behind_thoughts_of(const char* pattern, ThoughtsAhead ahead,
                                                                    uint32_t max_tokens) const {
    GrammarBuilder builder;
    const Grammar::Sequence root = regex_sequence(builder, pattern, RegexText::kPlain).value();
    const Grammar both = behind_thoughts(builder.finish(root).value(), ahead).value();
    return std::make_shared<TokenConstraint>(both, texts_, ThoughtBudget{ahead, max_tokens});
  }
  [[nodiscard]] std::vector<std::string> allowed_texts(TokenConstraint& constraint, State state) const {
    std::vector<std::string> texts;
    for (const TokenId id : allowed_ids(constraint, state)) texts.push_back(tokenizer_->token_bytes(id));
    return texts;
  }
  [[nodiscard]] State behind(TokenConstraint& constraint, const std::vector<std::string>& texts) const {
    std::vector<TokenId> ids;
    for (const std::string& text : texts) ids.push_back(id_of(text));
    return follow(constraint, ids);
  }
};

TEST_F(ThoughtBudgetTest, AllIsAllowedUntilItIsSpentAndThenTheMarkAlone) {
  use_pieces({"</think>", "</", "think", ">\n"});
  const auto constraint = free_text(kTwo);
  for (const State& state : {constraint->start(), behind(*constraint, {"a"})}) {
    for (TokenId id = 0; id < n_tokens_; ++id) ASSERT_TRUE(allows(*constraint, state, id)) << id;
  }
  const State spent = behind(*constraint, {"a", "b"});
  EXPECT_EQ(allowed_texts(*constraint, spent), std::vector<std::string>{"</think>"});
  EXPECT_EQ(constraint->next(spent, id_of("a")), TokenConstraint::kDead);
  EXPECT_EQ(constraint->next(spent, *tokenizer_->eos_id()), TokenConstraint::kDead);
  const State over = constraint->next(spent, id_of("</think>"));
  EXPECT_TRUE(constraint->is_free(over));
  EXPECT_FALSE(constraint->is_free(spent));
  EXPECT_FALSE(constraint->is_complete(over));
  EXPECT_TRUE(allows(*constraint, over, *tokenizer_->eos_id()));
}

TEST_F(ThoughtBudgetTest, AMarkThatHasBegunIsCompleted) {
  use_pieces({"</think>", "</", "think", ">\n"});
  const auto constraint = free_text(kTwo);
  const State state = behind(*constraint, {"a", "</"});
  EXPECT_EQ(allowed_texts(*constraint, state), (std::vector<std::string>{"t", "think"}));
  const State last = constraint->next(state, id_of("think"));
  EXPECT_EQ(allowed_texts(*constraint, last), std::vector<std::string>{">"});
  EXPECT_TRUE(constraint->is_free(constraint->next(last, id_of(">"))));
}

TEST_F(ThoughtBudgetTest, WithoutATokenForTheMarkItIsSpelt) {
  const auto constraint = free_text({ThoughtsAhead::kBegun, 0});
  State state = constraint->start();
  for (const char letter : std::string("</think>")) {
    EXPECT_EQ(allowed_texts(*constraint, state), std::vector<std::string>{std::string(1, letter)});
    state = constraint->next(state, id_of(std::string(1, letter)));
  }
  EXPECT_TRUE(constraint->is_free(state));
}

TEST_F(ThoughtBudgetTest, WhatFollowsFitsTheGrammar) {
  use_pieces({"<think>", "</think>", "</think>a", "</think>]"});
  const auto begun = behind_thoughts_of("ab", ThoughtsAhead::kBegun, 2);
  EXPECT_TRUE(allows(*begun, behind(*begun, {"]"}), id_of("]")));
  EXPECT_FALSE(allows(*begun, behind(*begun, {"]"}), *tokenizer_->eos_id())) << "thoughts have to end first";
  const State spent = behind(*begun, {"]", "]"});
  EXPECT_EQ(allowed_texts(*begun, spent), std::vector<std::string>{"</think>"});
  EXPECT_TRUE(begun->is_complete(behind(*begun, {"]", "]", "</think>", "ab"})));
  EXPECT_EQ(behind(*begun, {"]", "]", "]"}), TokenConstraint::kDead);
  EXPECT_TRUE(begun->is_complete(behind(*begun, {"]", "</think>a", "b"}))) << "they may end sooner";
  const auto may_begin = behind_thoughts_of("ab", ThoughtsAhead::kMayBegin, 1);
  EXPECT_TRUE(may_begin->is_complete(behind(*may_begin, {"a", "b"})));
  EXPECT_EQ(allowed_texts(*may_begin, behind(*may_begin, {"<think>", "]"})), std::vector<std::string>{"</think>"});
  EXPECT_TRUE(may_begin->is_complete(behind(*may_begin, {"<think>", "]", "</think>", "ab"})));
}

TEST_F(ThoughtBudgetTest, APlaceLeavesAConstraintThatAsksNothingMore) {
  use_pieces({"<think>", "</think>"});
  const auto constraint = free_text({ThoughtsAhead::kMayBegin, 1});
  ConstraintPlace talks(constraint), thinks(constraint);
  EXPECT_EQ(constraint.use_count(), 3);
  talks.advance(id_of("a"));
  EXPECT_EQ(talks.constraint(), nullptr);
  for (const char* const text : {"<think>", "a"}) thinks.advance(id_of(text));
  EXPECT_EQ(thinks.constraint(), constraint.get());
  thinks.advance(id_of("</think>"));
  EXPECT_EQ(thinks.constraint(), nullptr);
  EXPECT_FALSE(thinks.is_lost() || thinks.is_complete());
  EXPECT_EQ(constraint.use_count(), 1);
  ConstraintPlace lost(constraint);
  for (const char* const text : {"<think>", "a", "a"}) lost.advance(id_of(text));
  EXPECT_TRUE(lost.is_lost());
}

TEST_F(TokenConstraintTest, APlaceMayBeMoved) {
  const std::shared_ptr<TokenConstraint> constraint = of_regex("ab*");
  ConstraintPlace place(constraint);
  place.advance(id_of("a"));
  const State behind = place.state();
  ConstraintPlace other(std::move(place));
  EXPECT_EQ(other.state(), behind);
  EXPECT_EQ(other.constraint(), constraint.get());
  other = ConstraintPlace();
  EXPECT_EQ(other.state(), TokenConstraint::kDead);
  EXPECT_EQ(constraint.use_count(), 1);
  ConstraintPlace lost(constraint);
  lost.advance(id_of("na"));
  EXPECT_EQ(lost.state(), TokenConstraint::kDead);
}

// In a bounded string most tokens are not followed one by one (TokenTexts::split): near its end, too, those that are
// longer than what is left must not be allowed.
TEST_F(TokenConstraintTest, BoundedStringsAllowWhatFits) {
  for (const int max : {1, 3, 4, 5, 9, 40}) {
    const auto constraint = of_regex("[ -~é]{0," + std::to_string(max) + "}");
    State state = constraint->start();
    for (int n_read = 0; n_read <= max; ++n_read) {
      for (TokenId id = 3; id < tokenizer_->vocab_size(); ++id) {
        const std::string& text = tokenizer_->token_bytes(id);
        const bool is_ascii = std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
        if (!is_ascii) continue;
        ASSERT_EQ(allows(*constraint, state, id), n_read + static_cast<int>(text.size()) <= max) << text << n_read;
      }
      EXPECT_EQ(allows(*constraint, state, id_of("é")), n_read < max);
      if (n_read < max) state = constraint->next(state, id_of("a"));
    }
    EXPECT_TRUE(constraint->is_complete(state));
  }
}

TEST_F(TokenConstraintTest, SplitsAreWorthwhileOrNone) {
  ByteSet printable;
  for (int byte = ' '; byte <= '~'; ++byte) printable.set(static_cast<size_t>(byte));
  const auto split = texts_->split(printable, 9);
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(texts_->split(printable, 8), split) << "lengths are rounded down";
  EXPECT_NE(texts_->split(printable, 7), split);
  EXPECT_EQ(texts_->split(printable, 3), nullptr);
  EXPECT_EQ(texts_->split(ByteSet().set('a'), 9), nullptr);
  size_t n_made_of = 0;
  for (const uint32_t word : split->made_of) n_made_of += static_cast<size_t>(std::popcount(word));
  EXPECT_EQ(n_made_of + split->others.entries.size(), texts_->all().entries.size());
}

TEST_F(TokenConstraintTest, ThreadsMayAskAtOnce) {
  const auto constraint = of_schema("{}");
  const auto alone = of_schema("{}");
  std::vector<std::thread> threads;
  std::vector<std::vector<TokenId>> found(4);
  for (auto& ids : found) {
    threads.emplace_back([&] {
      State state = constraint->start();
      for (const std::string_view text : {"{\"", "a", "\":", "[", "12"}) {
        state = constraint->next(state, id_of(text));
        const std::vector<TokenId> allowed = allowed_ids(*constraint, state);
        ids.insert(ids.end(), allowed.begin(), allowed.end());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<TokenId> expected;
  State state = alone->start();
  for (const std::string_view text : {"{\"", "a", "\":", "[", "12"}) {
    state = alone->next(state, id_of(text));
    const std::vector<TokenId> allowed = allowed_ids(*alone, state);
    expected.insert(expected.end(), allowed.begin(), allowed.end());
  }
  ASSERT_GT(expected.size(), 100u);
  for (const auto& ids : found) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace bass
