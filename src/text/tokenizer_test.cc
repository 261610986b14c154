#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "support/byte_vocab.h"

namespace bass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_byte_vocab;
using ::testing::StartsWith;

const std::vector<std::string> kMerges = {"h e", "l l", "he ll", "hell o", "\u0120 \u0120", "\u0120 hello"};
enum : TokenId { kHe = 256, kLl, kHell, kHello, kTwoSpaces, kSpaceHello, kEnd, kTurn };

VocabData small_vocab() { return make_byte_vocab(kMerges, {"<end>", "<|im_end|>"}); }

std::unique_ptr<Tokenizer> make(VocabData vocab) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocab));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

std::string error_of(VocabData vocab) {
  vocab.source = "some.gguf";
  const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocab));
  EXPECT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(tokenizer.status().message(), StartsWith("some.gguf: "));
  return tokenizer.status().message();
}

TEST(TokenizerTest, Merges) {
  const auto tokenizer = make(small_vocab());
  EXPECT_THAT(tokenizer->encode("").value(), IsEmpty());
  EXPECT_THAT(tokenizer->encode("hello").value(), ElementsAre(kHello));
  EXPECT_THAT(tokenizer->encode("hello hello").value(), ElementsAre(kHello, kSpaceHello));
  EXPECT_THAT(tokenizer->encode("hell\xFF").value(), ElementsAre(kHell, 0xFF));
  EXPECT_THAT(tokenizer->encode("   he").value(), ElementsAre(kTwoSpaces, ' ', kHe));
}

TEST(TokenizerTest, ParsesSpecialTokensWhenAsked) {
  const auto tokenizer = make(small_vocab());
  EXPECT_THAT(tokenizer->encode("he<end>he", {.parse_special = true}).value(), ElementsAre(kHe, kEnd, kHe));
  EXPECT_THAT(tokenizer->encode("<end>", {.parse_special = false}).value(), ElementsAre('<', 'e', 'n', 'd', '>'));
  EXPECT_THAT(tokenizer->encode("<end><end>", {.parse_special = true}).value(), ElementsAre(kEnd, kEnd));
}

TEST(TokenizerTest, UserDefinedTokensAreAlwaysParsed) {
  VocabData vocab = small_vocab();
  vocab.token_types[kEnd] = static_cast<int32_t>(TokenType::kUserDefined);
  const auto tokenizer = make(std::move(vocab));
  for (const bool parse_special : {false, true}) {
    EXPECT_THAT(tokenizer->encode("<end>", {.parse_special = parse_special}).value(), ElementsAre(kEnd));
  }
  EXPECT_FALSE(tokenizer->is_control(kEnd));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{kEnd}, false).value(), "<end>");
}

TEST(TokenizerTest, AddsBeginAndEndTokens) {
  VocabData vocab = small_vocab();
  vocab.bos_id = kEnd;
  vocab.eos_id = kTurn;
  vocab.add_bos = true;
  EXPECT_THAT(make(vocab)->encode("he", {.add_special = true}).value(), ElementsAre(kEnd, kHe));
  vocab.add_eos = true;
  EXPECT_THAT(make(vocab)->encode("he", {.add_special = true}).value(), ElementsAre(kEnd, kHe, kTurn));
  EXPECT_THAT(make(vocab)->encode("he", {.add_special = false}).value(), ElementsAre(kHe));
}

TEST(TokenizerTest, Decodes) {
  const auto tokenizer = make(small_vocab());
  const std::vector<TokenId> ids = {kHello, kEnd, kSpaceHello, 0xC3};
  EXPECT_EQ(tokenizer->decode(ids, false).value(), "hello hello\xC3");
  EXPECT_EQ(tokenizer->decode(ids, true).value(), "hello<end> hello\xC3");
  EXPECT_EQ(tokenizer->token_bytes(kTwoSpaces), "  ");
  EXPECT_EQ(tokenizer->token_bytes(kEnd), "<end>");
  EXPECT_EQ(tokenizer->vocab_size(), 264);
  for (const TokenId id : {-1, 264, 1 << 30}) {
    const Result<std::string> text = tokenizer->decode(std::vector<TokenId>{id}, false);
    ASSERT_FALSE(text.ok());
    EXPECT_THAT(text.status().message(), HasSubstr(std::to_string(id)));
  }
}

TEST(TokenizerTest, KnowsEndTokens) {
  VocabData vocab = small_vocab();
  EXPECT_THAT(make(vocab)->end_ids(), ElementsAre(kTurn));  // by its text
  vocab.eos_id = kTurn;
  vocab.eot_id = kEnd;
  const auto tokenizer = make(vocab);
  EXPECT_THAT(tokenizer->end_ids(), ElementsAre(kEnd, kTurn));
  EXPECT_TRUE(tokenizer->is_end(kEnd));
  EXPECT_FALSE(tokenizer->is_end(kHe));
  EXPECT_TRUE(tokenizer->is_control(kEnd));
  vocab = small_vocab();
  vocab.more_end_ids = {kHe, kTurn};
  EXPECT_THAT(make(vocab)->end_ids(), ElementsAre(kHe, kTurn));
}

// Files that call it an ordinary token are common.
TEST(TokenizerTest, ATokenThatEndsATurnDoesSoWhateverItsType) {
  for (const TokenType type : {TokenType::kNormal, TokenType::kUserDefined}) {
    VocabData vocab = small_vocab();
    vocab.token_types[kTurn] = static_cast<int32_t>(type);
    const auto tokenizer = make(vocab);
    EXPECT_THAT(tokenizer->end_ids(), ElementsAre(kTurn));
    EXPECT_TRUE(tokenizer->is_control(kTurn));
    EXPECT_THAT(tokenizer->encode(vocab.tokens[kTurn], {.parse_special = true}).value(), ElementsAre(kTurn));
  }
}

TEST(TokenizerTest, RandomBytesRoundTrip) {
  const auto tokenizer = make(small_vocab());
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): the same bytes each run
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 80, '\0');
    const bool is_texty = random() % 2 == 0;
    for (char& c : text) c = is_texty ? "helo <end>1\xC3\xA9"[random() % 13] : static_cast<char>(random());
    const Result<std::vector<TokenId>> ids =
        tokenizer->encode(text, {.parse_special = random() % 2 == 0, .allow_loss = false});
    ASSERT_TRUE(ids.ok());
    ASSERT_EQ(tokenizer->decode(ids.value(), true).value(), text);
  }
}

TEST(TokenizerTest, LongRunsTakeLinearithmicTime) {
  const auto tokenizer = make(small_vocab());
  const std::string text(1'000'000, ' ');
  EXPECT_EQ(tokenizer->encode(text)->size(), 500'000u);
}

TEST(TokenizerTest, BytesWithoutTokensAreLeftOutOrRefused) {
  VocabData vocab = small_vocab();
  vocab.tokens[0x1D] = "absent";
  const auto tokenizer = make(std::move(vocab));
  EXPECT_THAT(tokenizer->missing_bytes(), ElementsAre(0x1D));
  EXPECT_THAT(tokenizer->encode(".\x1D.").value(), ElementsAre('.', '.'));
  const Result<std::vector<TokenId>> strict = tokenizer->encode(".\x1D.", {.allow_loss = false});
  ASSERT_FALSE(strict.ok());
  EXPECT_THAT(strict.status().message(), HasSubstr("byte 0x1D"));
}

TEST(TokenizerTest, IsThreadSafe) {
  const auto tokenizer = make(small_vocab());
  const std::vector<TokenId> expected = tokenizer->encode("hello  hello 123").value();
  std::vector<std::jthread> threads;
  std::vector<int> n_wrong(4, 0);
  for (size_t t = 0; t < n_wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) n_wrong[t] += tokenizer->encode("hello  hello 123").value() != expected ? 1 : 0;
    });
  }
  threads.clear();
  EXPECT_THAT(n_wrong, ElementsAre(0, 0, 0, 0));
}

TEST(TokenizerTest, OfEqualTokensTheFirstCounts) {
  VocabData vocab = small_vocab();
  vocab.tokens.emplace_back("he");
  vocab.token_types.push_back(1);
  EXPECT_THAT(make(std::move(vocab))->encode("he").value(), ElementsAre(kHe));
}

TEST(TokenizerTest, TextThatSpellsNoBytesStandsForItself) {
  VocabData vocab = small_vocab();
  vocab.tokens.emplace_back("a b\u4e00");
  vocab.token_types.push_back(1);
  EXPECT_EQ(make(std::move(vocab))->token_bytes(264), "a b\u4e00");
}

TEST(TokenizerTest, RefusesUnknownModels) {
  VocabData vocab = small_vocab();
  vocab.model = "bert";
  EXPECT_THAT(error_of(vocab), AllOf(HasSubstr("'bert' is unknown"), HasSubstr("gpt2")));
  vocab = small_vocab();
  vocab.pre = "nonsense";
  EXPECT_THAT(error_of(vocab), AllOf(HasSubstr("'nonsense' is unknown"), HasSubstr("smollm,starcoder")));
}

TEST(TokenizerTest, MessagesCarryNoControlCharacters) {
  VocabData vocab = small_vocab();
  vocab.pre = "\x1b[31mred";
  EXPECT_THAT(error_of(vocab), HasSubstr("'?[31mred' is unknown"));
  vocab = small_vocab();
  vocab.merges.push_back("\x1b[31m" + std::string(1000, 'x'));
  EXPECT_THAT(error_of(vocab), AllOf(HasSubstr("merge 6 is '?[31mxxx"), ::testing::SizeIs(::testing::Lt(300))));
}

TEST(TokenizerTest, RefusesBrokenVocabularies) {
  VocabData vocab = small_vocab();
  vocab.tokens.clear();
  EXPECT_THAT(error_of(vocab), HasSubstr("vocabulary is empty"));
  vocab = small_vocab();
  vocab.token_types.pop_back();
  EXPECT_THAT(error_of(vocab), HasSubstr("264 tokens, but types for 263"));
  vocab = small_vocab();
  vocab.tokens['A'] = "absent";
  EXPECT_THAT(error_of(vocab), HasSubstr("no token for byte 0x41"));
}

TEST(TokenizerTest, RefusesIdsOutsideOfTheVocabulary) {
  for (const int32_t id : {-1, 264, 1 << 30}) {
    for (auto member :
         {&VocabData::bos_id, &VocabData::eos_id, &VocabData::eot_id, &VocabData::unknown_id, &VocabData::padding_id}) {
      VocabData vocab = small_vocab();
      vocab.*member = id;
      EXPECT_THAT(error_of(vocab), HasSubstr("token is " + std::to_string(id) + ", outside"));
    }
  }
  VocabData vocab = small_vocab();
  vocab.add_bos = true;
  EXPECT_THAT(error_of(vocab), HasSubstr("begin token"));
  vocab = small_vocab();
  vocab.add_eos = true;
  EXPECT_THAT(error_of(vocab), HasSubstr("end token"));
}

TEST(TokenizerTest, RefusesBrokenMerges) {
  for (const std::string merge : {"", " ", "ab", "a ", " a"}) {
    VocabData vocab = small_vocab();
    vocab.merges.push_back(merge);
    EXPECT_THAT(error_of(vocab), HasSubstr("merge 6 is '" + merge + "'"));
  }
  for (const auto& [merge, token] : {std::pair{"xx e", "xx"}, {"e xx", "xx"}, {"h h", "hh"}}) {
    VocabData vocab = small_vocab();
    vocab.merges.emplace_back(merge);
    EXPECT_THAT(error_of(vocab), AllOf(HasSubstr(merge), HasSubstr("needs the token '" + std::string(token) + "'")));
  }
}

}  // namespace
}  // namespace bass
