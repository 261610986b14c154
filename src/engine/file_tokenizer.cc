#include <fmt/format.h>

#include <exception>
#include <optional>

#include "base/check.h"
#include "bass/tokenizer.h"
#include "model/model_source.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace bass {
namespace {

class LoadedTokenizer final : public FileTokenizer {
 public:
  explicit LoadedTokenizer(std::unique_ptr<Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, bool add_special,
                                                    bool parse_special) const override {
    Result<std::vector<TokenId>> ids =
        tokenizer_->encode(text, {.add_special = add_special, .parse_special = parse_special, .allow_loss = false});
    if (ids.ok()) return ids;
    const std::optional<size_t> offset = find_missing_byte(text);
    if (!offset.has_value()) return ids;
    return invalid_argument(
        fmt::format("byte {} of the text is 0x{:02X}, for which the vocabulary has no token; remove it", *offset,
                    static_cast<unsigned char>(text[*offset])));
  }

  [[nodiscard]] Result<std::vector<TokenId>> encode_chat(std::span<const ChatMessage> messages,
                                                         std::string_view template_kwargs) const override {
    BASS_RETURN_IF_ERROR(check_messages(messages));
    if (!template_kwargs.empty()) BASS_RETURN_IF_ERROR(check_template_variables(template_kwargs));
    ChatFormat format = chat_format(*tokenizer_);
    format.variables = template_kwargs;
    BASS_ASSIGN_OR_RETURN(const std::string text, format_chat(format, messages));
    return encode(text, /*add_special=*/false, /*parse_special=*/true);
  }

  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> tokens) const override {
    return tokenizer_->decode(tokens, /*with_special=*/true);
  }

 private:
  /// Where the first byte is that no token can spell.
  [[nodiscard]] std::optional<size_t> find_missing_byte(std::string_view text) const {
    const std::vector<uint8_t> missing = tokenizer_->missing_bytes();
    const size_t offset = text.find_first_of(std::string(missing.begin(), missing.end()));
    return offset == text.npos ? std::nullopt : std::optional(offset);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

Result<std::unique_ptr<FileTokenizer>> FileTokenizer::load(const std::string& path) {
  try {
    BASS_ASSIGN_OR_RETURN(VocabData vocab, open_vocab(path));
    BASS_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::create(std::move(vocab)));
    return std::unique_ptr<FileTokenizer>(std::make_unique<LoadedTokenizer>(std::move(tokenizer)));
  } catch (const std::exception& error) {
    return resource_exhausted(fmt::format("{}: cannot load the vocabulary: {}", path, error.what()));
  }
}

}  // namespace bass
