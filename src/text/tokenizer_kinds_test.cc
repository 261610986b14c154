// Tokenizers of every kind against Hugging Face tokenizers and SentencePiece: 10,000 hard strings each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/detokenizer.h"
#include "text/named_rules.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace bass {
namespace {

const std::string kFolder = std::string(BASS_TEST_DATA) + "/tokenizers/";

std::string read_file(const std::string& name) {
  std::ifstream stream(kFolder + name, std::ios::binary);
  EXPECT_TRUE(stream.good()) << name;
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// What tests/goldens/golden_strings.py does, call by call.
class StringMaker {
 public:
  StringMaker(const nlohmann::json& parts, uint64_t seed) : parts_(parts), state_(seed) {}

  /// The text, and the same with a byte that makes it invalid UTF-8, now and then.
  std::pair<std::string, std::string> next() {
    std::string text;
    for (uint64_t n = below(9); n > 0; --n) text += part();
    std::string raw = text;
    const bool is_broken = below(10) == 0;
    const uint64_t at = below(text.size() + 1);
    const char byte = static_cast<char>(0x80 + below(0x80));
    if (is_broken) raw.insert(at, 1, byte);
    return {text, raw};
  }

 private:
  uint64_t below(uint64_t n) {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % n;
  }
  const nlohmann::json& pick(const std::string& list) { return parts_.at(list).at(below(parts_.at(list).size())); }

  std::string part() {
    const uint64_t kind = below(8);
    if (kind < 3) return pick("fragments").get<std::string>();
    if (kind < 5) {
      std::string word = below(2) != 0 ? " " : "";
      return word += pick("words").get<std::string>();
    }
    std::string out;
    const uint64_t n = 1 + below(5);
    const nlohmann::json block = kind == 5 ? pick("blocks") : nlohmann::json();
    for (uint64_t i = 0; i < n; ++i) {
      if (kind == 5) {
        const auto first = block[0].get<uint64_t>();
        append_utf8(static_cast<char32_t>(first + below(block[1].get<uint64_t>() - first + 1)), out);
      } else if (kind == 6) {
        out += pick("spaces").get<std::string>();
      } else {
        out += static_cast<char>('0' + below(10));
      }
    }
    return out;
  }

  const nlohmann::json& parts_;
  uint64_t state_;
};

uint16_t hash16(std::string_view bytes) {
  uint64_t value = 0xCBF29CE484222325u;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return static_cast<uint16_t>(value ^ value >> 16 ^ value >> 32 ^ value >> 48);
}

uint16_t hash_ids(const std::vector<TokenId>& ids) {
  return hash16({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)});
}

std::vector<uint16_t> unpack(const std::string& base64) {
  const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint16_t> out;
  uint32_t bits = 0;
  int n_bits = 0;
  std::string bytes;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    if ((n_bits += 6) >= 8) bytes += static_cast<char>(bits >> (n_bits -= 8) & 0xFFu);
  }
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    out.push_back(
        static_cast<uint16_t>(static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8));
  }
  return out;
}

class TokenizerKindsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    goldens_ = new nlohmann::json(nlohmann::json::parse(read_file("goldens.json")));
    const nlohmann::json parts = nlohmann::json::parse(read_file("string_parts.json"));
    StringMaker maker(parts, goldens_->at("seed"));
    strings_ = new std::vector<std::pair<std::string, std::string>>;
    std::string all;
    for (size_t i = 0; i < goldens_->at("n_strings"); ++i) {
      strings_->push_back(maker.next());
      all += strings_->back().second;
    }
    ASSERT_EQ(hash16(all), goldens_->at("strings").get<uint16_t>()) << "the strings differ from the script's";
  }
  static void TearDownTestSuite() {
    delete goldens_;
    delete strings_;
  }

  static bool is_json(const nlohmann::json& kind) { return kind.at("source") == "tokenizer.json"; }

  /// The tokenizer.json of a kind: the file that it builds on, with its own parts.
  static std::string json_of(const nlohmann::json& kind) {
    nlohmann::json whole = kind.at("json");
    nlohmann::json model = nlohmann::json::parse(read_file(kind.at("base")));
    model.update(kind.at("json").at("model"));
    whole["model"] = std::move(model);
    return whole.dump();
  }

  static VocabData vocab_of(const nlohmann::json& kind) {
    Result<VocabData> vocab = is_json(kind) ? parse_tokenizer_json(json_of(kind), "test.json")
                                            : parse_sentencepiece(read_file(kind.at("source")), "test.model");
    EXPECT_TRUE(vocab.ok()) << vocab.status().message();
    return std::move(vocab).value();
  }

  static std::unique_ptr<Tokenizer> make(VocabData vocab) {
    Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocab));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return std::move(tokenizer).value();
  }

  static std::vector<TokenId> encode(const Tokenizer& tokenizer, const nlohmann::json& kind, size_t i) {
    const std::string& text = is_json(kind) ? (*strings_)[i].first : (*strings_)[i].second;
    const Result<std::vector<TokenId>> ids = tokenizer.encode(text, {.parse_special = is_json(kind)});
    EXPECT_TRUE(ids.ok()) << ids.status().message();
    return ids.ok() ? ids.value() : std::vector<TokenId>();
  }

  static inline nlohmann::json* goldens_ = nullptr;
  static inline std::vector<std::pair<std::string, std::string>>* strings_ = nullptr;
};

TEST_F(TokenizerKindsTest, EncodesAndDecodesAsTheReference) {
  ASSERT_GE(goldens_->at("kinds").size(), 28u);
  for (const nlohmann::json& kind : goldens_->at("kinds")) {
    SCOPED_TRACE(kind.at("name"));
    const auto tokenizer = make(vocab_of(kind));
    const std::vector<uint16_t> ids_hashes = unpack(kind.at("ids"));
    const std::vector<uint16_t> text_hashes = unpack(kind.at("texts"));
    ASSERT_EQ(ids_hashes.size(), strings_->size());
    size_t n_wrong_ids = 0, n_wrong_texts = 0;
    for (size_t i = 0; i < strings_->size(); ++i) {
      const std::vector<TokenId> ids = encode(*tokenizer, kind, i);
      if (hash_ids(ids) != ids_hashes[i]) {
        if (++n_wrong_ids <= 3)
          ADD_FAILURE() << "string " << i << ": " << nlohmann::json((*strings_)[i].first)
                        << ::testing::PrintToString(ids);
        continue;
      }
      if (i >= text_hashes.size()) continue;
      const std::string text = to_valid_utf8(tokenizer->decode(ids, is_json(kind)).value());
      if (hash16(text) != text_hashes[i] && ++n_wrong_texts <= 3) {
        ADD_FAILURE() << "text of string " << i << ": " << nlohmann::json((*strings_)[i].first) << " is "
                      << nlohmann::json(text);
      }
      StreamDetokenizer stream(*tokenizer, is_json(kind));
      std::string streamed;
      for (const TokenId id : ids) streamed += stream.push(id);
      ASSERT_EQ(streamed + stream.flush(), text);
    }
    EXPECT_EQ(n_wrong_ids, 0u);
    EXPECT_EQ(n_wrong_texts, 0u);
    for (const nlohmann::json& sample : kind.at("samples")) {
      EXPECT_EQ(encode(*tokenizer, kind, sample.at("string")), sample.at("ids").get<std::vector<TokenId>>());
    }
  }
}

// The least number of bytes in tokens is right for every string; where it is not told, some have fewer than they have
// themselves.
TEST_F(TokenizerKindsTest, TokensHaveAtLeastAsManyBytesAsIsTold) {
  int n_told = 0, n_not_told = 0, n_could_be_told = 0;
  for (const nlohmann::json& kind : goldens_->at("kinds")) {
    SCOPED_TRACE(kind.at("name"));
    const auto tokenizer = make(vocab_of(kind));
    const bool is_told = tokenizer->least_token_bytes("abc") > 0;
    bool has_shorter = false;
    for (size_t i = 0; i < strings_->size(); ++i) {
      const std::string& text = is_json(kind) ? (*strings_)[i].first : (*strings_)[i].second;
      size_t n_bytes = 0;
      for (const TokenId id : encode(*tokenizer, kind, i)) n_bytes += tokenizer->token_bytes(id).size();
      ASSERT_GE(n_bytes, tokenizer->least_token_bytes(text)) << nlohmann::json((*strings_)[i].first);
      has_shorter |= n_bytes < text.size();
    }
    ++(is_told ? n_told : n_not_told);
    n_could_be_told += is_told || has_shorter ? 0 : 1;
  }
  EXPECT_GE(n_told, 8);
  EXPECT_GE(n_not_told, 8);
  EXPECT_LE(n_could_be_told, 2);
}

// Every set of rules that GGUF has a name for is recognised, and means the same when it is read by that name.
TEST_F(TokenizerKindsTest, NamesStandForTheRules) {
  size_t n_named = 0;
  for (const nlohmann::json& kind : goldens_->at("kinds")) {
    const auto name = kind.at("name").get<std::string>();
    if (!is_json(kind)) continue;
    VocabData vocab = vocab_of(kind);
    if (name.starts_with("json-")) {
      EXPECT_EQ(vocab.pre, "") << name;
      EXPECT_FALSE(vocab.huggingface_json.empty()) << name;
      continue;
    }
    ++n_named;
    EXPECT_EQ(vocab.pre, name);
    EXPECT_TRUE(vocab.huggingface_json.empty()) << name;
    vocab.rules.reset();
    const auto tokenizer = make(std::move(vocab));
    const std::vector<uint16_t> hashes = unpack(kind.at("ids"));
    for (size_t i = 0; i < strings_->size(); i += 10)
      ASSERT_EQ(hash_ids(encode(*tokenizer, kind, i)), hashes[i]) << name;
  }
  EXPECT_EQ(n_named, 17u);
}

// Negative control: no kind passes for another one.
TEST_F(TokenizerKindsTest, KindsDiffer) {
  for (const nlohmann::json& kind : goldens_->at("kinds")) {
    if (!is_json(kind)) continue;
    const auto tokenizer = make(vocab_of(kind));
    for (const nlohmann::json& other : goldens_->at("kinds")) {
      if (&other == &kind || !other.contains("base") || other.at("base") != kind.at("base")) continue;
      const std::vector<uint16_t> hashes = unpack(other.at("ids"));
      bool differs = false;
      for (size_t i = 0; i < strings_->size() && !differs; ++i) {
        differs = hash_ids(encode(*tokenizer, kind, i)) != hashes[i];
      }
      EXPECT_TRUE(differs) << kind.at("name") << " and " << other.at("name");
    }
  }
}

}  // namespace
}  // namespace bass
