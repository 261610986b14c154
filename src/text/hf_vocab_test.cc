#include "text/hf_vocab.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace bass {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kModel =
    R"("model":{"type":"BPE","unk_token":"u","vocab":{"u":0,"a":1,"b":2,"ab":3},"merges":["a b"]})";

std::string error_of(const std::string& json) {
  const std::clock_t start = std::clock();
  const Result<VocabData> vocab = parse_tokenizer_json(json, "t.json");
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
  if (vocab.ok()) return Tokenizer::create(vocab.value()).status().message();
  EXPECT_EQ(vocab.status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(vocab.status().message(), ::testing::StartsWith("t.json: "));
  return vocab.status().message();
}

std::string nested(size_t depth) { return R"({"model":)" + std::string(depth, '[') + std::string(depth, ']') + "}"; }

TEST(TokenizerJsonTest, ReadsBothFormsOfMerges) {
  for (const std::string merges : {R"("a b")", R"(["a","b"])"}) {
    const std::string json = R"({"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":[)" + merges + "]}}";
    const auto vocab = parse_tokenizer_json(json, "t.json");
    ASSERT_TRUE(vocab.ok()) << vocab.status().message();
    EXPECT_THAT(vocab->merges, ElementsAre("a b"));
    EXPECT_THAT(Tokenizer::create(vocab.value()).value()->encode("aab").value(), ElementsAre(0, 2));
  }
}

TEST(TokenizerJsonTest, FillsGapsAndAddsTokens) {
  const auto vocab = parse_tokenizer_json(
      R"({"model":{"vocab":{"a":0,"b":3},"merges":[]},"added_tokens":[{"id":5,"content":"<x>","special":true}]})",
      "t.json");
  ASSERT_TRUE(vocab.ok()) << vocab.status().message();
  EXPECT_THAT(vocab->tokens, ElementsAre("a", "[UNUSED_1]", "[UNUSED_2]", "b", "[UNUSED_4]", "<x>"));
  EXPECT_THAT(vocab->token_types, ElementsAre(1, 5, 5, 1, 5, 3));
}

TEST(TokenizerJsonTest, BadFilesAreErrors) {
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("{"), HasSubstr("not valid JSON (at byte 2)"));
  EXPECT_THAT(error_of(std::string("{}\0", 3)), HasSubstr("at byte 2"));
  EXPECT_THAT(error_of("{\"a\":\"\xFF\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("need a JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("'model' is missing"));
  EXPECT_THAT(error_of(R"({"model":1})"), HasSubstr("vocab is missing"));
  EXPECT_THAT(error_of(nested(100'000)), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(error_of(R"({"a":1,"a":2})"), HasSubstr("'a' is there twice"));
  EXPECT_THAT(error_of(R"({"model":{"type":"WordPiece","vocab":{"a":0}}})"), HasSubstr("'WordPiece' is not supported"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":0,"b":0},"merges":[]}})"), HasSubstr("two tokens of the id 0"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":2000000000},"merges":[]}})"), HasSubstr("has the id 2000000000"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":-1},"merges":[]}})"), HasSubstr("has the id -1"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":18446744073709551615},"merges":[]}})"), HasSubstr("has the id"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":0.5},"merges":[]}})"), HasSubstr("no whole number"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":[]},"merges":[]}})"), HasSubstr("model.vocab is neither"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":0},"merges":[1]}})"), HasSubstr("model.merges is no list"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":0},"merges":[["a"]]}})"), HasSubstr("model.merges is no list"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{"a":0},"merges":["a c"]}})"), HasSubstr("needs the token 'c'"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":[["a",0]],"merges":[]}})"), HasSubstr("no object of ids"));
  EXPECT_THAT(error_of(R"({"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}})"), HasSubstr("unk_id is 7"));
  EXPECT_THAT(error_of(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a",1e999]]}})"),
              HasSubstr("not valid JSON"));
  std::string many = R"({"x":[0)";
  for (int i = 0; i < 2'000'000; ++i) many += ",0";
  EXPECT_THAT(error_of(many + "]}"), HasSubstr("more than 1048576 values"));
}

// Each is allowed somewhat more than there are tokens: of those that the file names, not of what that has grown to.
TEST(TokenizerJsonTest, AFewAddedTokensDoNotMakeAHugeVocabulary) {
  std::string added;
  for (int64_t id = 60'000; id < int64_t{1} << 30; id = 2 * id + 60'000) {
    added += fmt::format(R"({}{{"id":{},"content":"<{}>"}})", added.empty() ? "" : ",", id, id);
  }
  EXPECT_THAT(error_of("{" + kModel + R"(,"added_tokens":[)" + added + "]}"),
              HasSubstr("'<180000>' has the id 180000"));
}

TEST(TokenizerJsonTest, PartsThatAreNotKnownAreErrors) {
  const auto with = [](const std::string& part) { return error_of("{" + part + "," + kModel + "}"); };
  EXPECT_THAT(with(R"("normalizer":{"type":"BertNormalizer"})"),
              AllOf(HasSubstr("normalizer"), HasSubstr("'BertNormalizer'")));
  EXPECT_THAT(with(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"X"}]})"),
              HasSubstr("normalizer.normalizers[0]: "));
  EXPECT_THAT(with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"})"), HasSubstr("charsmap"));
  EXPECT_THAT(with(R"("normalizer":{"type":"Prepend","prepend":")" + std::string(5000, 'x') + "\"}"),
              HasSubstr("too long"));
  EXPECT_THAT(with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})"),
              HasSubstr("broken"));
  EXPECT_THAT(with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"x"},"behavior":"Odd"})"), HasSubstr("'Odd'"));
  EXPECT_THAT(with(R"("pre_tokenizer":{"type":3})"), HasSubstr("pre_tokenizer.type: need a string"));
  EXPECT_THAT(with(R"("decoder":{"type":"WordPiece"})"), HasSubstr("decoder: the type 'WordPiece'"));
  EXPECT_THAT(with(R"("decoder":{"type":"ByteLevel"})"), HasSubstr("both be byte-level"));
  EXPECT_THAT(with(R"("added_tokens":[{"content":"x"}])"), HasSubstr("added_tokens[0]: 'id' is missing"));
  EXPECT_THAT(with(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"zz"}}]})"),
              HasSubstr("'zz' is unknown"));
  // A ByteLevel step changes the alphabet: nothing behind it may put in other characters.
  EXPECT_THAT(with(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Metaspace"}]},)"
                   R"("decoder":{"type":"ByteLevel"})"),
              ::testing::Not(::testing::IsEmpty()));
}

// A chat template puts it into a prompt: normalised, another token would stand before it.
TEST(TokenizerJsonTest, AControlTokensTextIsItsOwnThoughItIsNormalized) {
  const Result<VocabData> vocab =
      parse_tokenizer_json("{" + kModel +
                               R"(,"normalizer":{"type":"Prepend","prepend":"a"},"added_tokens":[)"
                               R"({"id":4,"content":"<s>","special":true,"normalized":true}]})",
                           "t.json");
  ASSERT_TRUE(vocab.ok()) << vocab.status().message();
  const auto tokenizer = Tokenizer::create(vocab.value()).value();
  EXPECT_EQ(tokenizer->token_bytes(4), "<s>");
  EXPECT_THAT(tokenizer->encode("<s>b", {.parse_special = true}).value(), ElementsAre(4, 2));
}

// Those of a tokenizer.json are what they are: GGUF's spellings are SentencePiece's alone.
TEST(TokenizerJsonTest, AddedTokensAreFoundAsTheyAreWritten) {
  const Result<VocabData> vocab = parse_tokenizer_json(
      "{" + kModel +
          R"(,"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"\u2581"},"added_tokens":[)"
          R"({"id":4,"content":"\u2581\u2581","normalized":false},{"id":5,"content":"   ","normalized":false}]})",
      "t.json");
  ASSERT_TRUE(vocab.ok()) << vocab.status().message();
  const auto tokenizer = Tokenizer::create(vocab.value()).value();
  EXPECT_THAT(tokenizer->encode("a   b", {}).value(), ElementsAre(1, 5, 2));
  EXPECT_THAT(tokenizer->encode("a\u2581\u2581b", {}).value(), ElementsAre(1, 4, 2));
  EXPECT_THAT(tokenizer->encode("a  b", {}).value(), ElementsAre(1, 0, 0, 2));
}

class HfVocabTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ + "/" + name) << text; }

  testing::TempFolder temp_folder_;
  std::string folder_ = temp_folder_.path();
};

TEST_F(HfVocabTest, ReadsWhatStandsBesideTheTokenizer) {
  write("tokenizer.json", "{" + kModel +
                              R"(,"added_tokens":[{"id":4,"content":"<s>","special":true},)"
                              R"({"id":5,"content":"</s>","special":true}]})");
  write("config.json", R"({"bos_token_id":1,"eos_token_id":[5,2],"pad_token_id":-1})");
  write("generation_config.json", R"({"pad_token_id":5})");
  write("tokenizer_config.json",
        R"({"bos_token":{"content":"<s>"},"eos_token":null,"add_bos_token":true,"chat_template":"old"})");
  write("chat_template.jinja", "{{ new }}");
  const auto vocab = load_hf_vocab(folder_);
  ASSERT_TRUE(vocab.ok()) << vocab.status().message();
  EXPECT_EQ(vocab->bos_id, 4);
  EXPECT_EQ(vocab->eos_id, 5);
  EXPECT_EQ(vocab->eot_id, 2);
  EXPECT_EQ(vocab->padding_id, 5);
  EXPECT_TRUE(vocab->add_bos);
  EXPECT_FALSE(vocab->add_eos);
  EXPECT_EQ(vocab->chat_template, "{{ new }}");
  EXPECT_THAT(
      Tokenizer::create(vocab.value()).value()->encode("ab<s>", {.add_special = true, .parse_special = true}).value(),
      ElementsAre(4, 3, 4));
}

TEST_F(HfVocabTest, SentencePieceWithAddedTokens) {
  std::filesystem::copy_file(std::string(BASS_TEST_DATA) + "/tokenizers/spm-llama.model", folder_ + "/tokenizer.model");
  const size_t n_tokens = load_hf_vocab(folder_)->tokens.size();
  const std::string id = std::to_string(n_tokens + 1);
  write("tokenizer_config.json",
        R"({"added_tokens_decoder":{"1":{"content":"<s>","special":true},")" + id +
            R"(":{"content":"<end>","special":true}},"chat_template":[{"name":"default","template":"t"}]})");
  const auto vocab = load_hf_vocab(folder_);
  ASSERT_TRUE(vocab.ok()) << vocab.status().message();
  EXPECT_EQ(vocab->tokens.size(), n_tokens + 2);
  EXPECT_EQ(vocab->tokens.back(), "<end>");
  EXPECT_EQ(vocab->chat_template, "t");
  EXPECT_TRUE(vocab->add_bos);
  const auto tokenizer = Tokenizer::create(vocab.value()).value();
  const auto ids = tokenizer->encode("a<end>", {.add_special = true, .parse_special = true}).value();
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), static_cast<TokenId>(n_tokens + 1));
  EXPECT_EQ(tokenizer->decode(ids, false).value(), "a");
}

// Each of them cuts the text: what stands behind it begins with a space of its own, and nothing stands before it.
TEST_F(HfVocabTest, AddedTokensThatAreNotSpecialCutTheText) {
  std::filesystem::copy_file(std::string(BASS_TEST_DATA) + "/tokenizers/spm-llama.model", folder_ + "/tokenizer.model");
  const auto n_tokens = static_cast<TokenId>(load_hf_vocab(folder_)->tokens.size());
  write("tokenizer_config.json",
        R"({"added_tokens_decoder":{")" + std::to_string(n_tokens) + R"(":{"content":"<|user|>","special":false}}})");
  const auto tokenizer = Tokenizer::create(load_hf_vocab(folder_).value()).value();
  const auto ids = [&](std::string_view text) { return tokenizer->encode(text, {}).value(); };
  std::vector<TokenId> expected = ids("a");
  expected.push_back(n_tokens);
  for (const TokenId id : ids("b c")) expected.push_back(id);
  EXPECT_EQ(ids("a<|user|>b c"), expected);
  EXPECT_EQ(ids("<|user|>").size(), 1u) << "no space stands before it";
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{n_tokens}, false).value(), "<|user|>");
}

TEST_F(HfVocabTest, AllIdsOfAListEndATurn) {
  std::filesystem::copy_file(std::string(BASS_TEST_DATA) + "/tokenizers/spm-llama.model", folder_ + "/tokenizer.model");
  write("generation_config.json", R"({"eos_token_id":[5,9,7,1000000]})");
  const auto tokenizer = Tokenizer::create(load_hf_vocab(folder_).value()).value();
  for (const TokenId id : {5, 9, 7}) EXPECT_TRUE(tokenizer->is_end(id)) << id;
  EXPECT_FALSE(tokenizer->is_end(6));
}

// One id ends a turn as well, where "eos_token" is another token.
TEST_F(HfVocabTest, AnIdEndsATurnBesideTheTokenizersOwn) {
  write("tokenizer.json", "{" + kModel + "}");
  write("tokenizer_config.json", R"({"eos_token":"ab"})");
  write("generation_config.json", R"({"eos_token_id":1})");
  const auto tokenizer = Tokenizer::create(load_hf_vocab(folder_).value()).value();
  EXPECT_TRUE(tokenizer->is_end(1));
  EXPECT_TRUE(tokenizer->is_end(3));
  EXPECT_FALSE(tokenizer->is_end(2));
}

TEST_F(HfVocabTest, ErrorsNameTheFile) {
  EXPECT_THAT(load_hf_vocab(folder_).status().message(), HasSubstr("neither tokenizer.json nor tokenizer.model"));
  write("tokenizer.json", "{" + kModel + "}");
  write("config.json", R"({"eos_token_id":"x"})");
  EXPECT_THAT(load_hf_vocab(folder_).status().message(), AllOf(HasSubstr("config.json"), HasSubstr("'eos_token_id'")));
  write("config.json", "[");
  EXPECT_THAT(load_hf_vocab(folder_).status().message(), AllOf(HasSubstr("config.json"), HasSubstr("not valid JSON")));
  std::filesystem::remove(folder_ + "/tokenizer.json");
  std::string model;
  std::ifstream stream(std::string(BASS_TEST_DATA) + "/tokenizers/spm-unigram.model", std::ios::binary);
  model.assign(std::istreambuf_iterator<char>(stream), {});
  std::filesystem::remove(folder_ + "/config.json");
  for (size_t n_bytes = 1; n_bytes < model.size(); n_bytes += 97) {
    write("tokenizer.model", model.substr(0, n_bytes));
    const auto vocab = load_hf_vocab(folder_);  // cut between pieces it is a smaller model
    EXPECT_THAT(vocab.ok() ? "tokenizer.model: " : vocab.status().message(), HasSubstr("tokenizer.model: "));
  }
  write("tokenizer.model", std::string(100, '\xFF'));
  EXPECT_THAT(load_hf_vocab(folder_).status().message(), HasSubstr("broken at byte "));
}

}  // namespace
}  // namespace bass
