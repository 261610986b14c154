// What a grammar allows in terms of tokens: for each state of a text the tokens that may come next, as a bit mask.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bass/types.h"
#include "text/grammar/grammar_automaton.h"
#include "text/grammar/token_texts.h"

namespace bass {

/// A grammar at work on a vocabulary, shared by all texts that follow it. Masks are made when a state is met first and
/// kept. Thread-safe, `trim` apart.
class TokenConstraint {
 public:
  using State = GrammarAutomaton::State;
  static constexpr State kDead = GrammarAutomaton::kDead;

  TokenConstraint(const Grammar& grammar, std::shared_ptr<const TokenTexts> texts)
      : texts_(std::move(texts)), automaton_(grammar), nothing_(TokenMask::n_words(texts_->n_tokens()), 0) {}

  /// Of the empty text; kDead where the grammar has no text at all.
  [[nodiscard]] State start() const { return automaton_.start(); }

  /// The tokens that may follow, a TokenMask. Those that end the text are among them where it may end. None, where that
  /// would take too much work or memory (why_stuck). Valid until `trim`, as are states. [n_words]
  [[nodiscard]] const uint32_t* allowed(State state) noexcept;
  /// The state behind one more token; kDead where it may not follow, and behind one that ends the text.
  [[nodiscard]] State next(State state, TokenId token) noexcept;
  /// How many of the tokens may follow, one after the other.
  [[nodiscard]] size_t n_allowed_of(State state, std::span<const TokenId> tokens) noexcept;
  /// The text is complete: nothing may follow.
  [[nodiscard]] bool is_complete(State state) noexcept;
  /// Why no token may follow. may_end: those that end the text count. Empty where some may, and of kDead.
  [[nodiscard]] std::string why_stuck(State state, bool may_end);

  /// Between steps: where masks or states are many, those are given up that no ConstraintPlace stands at.
  void trim() noexcept;

 private:
  friend class ConstraintPlace;
  struct Mask {
    std::vector<uint32_t> words;
    bool has_text = false;  // a token that is text
    bool has_end = false;
    bool was_too_much = false;
  };

  void hold(State state) noexcept;
  void release(State state) noexcept;

  // With the lock held.
  const Mask& mask(State state);
  Mask make_mask(State state);
  void allow_texts(State state, Mask* mask);
  void allow_texts(State state, const TokenList& tokens, Mask* mask);

  std::shared_ptr<const TokenTexts> texts_;
  std::mutex mutex_;  // of what is below
  GrammarAutomaton automaton_;
  const std::vector<uint32_t> nothing_;
  std::unordered_map<State, Mask> masks_;
  size_t n_masks_left_ = 0;  // by the last trim that gave up some
  bool has_failed_ = false;  // a mask was too much, since the last trim
  std::vector<State> path_;  // scratch: states behind a token's bytes
};

/// Where a text stands that follows a constraint; what the constraint knows of that place stays. Movable.
class ConstraintPlace {
 public:
  using State = TokenConstraint::State;

  /// Of a text that follows none.
  ConstraintPlace() = default;
  /// In front of a text.
  explicit ConstraintPlace(std::shared_ptr<TokenConstraint> constraint);
  ConstraintPlace(ConstraintPlace&& other) noexcept { swap(other); }
  ConstraintPlace& operator=(ConstraintPlace&& other) noexcept {
    ConstraintPlace(std::move(other)).swap(*this);
    return *this;
  }
  ~ConstraintPlace();

  [[nodiscard]] TokenConstraint* constraint() const { return constraint_.get(); }
  [[nodiscard]] State state() const { return state_; }
  /// Behind one more token; kDead where that may not follow, or there is no memory for what may follow it.
  void advance(TokenId token) noexcept;

 private:
  void swap(ConstraintPlace& other) noexcept {
    constraint_.swap(other.constraint_);
    std::swap(state_, other.state_);
  }

  std::shared_ptr<TokenConstraint> constraint_;
  State state_ = TokenConstraint::kDead;
};

}  // namespace bass
