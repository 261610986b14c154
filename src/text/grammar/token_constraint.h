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
    std::string_view bytes;  // not empty
    TokenId id = 0;
    size_t n_shared = 0;  // bytes in common with the entry before
  };

  /// n_tokens: of the model, at least the tokenizer's, which outlives this. Control tokens are no text.
  TokenTexts(const Tokenizer& tokenizer, int n_tokens);

  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  [[nodiscard]] std::span<const TokenId> end_ids() const { return end_ids_; }
  [[nodiscard]] int n_tokens() const { return n_tokens_; }
  /// Empty for what is no text.
  [[nodiscard]] std::string_view bytes(TokenId id) const {
    return static_cast<size_t>(id) < bytes_.size() ? bytes_[static_cast<size_t>(id)] : std::string_view();
  }

 private:
  std::vector<std::string_view> bytes_;  // [n_tokens]
  std::vector<Entry> entries_;
  std::vector<TokenId> end_ids_;
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
      : texts_(std::move(texts)), automaton_(std::move(grammar)) {}

  /// Of the empty text; kDead where the grammar has no text at all.
  [[nodiscard]] State start() const { return automaton_.start(); }

  /// The tokens that may follow: bit id % 32 of word id / 32. Those that end the text are among them where it may end.
  /// Valid until `trim`. [n_words]
  [[nodiscard]] const uint32_t* allowed(State state);
  /// The state behind one more token; kDead where it may not follow, and behind one that ends the text.
  [[nodiscard]] State next(State state, TokenId token);
  /// The first of the tokens that may not follow, one after the other, or their number.
  [[nodiscard]] size_t n_allowed_of(State state, std::span<const TokenId> tokens);
  /// The text is complete: nothing may follow.
  [[nodiscard]] bool is_complete(State state);
  /// Why nothing is allowed behind a state that is not complete. Empty where something is.
  [[nodiscard]] std::string why_stuck(State state);

  /// Gives up masks where they take too much memory. Nobody may hold one.
  void trim();

 private:
  struct Mask {
    std::vector<uint32_t> words;
    bool is_empty = true;
  };

  const Mask& mask(State state);  // with the lock held
  void fill(State state, Mask* mask);

  std::shared_ptr<const TokenTexts> texts_;
  std::mutex mutex_;  // of what is below
  GrammarAutomaton automaton_;
  std::unordered_map<State, Mask> masks_;
  std::vector<State> path_;  // scratch: states behind a token's bytes
};

}  // namespace bass
