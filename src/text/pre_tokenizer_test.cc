#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>

#include "text/named_rules.h"

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PreTokenizer make(const std::string& rules) {
  return PreTokenizer::create(find_named_rules(rules).value().pre_tokenizer).value();
}

std::vector<std::string> split(const std::string& rules, std::string_view text) {
  const PreTokenizer pre_tokenizer = make(rules);
  std::vector<std::string> pieces;
  size_t at = 0;
  const PreTokenizer::Pieces split = pre_tokenizer.split(std::string(text), true).value();
  EXPECT_EQ(split.text, text);
  for (const auto& [begin, end] : split.pieces) {
    EXPECT_EQ(begin, at);
    pieces.emplace_back(text.substr(at, end - at));
    at = end;
  }
  EXPECT_EQ(at, text.size());
  return pieces;
}

TEST(PreTokenizerTest, WordsTakeTheSpaceBeforeThem) {
  for (const std::string rules : {"smollm", "gpt-2"}) {
    EXPECT_THAT(split(rules, ""), IsEmpty());
    EXPECT_THAT(split(rules, "Hello world, you!"), ElementsAre("Hello", " world", ",", " you", "!"));
    EXPECT_THAT(split(rules, "a   b"), ElementsAre("a", "  ", " b"));
    EXPECT_THAT(split(rules, "a \n b \n"), ElementsAre("a", " \n", " b", " \n"));
    EXPECT_THAT(split(rules, "we're I'LL it's"), ElementsAre("we", "'re", " I", "'", "LL", " it", "'s"));
    EXPECT_THAT(split(rules, "\u00e9t\u00e9 e\u0301"), ElementsAre("\u00e9t\u00e9", " e", "\u0301"));
  }
}

TEST(PreTokenizerTest, SmollmCutsOutEveryDigit) {
  EXPECT_THAT(split("smollm", "a12"), ElementsAre("a", "1", "2"));
  EXPECT_THAT(split("smollm", " 1"), ElementsAre(" ", "1"));
  EXPECT_THAT(split("smollm", "a  1"), ElementsAre("a", "  ", "1"));
  EXPECT_THAT(split("smollm", "x\u00b2\u2163\u0663"), ElementsAre("x", "\u00b2", "\u2163", "\u0663"));
  EXPECT_THAT(split("smollm", "3.14"), ElementsAre("3", ".", "1", "4"));
  EXPECT_THAT(split("smollm", ".\U00011DE0."), ElementsAre(".", "\U00011DE0", "."));  // Unicode 17
}

TEST(PreTokenizerTest, SeedCoderLeavesLineEndsToThemselves) {
  EXPECT_THAT(split("seed-coder", "x = 12;\n\n  y"), ElementsAre("x", " =", " ", "1", "2", ";", "\n\n", " ", " y"));
  EXPECT_THAT(split("qwen2", "x;\n\n  y"), ElementsAre("x", ";\n\n", " ", " y"));
}

TEST(PreTokenizerTest, Gpt2KeepsNumbersTogether) {
  EXPECT_THAT(split("gpt-2", "a12 345"), ElementsAre("a", "12", " 345"));
  EXPECT_THAT(split("gpt-2", "a  1"), ElementsAre("a", " ", " 1"));
  EXPECT_THAT(split("gpt-2", ".\U00011DE0."), ElementsAre(".\U00011DE0."));
}

TEST(PreTokenizerTest, KnowsCharactersNewerThanTheLibrary) {
  EXPECT_THAT(split("gpt-2", "a\U00031350.\u1c89b"), ElementsAre("a\U00031350", ".", "\u1c89b"));        // letters
  EXPECT_THAT(split("gpt-2", "1\U0001E4F0.\U00010D40"), ElementsAre("1\U0001E4F0", ".", "\U00010D40"));  // numbers
  EXPECT_THAT(split("gpt-2", ".\u180e."), ElementsAre(".\u180e."));  // no space, although PCRE2's \s has it
  EXPECT_THAT(split("gpt-2", ".\u3000."), ElementsAre(".", "\u3000", "."));
}

TEST(PreTokenizerTest, InvalidBytesAreCharactersOfTheirOwn) {
  EXPECT_THAT(split("smollm", "a\xFF\xFE b"), ElementsAre("a", "\xFF\xFE", " b"));
  EXPECT_THAT(split("smollm", " \xE2\x82!1"), ElementsAre(" \xE2\x82!", "1"));
  EXPECT_THAT(split("smollm", "\xED\xA0\x80"), ElementsAre("\xED\xA0\x80"));
}

TEST(PreTokenizerTest, CoversAnyBytes) {
  const PreTokenizer pre_tokenizer = make("smollm");
  std::mt19937 random(5);  // NOLINT(cert-msc51-cpp): the same bytes each run
  for (int round = 0; round < 3000; ++round) {
    std::string text(random() % 50, '\0');
    for (char& c : text) c = static_cast<char>(random());
    uint32_t at = 0;
    const PreTokenizer::Pieces split = pre_tokenizer.split(text, true).value();
    for (const auto& [begin, end] : split.pieces) {
      ASSERT_EQ(begin, at);
      ASSERT_GT(end, at);
      at = end;
    }
    ASSERT_EQ(at, text.size());
  }
}

TEST(PreTokenizerTest, LongRunsAreOnePiece) {
  for (const std::string_view unit : {" ", "a", "!", "\u5b57", "\n"}) {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) text += unit;
    EXPECT_EQ(split("smollm", text).size(), 1u);
  }
}

TEST(PreTokenizerTest, BehaviorsOfMatches) {
  const auto pieces = [](SplitBehavior behavior, bool is_inverted, std::string text) {
    const SplitStep step{.pattern = "-", .behavior = behavior, .is_inverted = is_inverted};
    const PreTokenizer::Pieces split = PreTokenizer::create({step}).value().split(std::move(text), true).value();
    std::vector<std::string> out;
    for (const auto& [begin, end] : split.pieces) out.push_back(split.text.substr(begin, end - begin));
    return out;
  };
  const std::string text = "-a--b-";
  EXPECT_THAT(pieces(SplitBehavior::kIsolated, false, text), ElementsAre("-", "a", "-", "-", "b", "-"));
  EXPECT_THAT(pieces(SplitBehavior::kRemoved, false, text), ElementsAre("a", "b"));
  EXPECT_THAT(pieces(SplitBehavior::kRemoved, true, text), ElementsAre("-", "-", "-", "-"));
  EXPECT_THAT(pieces(SplitBehavior::kMergedWithPrevious, false, text), ElementsAre("-", "a-", "-", "b-"));
  EXPECT_THAT(pieces(SplitBehavior::kMergedWithNext, false, text), ElementsAre("-a", "-", "-b", "-"));
  EXPECT_THAT(pieces(SplitBehavior::kContiguous, false, text), ElementsAre("-", "a", "--", "b", "-"));
}

TEST(PreTokenizerTest, HostileExpressionsAreErrors) {
  const SplitStep endless{.pattern = "(a|a)*(a|a)*$b|c"};
  const auto start = std::clock();
  const auto result = PreTokenizer::create({endless}).value().split(std::string(1000, 'a'), true);
  ASSERT_FALSE(result.ok());
  EXPECT_LT(std::clock() - start, 5 * CLOCKS_PER_SEC);
  for (const std::string pattern : {"(", "[a", "[a&&b]", "\\p{", "[]a]", "\\h", "\\"}) {
    EXPECT_FALSE(PreTokenizer::create({SplitStep{.pattern = pattern}}).ok()) << pattern;
  }
  EXPECT_FALSE(PreTokenizer::create({SplitStep{.pattern = std::string(1 << 20, 'a')}}).ok());
  EXPECT_FALSE(PreTokenizer::create({SplitStep{.pattern = std::string(1000, '(') + std::string(1000, ')')}}).ok());
}

TEST(PreTokenizerTest, UnknownRulesAreAnError) {
  const Result<TokenizerRules> result = find_named_rules("nonsense");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr("'nonsense' is unknown; BASS knows: default,gpt-2,phi-2,"));
  EXPECT_FALSE(find_named_rules("gpt-2 phi-2").ok());
}

TEST(PreTokenizerTest, EveryNameIsRecognisedByItsRules) {
  for (const std::string name :
       {"default", "gpt-2", "smollm", "command-r", "olmo", "llama-bpe", "dbrx", "qwen2", "qwen35", "tekken", "gpt-4o",
        "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "bloom", "viking"}) {
    EXPECT_EQ(name_of_rules(find_named_rules(name).value()), name);
  }
}

}  // namespace
}  // namespace bass
