// Runs a grammar over bytes, as a deterministic automaton that is made as far as texts come: a state is a set of stacks
// of what may follow, and what a state becomes on a byte is computed once.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace bass {

/// Not thread-safe.
class GrammarAutomaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins so

  /// What is made at most: states, of a KiB and more each; stacks in one of them, in all of them, and different ones
  /// (grammars that can tell alternatives apart only late have many); steps that one call of `allow_work` is good for.
  static constexpr size_t kMaxStates = size_t{1} << 16;
  static constexpr size_t kMaxStateStacks = size_t{1} << 12;
  static constexpr size_t kMaxHeldStacks = size_t{1} << 22;
  static constexpr size_t kMaxStacks = size_t{1} << 21;
  static constexpr int64_t kMaxWork = int64_t{1} << 20;

  explicit GrammarAutomaton(Grammar grammar);

  [[nodiscard]] State start() const { return start_; }
  /// What a state becomes on a byte; kDead also where that is not known and is_full.
  [[nodiscard]] State next(State state, uint8_t byte) {
    const State known = next_[static_cast<size_t>(state) * kBytes + byte];
    return known != kUnknown ? known : find_next(state, byte);
  }
  /// The text so far is one of the grammar's.
  [[nodiscard]] bool is_accepting(State state) const { return states_[static_cast<size_t>(state)].is_accepting; }
  /// Nothing may follow.
  [[nodiscard]] bool is_final(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }
  /// One of the limits was met, or memory was wanting: no more is made, and what is not known yet looks dead.
  [[nodiscard]] bool is_full() const { return is_full_; }
  /// Half of a limit is used up: time to begin anew.
  [[nodiscard]] bool is_worn() const {
    return is_full_ || 2 * states_.size() > kMaxStates || 2 * n_held_stacks_ > kMaxHeldStacks ||
           2 * stacks_.size() > kMaxStacks;
  }
  /// Before calls of `next` that belong together.
  void allow_work() { work_left_ = kMaxWork; }

 private:
  static constexpr State kUnknown = -2;
  static constexpr size_t kBytes = 256;
  static constexpr int32_t kNoStack = -1;  // below the outermost text

  /// What stands behind a rule's alternative in work: a place in the grammar, and the stack below it.
  struct Stack {
    int32_t place = 0;  // index into places_
    int32_t below = kNoStack;
    bool operator==(const Stack&) const = default;
  };
  struct StackHash {
    size_t operator()(const Stack& stack) const {
      const auto bits =
          static_cast<uint64_t>(static_cast<uint32_t>(stack.place)) << 32 | static_cast<uint32_t>(stack.below);
      return static_cast<size_t>((bits ^ bits >> 29) * 0x9E3779B97F4A7C15u);
    }
  };
  /// A place in an alternative: in front of an element, or at its end.
  struct Place {
    enum class Kind : uint8_t { kBytes, kRule, kEnd };
    Kind kind = Kind::kEnd;
    int32_t idx = 0;
  };
  struct StateInfo {
    std::vector<int32_t> stacks;  // whose places read a byte, ascending
    bool is_accepting = false;
  };

  State find_next(State state, uint8_t byte);
  State make_next(State state, uint8_t byte);
  State intern(bool is_accepting);
  /// The stack with `place` on top; at an alternative's end, what is below.
  int32_t push(int32_t place, int32_t below);
  /// Leaves in found_ what may be read from these stacks on. Returns whether the text may end here.
  bool expand(std::vector<int32_t> stacks);
  [[nodiscard]] bool has_room() const {
    return states_.size() < kMaxStates && found_.size() <= kMaxStateStacks && n_held_stacks_ <= kMaxHeldStacks &&
           stacks_.size() <= kMaxStacks && work_left_ > 0;
  }

  std::vector<ByteSet> byte_sets_;
  std::vector<Place> places_;
  std::vector<std::vector<int32_t>> rules_;  // where their alternatives begin
  std::vector<Stack> stacks_;
  std::unordered_map<Stack, int32_t, StackHash> stack_ids_;
  std::vector<StateInfo> states_;
  std::vector<State> next_;  // [states_, kBytes]
  std::map<std::pair<std::vector<int32_t>, bool>, State> state_ids_;
  std::vector<int32_t> found_;     // scratch of one transition
  std::vector<uint32_t> seen_in_;  // [stacks_] the last expansion that saw a stack
  uint32_t n_expansions_ = 0;
  size_t n_held_stacks_ = 0;  // in states_
  int64_t work_left_ = kMaxWork;
  State start_ = kDead;
  bool is_full_ = false;
};

}  // namespace bass
