// What a grammar allows in terms of tokens: for each state of a text the tokens that may come next, as a bit mask.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bass/types.h"
#include "text/grammar/grammar_automaton.h"
#include "text/tokenizer.h"

namespace bass {

/// The tokens of a vocabulary that are text, in the order of their bytes, and those that end a text. Thread-safe.
class TokenTexts {
 public:
  struct Entry {
    TokenId id = 0;
    uint32_t n_shared = 0;  // bytes in common with the entry before
    uint32_t n_own = 0;     // behind these
  };

  /// n_tokens: of the model, at least the tokenizer's, which outlives this. Control tokens are no text.
  TokenTexts(const Tokenizer& tokenizer, int n_tokens);

  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  /// The own bytes of all entries, one after the other.
  [[nodiscard]] const uint8_t* own_bytes() const { return own_bytes_.data(); }
  [[nodiscard]] std::span<const TokenId> end_ids() const { return end_ids_; }
  [[nodiscard]] int n_tokens() const { return n_tokens_; }
  [[nodiscard]] size_t max_len() const { return max_len_; }  // in bytes, of an entry
  /// Empty for what is no text.
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    return static_cast<size_t>(id) < bytes_.size() ? bytes_[static_cast<size_t>(id)] : std::string_view();
  }

 private:
  std::vector<std::string_view> bytes_;  // [n_tokens]
  std::vector<Entry> entries_;
  std::vector<uint8_t> own_bytes_;
  std::vector<TokenId> end_ids_;
  size_t max_len_ = 0;
  int n_tokens_;
};

/// A grammar at work on a vocabulary, shared by all texts that follow it. Masks are made when a state is met first (0.1
/// to 1 ms for 49,152 tokens) and kept. Thread-safe, `trim` apart.
class TokenConstraint {
 public:
  using State = GrammarAutomaton::State;
  static constexpr State kDead = GrammarAutomaton::kDead;
  /// Bits of a word of a mask.
  static constexpr int kWordBits = 32;

  TokenConstraint(Grammar grammar, std::shared_ptr<const TokenTexts> texts)
      : texts_(std::move(texts)), automaton_(std::move(grammar)), nothing_(n_words(), 0) {}

  /// Of the empty text; kDead where the grammar has no text at all.
  [[nodiscard]] State start() const { return automaton_.start(); }

  /// The tokens that may follow: bit id % 32 of word id / 32. Those that end the text are among them where it may end.
  /// None, where the grammar is worn out or there is no memory (why_stuck). Valid until `trim`. [n_words]
  [[nodiscard]] const uint32_t* allowed(State state) noexcept;
  /// The state behind one more token; kDead where it may not follow, and behind one that ends the text.
  [[nodiscard]] State next(State state, TokenId token) noexcept;
  /// How many of the tokens may follow, one after the other.
  [[nodiscard]] size_t n_allowed_of(State state, std::span<const TokenId> tokens) noexcept;
  /// The text is complete: nothing may follow.
  [[nodiscard]] bool is_complete(State state) noexcept;
  /// Why no token may follow. may_end: those that end the text count. Empty where some may, and of kDead.
  [[nodiscard]] std::string why_stuck(State state, bool may_end);
  /// Much has been made of the grammar: new texts begin better with a new constraint.
  [[nodiscard]] bool is_worn() noexcept;

  /// Gives up masks where they take too much memory. Nobody may hold one.
  void trim();

 private:
  struct Mask {
    std::vector<uint32_t> words;
    bool has_text = false;  // a token that is text
    bool has_end = false;
  };

  // With the lock held.
  const Mask& mask(State state);
  Mask make_mask(State state);
  void allow_texts(State state, Mask* mask);

  [[nodiscard]] size_t n_words() const { return static_cast<size_t>((texts_->n_tokens() + kWordBits - 1) / kWordBits); }

  std::shared_ptr<const TokenTexts> texts_;
  std::mutex mutex_;  // of what is below
  GrammarAutomaton automaton_;
  const std::vector<uint32_t> nothing_;
  std::unordered_map<State, Mask> masks_;
  std::vector<State> path_;  // scratch: states behind a token's bytes
};

}  // namespace bass
