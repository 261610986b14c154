// What a grammar allows in terms of tokens: for each state of a text the tokens that may come next, as a bit mask. So
// it is where thoughts have to end, whatever follows them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bass/types.h"
#include "text/grammar/grammar_automaton.h"
#include "text/grammar/token_texts.h"
#include "text/thought_budget.h"

namespace bass {

/// Behind some tokens of a text.
struct ConstraintState {
  GrammarAutomaton::State text = GrammarAutomaton::kDead;
  ThoughtsPlace thoughts;

  friend bool operator==(const ConstraintState&, const ConstraintState&) = default;
};

/// A grammar at work on a vocabulary, shared by all texts that follow it. Masks are made when a state is met first and
/// kept. Thread-safe, `trim` apart.
class TokenConstraint {
 public:
  using State = ConstraintState;
  static constexpr State kDead{};

  /// budget: of the thoughts that the grammar has in front of what else there is (behind_thoughts.h)
  TokenConstraint(const Grammar& grammar, std::shared_ptr<const TokenTexts> texts, const ThoughtBudget& budget = {})
      : texts_(std::move(texts)),
        budget_(budget),
        automaton_(std::in_place, grammar),
        nothing_(TokenMask::n_words(texts_->n_tokens()), 0) {}
  /// Of texts that are free, but for the end of their thoughts.
  TokenConstraint(std::shared_ptr<const TokenTexts> texts, const ThoughtBudget& budget)
      : texts_(std::move(texts)), budget_(budget), nothing_(TokenMask::n_words(texts_->n_tokens()), 0) {}

  /// Of the empty text; kDead where the grammar has no text at all.
  [[nodiscard]] State start() const;

  /// The tokens that may follow, a TokenMask; null where all may. Those that end the text are among them where it may
  /// end. None, where that would take too much work or memory (why_stuck). Valid until `trim`, as are states. [n_words]
  [[nodiscard]] const uint32_t* allowed(State state) noexcept;
  /// The state behind one more token; kDead where it may not follow, and behind one that ends the text.
  [[nodiscard]] State next(State state, TokenId token) noexcept;
  /// How many of the tokens may follow, one after the other.
  [[nodiscard]] size_t n_allowed_of(State state, std::span<const TokenId> tokens) noexcept;
  /// The text is complete: nothing may follow.
  [[nodiscard]] bool is_complete(State state) noexcept;
  /// Whatever follows is allowed.
  [[nodiscard]] bool is_free(State state) const {
    return !automaton_ && state != kDead && state.thoughts.part == ThoughtsPlace::Part::kBehind;
  }
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

  using TextState = GrammarAutomaton::State;
  static constexpr TextState kFreeText = 0;  // of all texts without a grammar
  /// What a mask depends on: the state of the text, and in thoughts that have to end how much of their mark there is.
  struct MaskKey {
    TextState text = 0;
    int n_matched = -1;  // not in such
    friend bool operator==(const MaskKey&, const MaskKey&) = default;
  };
  struct MaskKeyHash {
    size_t operator()(const MaskKey& key) const {
      return std::hash<int64_t>()((static_cast<int64_t>(key.text) << 8) + key.n_matched);
    }
  };

  void hold(State state) noexcept;
  void release(State state) noexcept;
  /// The budget is spent: nothing but the mark that ends thoughts may follow.
  [[nodiscard]] bool has_to_end(const ThoughtsPlace& place) const {
    return place.part == ThoughtsPlace::Part::kInside && place.n_tokens >= budget_.max_tokens;
  }
  [[nodiscard]] MaskKey key_of(State state) const {
    return {state.text, has_to_end(state.thoughts) ? state.thoughts.n_matched : -1};
  }

  // With the lock held.
  const Mask& mask(State state);
  Mask make_mask(State state);
  void allow_texts(TextState state, Mask* mask);
  void allow_texts(TextState state, const TokenList& tokens, Mask* mask);
  void allow_end_of_thoughts(State state, Mask* mask);
  TextState behind(TextState state, std::string_view bytes);

  std::shared_ptr<const TokenTexts> texts_;
  const ThoughtBudget budget_;
  std::mutex mutex_;  // of what is below
  std::optional<GrammarAutomaton> automaton_;
  const std::vector<uint32_t> nothing_;
  std::unordered_map<MaskKey, Mask, MaskKeyHash> masks_;
  size_t n_masks_left_ = 0;      // by the last trim that gave up some
  bool has_failed_ = false;      // a mask was too much, since the last trim
  std::vector<TextState> path_;  // scratch: states behind a token's bytes
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

  /// Null from where on whatever follows is allowed.
  [[nodiscard]] TokenConstraint* constraint() const { return constraint_.get(); }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool is_complete() const { return constraint_ != nullptr && constraint_->is_complete(state_); }
  /// The constraint does not allow the text.
  [[nodiscard]] bool is_lost() const { return constraint_ != nullptr && state_ == TokenConstraint::kDead; }
  /// Behind one more token, of a text that follows a constraint; kDead where that may not follow, or there is no memory
  /// for what may follow it.
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
