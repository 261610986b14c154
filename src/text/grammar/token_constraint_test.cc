#include "text/grammar/token_constraint.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/vocab.h"

namespace bass {
namespace {

using State = TokenConstraint::State;

constexpr int kPadding = 40;  // ids of the model behind those of the tokenizer

// A SentencePiece vocabulary: all bytes, letters, and pieces as real ones have them. The first three are control
// tokens.
std::unique_ptr<Tokenizer> make_tokenizer() {
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
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocab));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

class TokenConstraintTest : public ::testing::Test {
 protected:
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
    return (constraint.allowed(state)[id / 32] >> (id % 32) & 1u) != 0;
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
                             R"({"type": "array", "items": {"enum": [12, 123, "ab", true, null]}, "minItems": 2})"}) {
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
  EXPECT_TRUE(constraint->is_worn());
  EXPECT_NE(constraint->why_stuck(state, true).find("too many possibilities"), std::string::npos);
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
