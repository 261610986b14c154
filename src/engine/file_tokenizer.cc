#include <fmt/format.h>

#include <exception>

#include "base/check.h"
#include "bass/tokenizer.h"
#include "io/gguf.h"
#include "model/gguf_vocab.h"
#include "text/tokenizer.h"

namespace bass {
namespace {

class GgufTokenizer final : public FileTokenizer {
 public:
  explicit GgufTokenizer(std::unique_ptr<Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, bool add_special,
                                                    bool parse_special) const override {
    return tokenizer_->encode(text, {.add_special = add_special, .parse_special = parse_special});
  }

  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> tokens) const override {
    return tokenizer_->decode(tokens, /*with_special=*/true);
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

Result<std::unique_ptr<FileTokenizer>> FileTokenizer::load(const std::string& gguf_path) {
  try {
    BASS_ASSIGN_OR_RETURN(const GgufFile gguf, GgufFile::open(gguf_path));
    BASS_ASSIGN_OR_RETURN(VocabData vocab, load_vocab(gguf));
    BASS_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::create(std::move(vocab)));
    return std::unique_ptr<FileTokenizer>(std::make_unique<GgufTokenizer>(std::move(tokenizer)));
  } catch (const std::exception& error) {
    return resource_exhausted(fmt::format("{}: cannot load the vocabulary: {}", gguf_path, error.what()));
  }
}

}  // namespace bass
