// How a piece of text becomes tokens: three ways behind one interface.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bass/types.h"
#include "text/bpe.h"

namespace bass {

inline constexpr TokenId kNoToken = -1;

/// What all of them know of a vocabulary.
struct PieceVocab {
  /// Text (of byte-level vocabularies: bytes) to id, of tokens that text can become. The texts lie in the tokenizer.
  std::unordered_map<std::string_view, TokenId> id_of_text;
  std::vector<double> scores;                                      ///< [vocab_size]; empty for kMergeRanks
  std::vector<std::pair<std::string_view, TokenId>> user_defined;  ///< found before anything else (SentencePiece)
  std::vector<bool> is_unused;          ///< [vocab_size]: to be taken apart again; empty: none
  std::array<TokenId, 256> byte_ids{};  ///< a byte's token, or kNoToken
  TokenId unknown_id = kNoToken;
  double min_score = 0, max_score = 0;  ///< of the tokens that count for them; max_score at least 0
  bool is_byte_level = false;           ///< byte_ids are what pieces consist of
  bool has_byte_fallback = false;       ///< byte_ids stand for characters without a token
  bool fuses_unknown = false;
  bool ignores_merges = false;
  bool is_cut_at_spaces = false;  ///< no token has a U+2581 behind another character
};

/// Thread-safe after construction.
class PieceEncoder {
 public:
  /// Working memory of one thread.
  class Session {
   public:
    virtual ~Session() = default;
    /// Appends the tokens of a piece.
    virtual void encode(std::string_view piece, std::vector<TokenId>& out) = 0;
  };

  virtual ~PieceEncoder() = default;
  /// Borrows the encoder.
  [[nodiscard]] virtual std::unique_ptr<Session> start() const = 0;
};

/// PieceModel::kMergeRanks.
std::unique_ptr<PieceEncoder> make_rank_encoder(PieceVocab vocab, BpeMerges merges);
/// PieceModel::kMergeScores. Needs scores.
std::unique_ptr<PieceEncoder> make_score_encoder(PieceVocab vocab);
/// PieceModel::kUnigram, or kUnigramFloat. Needs scores and an unknown token.
std::unique_ptr<PieceEncoder> make_unigram_encoder(PieceVocab vocab, bool is_float);

/// Calls `function` for the words of a piece: cut before each U+2581 that follows another character, if no token can
/// reach across such a place. Merging takes n log n steps, and words come again.
void for_each_word(std::string_view piece, bool is_cut_at_spaces,
                   const std::function<void(std::string_view)>& function);

/// Remembers what short pieces became. One for each thread.
class PieceCache {
 public:
  /// Appends what `piece` became and returns true, if that is known.
  bool find(std::string_view piece, std::vector<TokenId>& out);
  /// Remembers, for the piece of the last find() that returned false, the tokens of `out` from `begin` on.
  void keep(const std::vector<TokenId>& out, size_t begin);

 private:
  static constexpr size_t kNSlots = 4096;
  static constexpr size_t kMaxBytes = 23, kMaxTokens = 8;
  struct Slot {
    uint8_t n_bytes = 0, n_tokens = 0;
    std::array<char, kMaxBytes> text{};
    std::array<TokenId, kMaxTokens> ids{};
  };

  std::vector<Slot> slots_;
  std::string_view piece_;
  Slot* slot_ = nullptr;  // where piece_ belongs; nullptr: it is too long
  size_t n_pieces_ = 0;   // short texts do without a table
};

}  // namespace bass
