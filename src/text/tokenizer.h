// Text to tokens and back: byte-level BPE, SentencePiece BPE, unigram.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"
#include "bass/types.h"
#include "text/byte_trie.h"
#include "text/normalizer.h"
#include "text/piece_encoder.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/vocab.h"

namespace bass {

struct EncodeOptions {
  bool add_special = false;    ///< begin and end tokens, if the vocabulary asks for them
  bool parse_special = false;  ///< the text of a control token becomes that token
  /// A byte-level vocabulary may lack tokens for some bytes (SmolLM2's lacks 21: control characters, and bytes that
  /// valid text hardly ever has). By default they are left out, as the models' own tokenizers do; false makes them an
  /// error.
  bool allow_loss = true;
};

/// Thread-safe after construction.
class Tokenizer {
 public:
  /// Errors (kInvalidFile): an unknown model or pre-tokenizer, ids outside the vocabulary, merges of unknown tokens, no
  /// tokens for ordinary characters, scores of another number than tokens.
  static Result<std::unique_ptr<Tokenizer>> create(VocabData vocab);

  /// The text is taken byte for byte; it need not be valid UTF-8. The texts of user-defined tokens always become those
  /// tokens. Errors: 2 GiB or more; a byte without a token, if `allow_loss` is off.
  [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The bytes that a token stands for, not necessarily valid UTF-8; of control tokens their text. The id must be
  /// valid.
  [[nodiscard]] const std::string& token_bytes(TokenId id) const;

  /// Bytes of all tokens; control tokens are left out unless `with_special`. Error: an id outside the vocabulary.
  [[nodiscard]] Result<std::string> decode(std::span<const TokenId> ids, bool with_special) const;

  /// Appends what a token adds to a text. `at_start` says whether the text has only begun, where SentencePiece does not
  /// show the space that it has put before the text when it was encoded; it is kept up to date.
  void append_text(TokenId id, bool with_special, bool& at_start, std::string& out) const;

  [[nodiscard]] int vocab_size() const { return static_cast<int>(bytes_of_token_.size()); }
  [[nodiscard]] bool is_valid(TokenId id) const { return id >= 0 && id < vocab_size(); }
  /// Error: an id outside the vocabulary.
  [[nodiscard]] Status check_id(TokenId id) const;
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

  /// Bytes that no token of this vocabulary can spell, ascending. Of byte-level vocabularies only: the others have an
  /// unknown token.
  [[nodiscard]] std::vector<uint8_t> missing_bytes() const;
  /// How many bytes the tokens of a text have together at least (token_bytes), which says without making it tokens how
  /// many these are at least. 0 where nothing is known: rules rewrite or remove a part of the text, or one token stands
  /// for unknown characters of any number.
  [[nodiscard]] size_t least_token_bytes(std::string_view text) const;

 private:
  Tokenizer(VocabData vocab, TokenizerRules rules) : vocab_(std::move(vocab)), rules_(std::move(rules)) {}

  Status build();
  [[nodiscard]] Status check_sizes_and_ids() const;
  [[nodiscard]] Status check_text_bytes() const;
  void correct_tokens();
  [[nodiscard]] bool has_own_user_defined() const;
  [[nodiscard]] bool is_added(size_t idx) const;
  void spell_tokens();
  Status add_special_tokens();
  [[nodiscard]] PieceVocab make_piece_vocab() const;
  void set_score_range(PieceVocab& pieces) const;
  [[nodiscard]] Result<BpeMerges> make_merges() const;
  Status make_encoder();
  void find_end_ids();
  [[nodiscard]] Status error(std::string_view what) const;
  [[nodiscard]] Status error_in_key(std::string_view name, std::string_view what) const;
  [[nodiscard]] TokenType type_of(size_t idx) const;
  [[nodiscard]] Status check_lossless(std::string_view text) const;
  struct Encoding;
  [[nodiscard]] Status encode_raw(std::string_view text, bool is_first, Encoding& state) const;
  [[nodiscard]] Status encode_normalized(std::string text, bool is_first, Encoding& state) const;

  VocabData vocab_;  ///< merges, tokens and scores are dropped once built
  TokenizerRules rules_;
  std::vector<std::string> bytes_of_token_;  // [vocab_size]; encoder_ looks into it
  std::vector<bool> is_control_;             // [vocab_size]
  ByteTrie user_defined_;                    // SentencePiece's
  std::optional<Normalizer> normalizer_;
  std::optional<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<PieceEncoder> encoder_;
  std::array<TokenId, 256> token_of_byte_{};  // kNoToken: the vocabulary lacks it
  int most_shrinking_ = 0;                    // TokenizerRules; 0 too where tokens stand for unknown texts
  SpecialTokens special_, normalized_special_;
  std::vector<TokenId> end_ids_;
};

}  // namespace bass
