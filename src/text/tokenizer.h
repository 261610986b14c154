// Text to tokens and back: byte-level BPE.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bass/status.h"
#include "bass/types.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/vocab.h"

namespace bass {

class ByteLevelMap;

struct EncodeOptions {
  bool add_special = false;    ///< begin and end tokens, if the vocabulary asks for them
  bool parse_special = false;  ///< the text of a control token becomes that token
  /// A vocabulary may lack tokens for some bytes (SmolLM2's lacks 21: control characters, and bytes that valid text
  /// hardly ever has). By default they are left out, as the models' own tokenizers do; false makes them an error.
  bool allow_loss = true;
};

/// Thread-safe after construction.
class Tokenizer {
 public:
  /// Errors (kInvalidFile): an unknown model or pre-tokenizer, ids outside the vocabulary, merges of unknown tokens, no
  /// tokens for ordinary characters.
  static Result<std::unique_ptr<Tokenizer>> create(VocabData vocab);

  /// The text is taken byte for byte; it need not be valid UTF-8. The texts of user-defined tokens always become those
  /// tokens. Errors: 2 GiB or more; a byte without a token, if `allow_loss` is off.
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The bytes that a token stands for, not necessarily valid UTF-8; of control tokens their text. The id must be
  /// valid.
  [[nodiscard]] const std::string& token_bytes(TokenId id) const;

  /// Bytes of all tokens; control tokens are left out unless `with_special`. Error: an id outside the vocabulary.
  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> ids, bool with_special) const;

  [[nodiscard]] int vocab_size() const { return static_cast<int>(bytes_of_token_.size()); }
  [[nodiscard]] bool is_valid(TokenId id) const { return id >= 0 && id < vocab_size(); }
  /// A token that marks something (type control or unknown) and is no text. The id must be valid.
  [[nodiscard]] bool is_control(TokenId id) const;

  /// Tokens that end an answer, ascending: the file's end-of-sequence and end-of-turn tokens, and control tokens whose
  /// text is known to mean that. Empty if the vocabulary has none.
  [[nodiscard]] std::span<const TokenId> end_ids() const { return end_ids_; }
  [[nodiscard]] bool is_end(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> bos_id() const { return vocab_.bos_id; }
  [[nodiscard]] std::optional<TokenId> eos_id() const { return vocab_.eos_id; }

  /// Empty if the vocabulary has none.
  [[nodiscard]] const std::string& chat_template() const { return vocab_.chat_template; }

  /// Bytes that no token of this vocabulary can spell, ascending.
  [[nodiscard]] std::vector<uint8_t> missing_bytes() const;

 private:
  static constexpr TokenId kNoToken = -1;

  Tokenizer(VocabData vocab, PreTokenizer pre_tokenizer)
      : vocab_(std::move(vocab)), pre_tokenizer_(std::move(pre_tokenizer)) {}

  Status build();
  [[nodiscard]] Status check_sizes_and_ids() const;
  void spell_tokens(const ByteLevelMap& map);
  Status add_merges(const std::unordered_map<std::string_view, TokenId>& id_of_text);
  void find_end_ids();
  [[nodiscard]] Status error(std::string_view what) const;
  [[nodiscard]] TokenType type_of(size_t idx) const;
  [[nodiscard]] Status check_lossless(std::string_view text) const;
  [[nodiscard]] Status encode_ordinary(std::string_view text, BpeMerger& merger, std::vector<TokenId>& out) const;

  VocabData vocab_;  ///< merges and tokens are dropped once built
  PreTokenizer pre_tokenizer_;
  BpeMerges merges_;
  std::vector<std::string> bytes_of_token_;   // [vocab_size]
  std::array<TokenId, 256> token_of_byte_{};  // kNoToken: the vocabulary lacks it
  SpecialTokens user_defined_, user_defined_and_control_;
  std::vector<TokenId> end_ids_;
};

}  // namespace bass
