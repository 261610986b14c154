#include "model/gguf_vocab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "support/gguf_builder.h"
#include "support/temp_folder.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace bass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::GgufBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<VocabData> load(const GgufBuilder& builder) {
  const testing::TempFolder folder;
  builder.write(folder / "vocab.gguf");
  const Result<GgufFile> file = GgufFile::open(folder / "vocab.gguf");
  if (!file.ok()) return file.status();
  return load_vocab(file.value());
}

GgufBuilder minimal() {
  GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", "gpt2").add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  builder.add_strings("tokenizer.ggml.merges", {"a b"});
  return builder;
}

TEST(GgufVocabTest, ReadsEverything) {
  GgufBuilder builder = minimal();
  builder.add_string("tokenizer.ggml.pre", "smollm").add_i32s("tokenizer.ggml.token_type", {1, 3, 1});
  builder.add_u32("tokenizer.ggml.bos_token_id", 1).add_u32("tokenizer.ggml.eos_token_id", 2);
  builder.add_i32("tokenizer.ggml.eot_token_id", 0).add_u64("tokenizer.ggml.unknown_token_id", 1);
  builder.add_u16("tokenizer.ggml.padding_token_id", 2).add_bool("tokenizer.ggml.add_bos_token", true);
  builder.add_bool("tokenizer.ggml.add_eos_token", true).add_string("tokenizer.chat_template", "{{ x }}");
  const Result<VocabData> loaded = load(builder);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const VocabData& vocab = loaded.value();
  EXPECT_THAT(vocab.source, HasSubstr("vocab.gguf"));
  EXPECT_EQ(vocab.model, "gpt2");
  EXPECT_EQ(vocab.pre, "smollm");
  EXPECT_THAT(vocab.tokens, ElementsAre("a", "b", "ab"));
  EXPECT_THAT(vocab.token_types, ElementsAre(1, 3, 1));
  EXPECT_THAT(vocab.merges, ElementsAre("a b"));
  EXPECT_EQ(vocab.bos_id, 1);
  EXPECT_EQ(vocab.eos_id, 2);
  EXPECT_EQ(vocab.eot_id, 0);
  EXPECT_EQ(vocab.unknown_id, 1);
  EXPECT_EQ(vocab.padding_id, 2);
  EXPECT_TRUE(vocab.add_bos && vocab.add_eos);
  EXPECT_EQ(vocab.chat_template, "{{ x }}");
}

TEST(GgufVocabTest, MostKeysMayBeMissing) {
  const Result<VocabData> loaded = load(minimal());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_THAT(loaded->token_types, IsEmpty());
  EXPECT_FALSE(loaded->bos_id.has_value());
  EXPECT_FALSE(loaded->add_bos || loaded->add_eos);
  EXPECT_EQ(loaded->pre + loaded->chat_template, "");
}

TEST(GgufVocabTest, NamesTheKeyThatIsWrong) {
  const auto message = [](const GgufBuilder& builder) { return load(builder).status().message(); };
  EXPECT_THAT(message(GgufBuilder()), AllOf(HasSubstr("missing"), HasSubstr("'tokenizer.ggml.model'")));
  EXPECT_THAT(message(GgufBuilder().add_string("tokenizer.ggml.model", "gpt2")),
              HasSubstr("missing (key 'tokenizer.ggml.tokens')"));
  EXPECT_THAT(
      message(
          GgufBuilder().add_string("tokenizer.ggml.model", "gpt2").add_strings("tokenizer.ggml.tokens", {"a", "\xff"})),
      HasSubstr("element 1 has invalid UTF-8 (key 'tokenizer.ggml.tokens')"));
  EXPECT_THAT(message(minimal().add_string("tokenizer.ggml.token_type", "x")),
              HasSubstr("(key 'tokenizer.ggml.token_type')"));
  EXPECT_THAT(message(minimal().add_i32s("tokenizer.ggml.token_type", {1, -2, 1})), HasSubstr("-2 is no token type"));
  EXPECT_THAT(message(minimal().add_string("tokenizer.ggml.bos_token_id", "x")), HasSubstr("need an integer"));
  EXPECT_THAT(message(minimal().add_u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFFu)),
              HasSubstr("outside of the vocabulary of 3 tokens (key 'tokenizer.ggml.eos_token_id')"));
  EXPECT_THAT(message(minimal().add_u32("tokenizer.ggml.add_bos_token", 1)), HasSubstr("need a boolean"));
}

TEST(GgufVocabTest, OtherModelsNeedNoMerges) {
  GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", "llama").add_strings("tokenizer.ggml.tokens", {"a"});
  const Result<VocabData> loaded = load(builder);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->model, "llama");
}

std::string write_and_reload(const VocabData& vocab, VocabData* out, const std::string& architecture = "") {
  const testing::TempFolder folder;
  const std::string path = folder / "vocab.gguf";
  std::ofstream stream(path, std::ios::binary);
  GgufWriter writer([&](std::span<const std::byte> bytes) {
    stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return ok_status();
  });
  if (!architecture.empty()) writer.add_string("general.architecture", architecture);
  add_vocab(vocab, &writer);
  EXPECT_TRUE(writer.begin().ok());
  stream.close();
  const Result<GgufFile> file = GgufFile::open(path);
  if (!file.ok()) return file.status().message();
  Result<VocabData> loaded = load_vocab(file.value());
  if (!loaded.ok()) return loaded.status().message();
  *out = std::move(loaded).value();
  return "";
}

// Whatever kind of tokenizer goes into a file, the same comes out of it.
TEST(GgufVocabTest, EveryKindSurvivesTheFile) {
  const std::string folder = std::string(BASS_TEST_DATA) + "/tokenizers/";
  const auto read = [&](const std::string& name) {
    std::ifstream stream(folder + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string text = " Hello  world, it's 12345 \u00e9e\u0301\n\t<s> <mask> solo <tag>\u3000\u5b57";
  const auto goldens = nlohmann::json::parse(read("goldens.json"));
  for (const auto& kind : goldens.at("kinds")) {
    SCOPED_TRACE(kind.at("name"));
    const auto source = kind.at("source").get<std::string>();
    Result<VocabData> vocab = Status();
    if (source == "tokenizer.json") {
      nlohmann::json whole = kind.at("json"), model = nlohmann::json::parse(read(kind.at("base")));
      model.update(kind.at("json").at("model"));
      whole["model"] = std::move(model);
      vocab = parse_tokenizer_json(whole.dump(), source);
    } else {
      vocab = parse_sentencepiece(read(source), source);
    }
    ASSERT_TRUE(vocab.ok()) << vocab.status().message();
    VocabData loaded;
    ASSERT_EQ(write_and_reload(vocab.value(), &loaded), "");
    EXPECT_EQ(loaded.tokens, vocab->tokens);
    EXPECT_EQ(loaded.add_bos, vocab->add_bos);
    const auto before = Tokenizer::create(vocab.value()).value(), after = Tokenizer::create(loaded).value();
    const EncodeOptions options{.add_special = true, .parse_special = true};
    const std::vector<TokenId> ids = before->encode(text, options).value();
    EXPECT_EQ(after->encode(text, options).value(), ids);
    EXPECT_EQ(after->decode(ids, true).value(), before->decode(ids, true).value());
  }
}

VocabData sentencepiece(const std::string& name) {
  std::ifstream stream(std::string(BASS_TEST_DATA) + "/tokenizers/" + name, std::ios::binary);
  return parse_sentencepiece(std::string(std::istreambuf_iterator<char>(stream), {}), name).value();
}

std::vector<TokenId> encode(const VocabData& vocab, std::string_view text) {
  return Tokenizer::create(vocab).value()->encode(text, {.parse_special = true}).value();
}

// Writers put spaces where SentencePiece has a sign of its own, with or without a word that the token was added.
TEST(GgufVocabTest, RunsOfSpacesAreFoundHoweverTheyAreWritten) {
  const VocabData vocab = sentencepiece("spm-gemma.model");
  const auto run = static_cast<size_t>(std::ranges::find(vocab.tokens, "\u2581\u2581") - vocab.tokens.begin());
  ASSERT_LT(run, vocab.tokens.size());
  const std::string text = "if x:\n    return  y\n\n<tag>     z";
  const std::vector<TokenId> expected = encode(vocab, text);
  EXPECT_GE(std::ranges::count(expected, static_cast<TokenId>(run)), 3);
  for (const bool has_spaces : {true, false}) {
    for (const bool is_added : {true, false}) {
      VocabData written = vocab;
      if (has_spaces) written.tokens[run] = "  ";
      if (is_added) written.scores[run] = kAddedScore;
      VocabData loaded;
      ASSERT_EQ(write_and_reload(written, &loaded), "");
      EXPECT_EQ(encode(loaded, text), expected) << has_spaces << is_added;
      EXPECT_EQ(Tokenizer::create(loaded).value()->decode(expected, false).value(), text);
    }
  }
}

TEST(GgufVocabTest, Phi3TakesTheWhiteSpaceBehindItsSpecialTokens) {
  VocabData vocab = sentencepiece("spm-llama.model");
  const auto n = static_cast<TokenId>(vocab.tokens.size());
  for (const char* text : {"<|user|>", "<|end|>", "<|endoftext|>"}) {
    vocab.tokens.emplace_back(text);
    vocab.token_types.push_back(static_cast<int32_t>(TokenType::kControl));
    vocab.scores.push_back(kAddedScore);
  }
  VocabData other;
  ASSERT_EQ(write_and_reload(vocab, &other), "");
  EXPECT_GT(encode(other, "<|user|>\na<|end|>\n").size(), encode(other, "<|user|>a<|end|>").size());
  VocabData phi3;
  ASSERT_EQ(write_and_reload(vocab, &phi3, "phi3"), "");
  EXPECT_EQ(encode(phi3, "<|user|>\na<|end|>\n"), encode(phi3, "<|user|>a<|end|>"));
  EXPECT_EQ(encode(phi3, "<|user|>\na<|end|>\n").front(), n);
  EXPECT_NE(encode(phi3, "<|endoftext|> a"), encode(phi3, "<|endoftext|>a"));
}

TEST(GgufVocabTest, AddedTokensWithoutARowAreForgotten) {
  VocabData vocab = sentencepiece("spm-llama.model");
  const size_t n_tokens = vocab.tokens.size();
  vocab.tokens.emplace_back("<image>");
  vocab.token_types.push_back(static_cast<int32_t>(TokenType::kControl));
  vocab.scores.push_back(kAddedScore);
  vocab.more_end_ids = {2, static_cast<int32_t>(n_tokens)};
  VocabData same = vocab;
  drop_added_tokens(n_tokens + 1, same);
  EXPECT_EQ(same.tokens, vocab.tokens);
  drop_added_tokens(n_tokens, vocab);
  EXPECT_EQ(vocab.tokens.size(), n_tokens);
  EXPECT_TRUE(Tokenizer::create(vocab).ok());
  EXPECT_THAT(vocab.more_end_ids, ElementsAre(2));
  drop_added_tokens(10, vocab);
  EXPECT_EQ(vocab.tokens.size(), n_tokens) << "the model's own words stay, and are an error";
}

TEST(GgufVocabTest, AVocabularyWithoutMergesHasScoresToo) {
  const Result<VocabData> vocab = parse_tokenizer_json(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": []})", "tokenizer.json");
  ASSERT_TRUE(vocab.ok()) << vocab.status().message();
  VocabData loaded;
  EXPECT_EQ(write_and_reload(vocab.value(), &loaded), "");
  EXPECT_EQ(loaded.tokens, vocab->tokens);
}

TEST(GgufVocabTest, WhatAFileLeavesOutDependsOnItsKind) {
  GgufBuilder llama;
  llama.add_string("tokenizer.ggml.model", "llama").add_strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
  const Result<VocabData> vocab = load(llama);
  ASSERT_TRUE(vocab.ok());
  EXPECT_EQ(vocab->bos_id, 1);
  EXPECT_EQ(vocab->eos_id, 2);
  EXPECT_TRUE(vocab->add_bos && vocab->add_space_prefix && !vocab->add_eos && !vocab->remove_extra_whitespaces);
  EXPECT_THAT(Tokenizer::create(vocab.value()).status().message(),
              HasSubstr("3 tokens, but scores for 0 (key 'tokenizer.ggml.scores')"));
  const auto message = [](const GgufBuilder& builder) { return load(builder).status().message(); };
  EXPECT_THAT(message(minimal().add_i32s("tokenizer.ggml.scores", {1})), HasSubstr("(key 'tokenizer.ggml.scores')"));
  EXPECT_THAT(message(minimal().add_i32s("tokenizer.ggml.precompiled_charsmap", {300})), HasSubstr("300 is no byte"));
  EXPECT_THAT(message(minimal().add_string("tokenizer.huggingface.json", "{")), HasSubstr("not valid JSON"));
}

TEST(GgufVocabTest, WhatIsWrittenIsReadBack) {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = "smollm";
  vocab.tokens = {"a", "b", "ab", "<end>"};
  vocab.token_types = {1, 1, 1, 3};
  vocab.merges = {"a b"};
  vocab.bos_id = 2;
  vocab.eos_id = 3;
  vocab.eot_id = 0;
  vocab.unknown_id = 1;
  vocab.padding_id = 2;
  vocab.more_end_ids = {3, 1};
  vocab.add_bos = true;
  vocab.chat_template = "{{ x }}";
  const testing::TempFolder folder;
  const std::string path = folder / "vocab.gguf";
  for (const bool is_full : {true, false}) {
    if (!is_full) vocab = {.model = "gpt2", .tokens = {"a"}};
    std::ofstream out(path, std::ios::binary);
    GgufWriter writer([&](std::span<const std::byte> bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      return ok_status();
    });
    add_vocab(vocab, &writer);
    ASSERT_TRUE(writer.begin().ok());
    out.close();
    const Result<GgufFile> file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const Result<VocabData> loaded = load_vocab(file.value());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto all = [](const VocabData& v) {
      return std::tie(v.model, v.pre, v.tokens, v.token_types, v.merges, v.bos_id, v.eos_id, v.eot_id, v.unknown_id,
                      v.padding_id, v.more_end_ids, v.add_bos, v.add_eos, v.chat_template);
    };
    EXPECT_TRUE(all(loaded.value()) == all(vocab));
  }
}

}  // namespace
}  // namespace bass
