// The tokens of a vocabulary as texts, in the order of their bytes, to be followed through a grammar one after the
// other.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "bass/types.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace bass {

/// Tokens, each as what it adds to the one before.
struct TokenList {
  struct Entry {
    TokenId id = 0;
    uint32_t n_shared = 0;   // bytes in common with the entry before
    uint32_t n_own = 0;      // behind these
    uint32_t own_begin = 0;  // in own_bytes
    uint32_t next = 0;       // index of the next entry that shares no more with the one before it
  };
  std::vector<Entry> entries;
  std::vector<uint8_t> own_bytes;
};

/// A set of tokens: bit id % 32 of word id / 32.
struct TokenMask {
  static constexpr int kWordBits = 32;

  [[nodiscard]] static size_t n_words(int n_tokens) {
    return static_cast<size_t>((n_tokens + kWordBits - 1) / kWordBits);
  }
  [[nodiscard]] static bool has(const uint32_t* words, TokenId id) {
    return (words[id / kWordBits] >> id % kWordBits & 1u) != 0;
  }
  static void set(std::vector<uint32_t>* words, TokenId id) {
    (*words)[static_cast<size_t>(id / kWordBits)] |= 1u << id % kWordBits;
  }
};

/// The tokens that are text, and those that end a text. Thread-safe.
class TokenTexts {
 public:
  /// n_tokens: of the model, at least the tokenizer's, which outlives this. Control tokens are no text.
  TokenTexts(const Tokenizer& tokenizer, int n_tokens);

  [[nodiscard]] const TokenList& all() const { return all_; }
  [[nodiscard]] std::span<const TokenId> end_ids() const { return end_ids_; }
  [[nodiscard]] int n_tokens() const { return n_tokens_; }
  [[nodiscard]] size_t max_len() const { return max_len_; }  // in bytes, of a token
  /// Empty for what is no text.
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    return static_cast<size_t>(id) < bytes_.size() ? bytes_[static_cast<size_t>(id)] : std::string_view();
  }

  /// Tokens made of certain bytes alone, up to a length, and the others.
  struct Split {
    std::vector<uint32_t> made_of;  // a TokenMask
    TokenList others;
  };
  /// Null where following all tokens costs hardly more. Lengths are rounded down, so that few splits serve all; those
  /// that were asked for last are kept.
  [[nodiscard]] std::shared_ptr<const Split> split(const ByteSet& made_of, size_t max_len) const;
  /// Fewer bytes are digits, or letters of one kind: what is made of others ends at its first byte.
  static constexpr size_t kMinSplitBytes = 32;
  /// Longer runs than this are worth no more to `split`.
  static constexpr size_t kMaxSplitLen = 32;

 private:
  struct KnownSplit {
    ByteSet made_of;
    size_t max_len = 0;
    std::shared_ptr<const Split> split;
  };

  [[nodiscard]] TokenList list(const std::vector<TokenId>& ids) const;
  [[nodiscard]] std::shared_ptr<const Split> make_split(const ByteSet& made_of, size_t max_len) const;

  std::vector<std::string_view> bytes_;  // [n_tokens]
  std::vector<TokenId> ordered_;         // by bytes
  TokenList all_;
  std::vector<TokenId> end_ids_;
  size_t max_len_ = 0;
  int n_tokens_;
  mutable std::mutex mutex_;              // of what is below
  mutable std::list<KnownSplit> splits_;  // asked for last: in front
};

}  // namespace bass
