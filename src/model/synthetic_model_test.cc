#include "model/synthetic_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/model_file.h"
#include "support/temp_folder.h"
#include "text/tokenizer.h"

namespace bass {
namespace {

using ::testing::HasSubstr;

SyntheticModel tiny_model() {
  SyntheticModel model = make_synthetic_model({.name = "tiny",
                                               .d_model = 64,
                                               .d_ff = 96,
                                               .n_layers = 2,
                                               .n_heads = 4,
                                               .n_kv_heads = 2,
                                               .head_dim = 32,
                                               .vocab_size = 1000,
                                               .context_len = 512,
                                               .rope_base = 5000.0f,
                                               .is_head_tied = false});
  model.seed = 3;
  return model;
}

std::string write(const SyntheticModel& model, int n_threads) {
  std::string bytes;
  ThreadTeam team(n_threads);
  const Status status = write_synthetic_model(model, &team, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return ok_status();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

Result<ModelFile> load(const std::string& bytes) {
  const testing::TempFolder folder;  // the mapping stays when it is gone
  const std::string path = folder / "model.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  return load_model_file(path);
}

TEST(SyntheticModelTest, LoadsAsTheShapeAndSaysWhatItIs) {
  const SyntheticModel model = tiny_model();
  const std::string bytes = write(model, 1);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), synthetic_file_bytes(model));
  const Result<ModelFile> loaded = load(bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const ModelConfig& config = loaded->config;
  EXPECT_TRUE(config.is_synthetic);
  EXPECT_EQ(config.name, "tiny (synthetic: random weights)");
  EXPECT_EQ(config.d_model, 64);
  EXPECT_EQ(config.d_ff, 96);
  EXPECT_EQ(config.n_layers, 2);
  EXPECT_EQ(config.q_dim(), 128);
  EXPECT_EQ(config.kv_dim(), 64);
  EXPECT_EQ(config.vocab_size, 1000);
  EXPECT_EQ(config.context_len, 512);
  EXPECT_EQ(config.ropes.front().base, 5000.0f);
  EXPECT_FALSE(loaded->weights.is_head_tied);
  EXPECT_EQ(loaded->weights.layers[1].down.type, DType::kQ4_1);
  EXPECT_EQ(loaded->vocab.tokens, model.vocab.tokens);
  EXPECT_EQ(loaded->vocab.merges, model.vocab.merges);
}

TEST(SyntheticModelTest, TheBytesDependOnTheSeedAndNotOnTheThreads) {
  SyntheticModel model = tiny_model();
  const std::string bytes = write(model, 1);
  EXPECT_EQ(write(model, 3), bytes);
  model.seed = 4;
  EXPECT_NE(write(model, 1), bytes);
}

TEST(SyntheticModelTest, RefusesWhatWouldNotLoad) {
  const auto message = [](const SyntheticModel& model) { return check_synthetic_model(model, "x.json").message(); };
  SyntheticModel model = tiny_model();
  EXPECT_EQ(message(model), "");
  model.config.n_kv_heads = 3;
  EXPECT_THAT(message(model), HasSubstr("x.json: 4 query heads are no multiple of 3"));
  model = tiny_model();
  model.config.head_dim = model.config.rope_dim = 24;
  EXPECT_THAT(message(model), HasSubstr("head dimension 24"));
  model = tiny_model();
  model.config.d_ff = 100;
  EXPECT_THAT(message(model), HasSubstr("x.json: the feed-forward dimension is 100, need a multiple of 32"));
  model = tiny_model();
  model.vocab.source = "other.gguf";
  model.config.vocab_size = 999;
  EXPECT_THAT(message(model), HasSubstr("other.gguf: has 1000 tokens, more than the 999 rows"));
}

TEST(SyntheticVocabTest, IsAVocabularyOfAnySize) {
  for (const int n_tokens : {257, 258, 300, 256 + 676, 256 + 676 + 2, 5000}) {
    const VocabData vocab = synthetic_vocab(n_tokens);
    ASSERT_EQ(static_cast<int>(vocab.tokens.size()), n_tokens);
    const auto tokenizer = Tokenizer::create(vocab);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    EXPECT_TRUE(tokenizer.value()->is_end(n_tokens - 1));
    const std::string text = "aaab hello, \xFF\n";
    const auto ids = tokenizer.value()->encode(text, {.add_special = true, .parse_special = true, .allow_loss = false});
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(tokenizer.value()->decode(ids.value(), true).value(), text);
  }
}

TEST(SyntheticVocabTest, HasAnEndAndIsPaddedBeyond) {
  VocabData vocab = synthetic_vocab(500000);  // there are 256 bytes, 26^2 + 26^4 letters and an end token
  ASSERT_EQ(vocab.tokens.size(), 457909u);
  pad_vocab(457911, &vocab);
  ASSERT_EQ(vocab.tokens.size(), 457911u);
  EXPECT_EQ(vocab.tokens.back(), "[PAD1]");
  EXPECT_EQ(vocab.token_types.size(), vocab.tokens.size());
  EXPECT_TRUE(Tokenizer::create(vocab).ok());
}

}  // namespace
}  // namespace bass
