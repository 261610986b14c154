// Runs a grammar over bytes, as a deterministic automaton that is made as far as texts come: a state is a set of stacks
// of what may follow, and what a state becomes on a byte is computed once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace bass {

/// Not thread-safe.
class GrammarAutomaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins so

  /// What is held at most: states, of some hundred bytes and more each; stacks in one of them, in all of them, and
  /// different ones (grammars that can tell alternatives apart only late have many); steps that one call of
  /// `allow_work` is good for, and comparisons of stacks, without which there are more of them.
  static constexpr size_t kMaxStates = size_t{1} << 17;
  static constexpr size_t kMaxStateStacks = size_t{1} << 14;
  static constexpr size_t kMaxHeldStacks = size_t{1} << 23;
  static constexpr size_t kMaxStacks = size_t{1} << 21;
  static constexpr int64_t kMaxWork = int64_t{1} << 20;
  static constexpr int64_t kMaxCompares = int64_t{1} << 18;

  explicit GrammarAutomaton(const Grammar& grammar);

  [[nodiscard]] State start() const { return start_; }
  /// What a state becomes on a byte; kDead also where that is not known and is_full.
  [[nodiscard]] State next(State state, uint8_t byte) {
    const State known = next_[static_cast<size_t>(state) * n_classes() + classes_[byte]];
    return known != kUnknown ? known : find_next(state, byte);
  }
  /// The text so far is one of the grammar's.
  [[nodiscard]] bool is_accepting(State state) const { return states_[static_cast<size_t>(state)].is_accepting; }
  /// Nothing may follow.
  [[nodiscard]] bool is_final(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

  /// Bytes any of which may come, so many in a row.
  struct Run {
    ByteSet bytes;
    size_t len = 0;
  };
  /// The longest run, up to max_len, of the bytes most of which lead to one and the same state. They must be min_bytes
  /// at least: else none is looked for.
  [[nodiscard]] Run find_run(State state, size_t min_bytes, size_t max_len);

  /// One of the limits was met, or memory was wanting: no more is made, and what is not known yet looks dead.
  [[nodiscard]] bool is_full() const { return is_full_; }
  /// Before calls of `next` that belong together. What is full tries anew.
  void allow_work() {
    work_left_ = kMaxWork;
    compares_left_ = kMaxCompares;
    is_full_ = start_ == kDead;
  }
  /// Of what was allowed.
  [[nodiscard]] int64_t work_done() const { return kMaxWork - work_left_; }
  /// A quarter of a limit is used up, and twice of what was left the last time: time for `forget`.
  [[nodiscard]] bool is_crowded() const {
    return n_states() > std::max(kMaxStates / 4, 2 * left_.n_states) ||
           n_held_stacks_ > std::max(kMaxHeldStacks / 4, 2 * left_.n_held_stacks) ||
           n_stacks() > std::max(kMaxStacks / 4, 2 * left_.n_stacks);
  }
  /// Forgets all states but the start and those that are held, which stay what they are.
  void forget();
  void hold(State state) { ++states_[static_cast<size_t>(state)].n_holders; }
  void release(State state) { --states_[static_cast<size_t>(state)].n_holders; }
  [[nodiscard]] bool is_held(State state) const {
    return state == start_ || states_[static_cast<size_t>(state)].n_holders > 0;
  }
  /// That there are.
  [[nodiscard]] size_t n_states() const { return states_.size() - free_states_.size(); }

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
  /// A place in an alternative: in front of an element, or at its end. Of the same family are places with equal
  /// elements behind them but for the rest of a repetition, which may come up to `rank` times.
  struct Place {
    enum class Kind : uint8_t { kBytes, kRule, kEnd };
    Kind kind = Kind::kEnd;
    bool is_rest = false;  // the last element, and the rest of the repetition that the place is in
    int32_t idx = 0;
    int32_t family = 0;
    int32_t rank = 0;
  };
  struct StateInfo {
    std::vector<int32_t> stacks;  // whose places read a byte, ascending
    bool is_accepting = false;
    int32_t n_holders = 0;
  };

  void add_places(const Grammar& grammar);
  void find_classes();
  State make_start(Grammar::RuleId root);
  State find_next(State state, uint8_t byte);
  State make_next(State state, uint8_t byte);
  State intern(bool is_accepting);
  [[nodiscard]] uint64_t hash_of(const StateInfo& info) const;
  /// The stack with `place` on top; at an alternative's end, what is below.
  int32_t push(int32_t place, int32_t below);
  /// Leaves in found_ what may be read from these stacks on. Returns whether the text may end here.
  bool expand(std::vector<int32_t> stacks);
  void drop_contained();
  [[nodiscard]] bool contains(int32_t stack, int32_t other);
  [[nodiscard]] const Place& place_of(int32_t stack) const {
    return places_[static_cast<size_t>(stacks_[static_cast<size_t>(stack)].place)];
  }
  void forget_stacks();
  [[nodiscard]] size_t n_classes() const { return class_bytes_.size(); }
  [[nodiscard]] size_t n_stacks() const { return stacks_.size() - free_stacks_.size(); }
  [[nodiscard]] bool has_room() const {
    return n_states() < kMaxStates && found_.size() <= kMaxStateStacks && n_held_stacks_ <= kMaxHeldStacks &&
           n_stacks() <= kMaxStacks && work_left_ > 0;
  }

  std::vector<ByteSet> byte_sets_;
  std::array<uint8_t, kBytes> classes_{};  // bytes of one are in the same sets
  std::vector<uint8_t> class_bytes_;       // a byte of each
  std::vector<Place> places_;
  std::vector<std::vector<int32_t>> rules_;  // where their alternatives begin
  bool has_repetitions_ = false;             // bounded ones
  std::vector<Stack> stacks_;
  std::vector<bool> in_repetition_;  // [stacks_] it, or one below it
  std::unordered_map<Stack, int32_t, StackHash> stack_ids_;
  std::vector<StateInfo> states_;
  std::vector<State> next_;                             // [states_, n_classes]
  std::unordered_multimap<uint64_t, State> state_ids_;  // by hash_of
  std::vector<int32_t> free_stacks_;                    // ids to be used again
  std::vector<State> free_states_;
  std::vector<int32_t> found_;     // scratch of one transition
  std::vector<uint32_t> seen_in_;  // [stacks_] the last expansion that saw a stack
  uint32_t n_expansions_ = 0;
  size_t n_held_stacks_ = 0;  // in states_
  int64_t work_left_ = kMaxWork;
  int64_t compares_left_ = kMaxCompares;
  struct {
    size_t n_states = 0, n_held_stacks = 0, n_stacks = 0;
  } left_;  // by the last `forget`
  State start_ = kDead;
  bool is_full_ = false;
};

}  // namespace bass
