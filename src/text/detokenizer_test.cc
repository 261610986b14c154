#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "support/byte_vocab.h"

namespace bass {
namespace {

class StreamDetokenizerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::create(testing::make_byte_vocab({"a b"}, {"<end>"})).value();
  const std::string r_{kReplacementChar};
};

TEST_F(StreamDetokenizerTest, HoldsBackCutCharacters) {
  StreamDetokenizer stream(*tokenizer_);
  EXPECT_EQ(stream.push('x'), "x");
  EXPECT_EQ(stream.push(256), "ab");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "\U0001F600");
  EXPECT_EQ(stream.flush(), "");
}

TEST_F(StreamDetokenizerTest, ReplacesWhatCannotBecomeValid) {
  StreamDetokenizer stream(*tokenizer_);
  EXPECT_EQ(stream.push(0xFF), r_);
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.push('a'), r_ + "a");
  EXPECT_EQ(stream.push(0xE0), "");
  EXPECT_EQ(stream.push(0x80), r_ + r_);
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.flush(), r_);
  EXPECT_EQ(stream.flush(), "");
  EXPECT_EQ(stream.push(0xA9), r_);  // nothing of the first text is left
}

TEST_F(StreamDetokenizerTest, ControlTokensGiveTextWhenAsked) {
  EXPECT_EQ(StreamDetokenizer(*tokenizer_).push(257), "");
  EXPECT_EQ(StreamDetokenizer(*tokenizer_, true).push(257), "<end>");
}

TEST_F(StreamDetokenizerTest, EqualsDecodingEverything) {
  std::mt19937 random(9);  // NOLINT(cert-msc51-cpp): the same bytes each run
  constexpr unsigned char kHard[] = {0x80, 0xBF, 0xC3, 0xE0, 0xA0, 0xED, 0x9F, 0xF0, 0x90, 0xF4, 0x8F, 0xFF, 'a'};
  for (int round = 0; round < 5000; ++round) {
    std::vector<TokenId> ids(random() % 30);
    for (TokenId& id : ids) id = kHard[random() % std::size(kHard)];
    StreamDetokenizer stream(*tokenizer_);
    std::string all;
    for (const TokenId id : ids) {
      const std::string_view part = stream.push(id);
      ASSERT_TRUE(is_valid_utf8(part));
      all += part;
    }
    ASSERT_EQ(all + stream.flush(), to_valid_utf8(tokenizer_->decode(ids, false).value()));
  }
}

}  // namespace
}  // namespace bass
