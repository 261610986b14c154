// The tokenizer and the chat format against Hugging Face tokenizers and Jinja, on the default model's vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "model/gguf_vocab.h"
#include "support/engine_run.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace bass {
namespace {

class TokenizerGoldenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = testing::default_model();
    ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing: run tools/test.sh, it fetches the model";
    const Result<GgufFile> file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    Result<VocabData> vocab = load_vocab(file.value());
    ASSERT_TRUE(vocab.ok()) << vocab.status().message();
    Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocab).value());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    tokenizer_ = std::move(tokenizer).value();
  }

  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool parse_special) const {
    return tokenizer_->encode(text, {.add_special = false, .parse_special = parse_special}).value();
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerGoldenTest, EncodesAsTheReference) {
  std::ifstream stream(BASS_TEST_DATA "/tokenizer_goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(stream);
  ASSERT_GT(goldens.at("texts").size(), 300u);
  for (const auto& record : goldens.at("texts")) {
    const auto text = record.at("text").get<std::string>();
    const auto ids = record.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(encode(text, true), ids) << record.dump();
    const auto plain = record.contains("plain_ids") ? record.at("plain_ids").get<std::vector<TokenId>>() : ids;
    EXPECT_EQ(encode(text, false), plain) << record.dump();
  }
}

TEST_F(TokenizerGoldenTest, BytesRoundTrip) {
  const std::vector<uint8_t> missing = tokenizer_->missing_bytes();
  EXPECT_EQ(missing.size(), 21u);
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same bytes each run
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    const size_t len = random() % 60;
    while (text.size() < len) {
      const auto byte = static_cast<uint8_t>(random());
      if (std::ranges::find(missing, byte) == missing.end()) text += static_cast<char>(byte);
    }
    const Result<std::vector<TokenId>> ids = tokenizer_->encode(text, {.parse_special = true, .allow_loss = false});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(tokenizer_->decode(ids.value(), true).value(), text);
    StreamDetokenizer stream(*tokenizer_, true);
    std::string streamed;
    for (const TokenId id : ids.value()) {
      streamed += stream.push(id);
      ASSERT_TRUE(is_valid_utf8(streamed));
    }
    EXPECT_EQ(streamed + stream.flush(), to_valid_utf8(text));
  }
}

TEST_F(TokenizerGoldenTest, KnowsItsEndTokens) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_THAT(tokenizer_->end_ids(), ::testing::ElementsAre(0, 2));
  EXPECT_EQ(tokenizer_->bos_id(), 1);
  EXPECT_EQ(tokenizer_->eos_id(), 2);
  EXPECT_EQ(tokenizer_->encode("a", {.add_special = true})->size(), 1u);  // the file asks for no begin token
}

TEST_F(TokenizerGoldenTest, FormatsChatsAsTheTemplate) {
  // What Jinja renders from the file's template.
  const std::string system =
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
  const auto format = [&](const std::vector<ChatMessage>& messages, bool add_generation_prompt) {
    ChatFormat chat;
    chat.chat_template = tokenizer_->chat_template();
    chat.add_generation_prompt = add_generation_prompt;
    return format_chat(chat, messages).value();
  };
  EXPECT_EQ(format({{"user", "Hi"}}, true), system + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(format({{"user", "Hi"}}, false), system + "<|im_start|>user\nHi<|im_end|>\n");
  EXPECT_EQ(format({{"system", "S."}, {"user", "Hi\n"}}, true),
            "<|im_start|>system\nS.<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(
      format({{"user", "a"}, {"assistant", "b"}, {"user", "c"}}, false),
      system + "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n");
}

}  // namespace
}  // namespace bass
