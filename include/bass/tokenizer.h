// The tokenizer of a GGUF file or a Hugging Face checkpoint, without its weights: works with vocabulary-only files too.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bass/request.h"

namespace bass {

/// Thread-safe.
class FileTokenizer {
 public:
  /// path: as EngineOptions::model_path. Errors: kInvalidFile, kResourceExhausted without memory.
  static Result<std::unique_ptr<FileTokenizer>> load(const std::string& path);
  virtual ~FileTokenizer() = default;
  /// Byte for byte. `add_special`, `parse_special`: as Engine::tokenize. Error: a byte that no token of the vocabulary
  /// can spell.
  [[nodiscard]] virtual Result<std::vector<TokenId>> encode(std::string_view text, bool add_special,
                                                            bool parse_special) const = 0;
  /// A conversation as the model's chat template writes it, with the beginning of an answer. template_kwargs:
  /// Request::chat_template_kwargs, or none. Errors: no template, one that refuses the messages, what `submit` says of
  /// template_kwargs.
  [[nodiscard]] virtual Result<std::vector<TokenId>> encode_chat(std::span<const ChatMessage> messages,
                                                                 std::string_view template_kwargs = {}) const = 0;
  /// Bytes of the tokens, not necessarily valid UTF-8. Error: an id outside the vocabulary.
  [[nodiscard]] virtual Result<std::string> decode(std::span<const TokenId> tokens) const = 0;
};

}  // namespace bass
