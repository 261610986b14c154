#include "text/grammar/grammar_automaton.h"

#include <algorithm>
#include <utility>

namespace bass {

GrammarAutomaton::GrammarAutomaton(Grammar grammar) : byte_sets_(grammar.byte_sets()) {
  for (const Grammar::Rule& rule : grammar.rules()) {
    std::vector<int32_t>& begins = rules_.emplace_back();
    for (const Grammar::Sequence& alternative : rule.alternatives) {
      begins.push_back(static_cast<int32_t>(places_.size()));
      for (const Grammar::Element& element : alternative) {
        const bool is_rule = element.kind == Grammar::Element::Kind::kRule;
        places_.push_back({is_rule ? Place::Kind::kRule : Place::Kind::kBytes, element.idx});
      }
      places_.push_back({});
    }
  }
  std::vector<int32_t> first;
  bool is_accepting = false;
  for (const int32_t begin : rules_[static_cast<size_t>(grammar.root())]) {
    const int32_t stack = push(begin, kNoStack);
    if (stack == kNoStack) {
      is_accepting = true;
    } else {
      first.push_back(stack);
    }
  }
  is_accepting |= expand(std::move(first));
  is_full_ = !has_room();
  if (!is_full_) start_ = intern(is_accepting);
}

// A rule at its alternative's end leaves nothing behind: so a repetition, which ends with itself, does not pile up.
int32_t GrammarAutomaton::push(int32_t place, int32_t below) {
  if (places_[static_cast<size_t>(place)].kind == Place::Kind::kEnd) return below;
  const Stack stack{place, below};
  if (const auto known = stack_ids_.find(stack); known != stack_ids_.end()) return known->second;
  const auto id = static_cast<int32_t>(stacks_.size());
  seen_in_.push_back(0);
  stacks_.push_back(stack);
  stack_ids_.emplace(stack, id);
  return id;
}

bool GrammarAutomaton::expand(std::vector<int32_t> stacks) {
  found_.clear();
  bool may_end = false;
  ++n_expansions_;
  while (!stacks.empty() && has_room()) {
    --work_left_;
    const int32_t id = stacks.back();
    stacks.pop_back();
    if (id == kNoStack) {
      may_end = true;
      continue;
    }
    uint32_t& seen_in = seen_in_[static_cast<size_t>(id)];
    if (std::exchange(seen_in, n_expansions_) == n_expansions_) continue;
    const Stack stack = stacks_[static_cast<size_t>(id)];
    const Place& place = places_[static_cast<size_t>(stack.place)];
    if (place.kind == Place::Kind::kBytes) {
      found_.push_back(id);
      continue;
    }
    const int32_t behind = push(stack.place + 1, stack.below);
    for (const int32_t begin : rules_[static_cast<size_t>(place.idx)]) stacks.push_back(push(begin, behind));
  }
  std::ranges::sort(found_);
  return may_end;
}

// An exception in the middle leaves an automaton that is full: what it knows stays right.
GrammarAutomaton::State GrammarAutomaton::find_next(State state, uint8_t byte) {
  if (is_full_) return kDead;
  is_full_ = true;
  const State next = make_next(state, byte);
  is_full_ = !has_room();
  return is_full_ ? kDead : next;
}

// For all bytes at once that the same stacks read: of the bytes of a string, nearly all.
GrammarAutomaton::State GrammarAutomaton::make_next(State state, uint8_t byte) {
  std::vector<int32_t> read;
  ByteSet alike;
  alike.set();
  for (const int32_t id : states_[static_cast<size_t>(state)].stacks) {
    const Stack stack = stacks_[static_cast<size_t>(id)];
    const ByteSet& set = byte_sets_[static_cast<size_t>(places_[static_cast<size_t>(stack.place)].idx)];
    alike &= set[byte] ? set : ~set;
    if (set[byte]) read.push_back(push(stack.place + 1, stack.below));
  }
  const bool is_dead = read.empty();
  const bool may_end = !is_dead && expand(std::move(read));
  if (!has_room()) return kDead;  // what was found may not be all
  const State next = is_dead ? kDead : intern(may_end);
  State* row = next_.data() + static_cast<size_t>(state) * kBytes;
  for (size_t other = 0; other < kBytes; ++other) {
    if (alike[other]) row[other] = next;
  }
  return next;
}

GrammarAutomaton::State GrammarAutomaton::intern(bool is_accepting) {
  if (found_.empty() && !is_accepting) return kDead;  // a rule that matches nothing
  std::pair key(found_, is_accepting);
  if (const auto known = state_ids_.find(key); known != state_ids_.end()) return known->second;
  const auto id = static_cast<State>(states_.size());
  next_.resize((states_.size() + 1) * kBytes, kUnknown);
  states_.push_back({found_, is_accepting});
  n_held_stacks_ += found_.size();
  state_ids_.emplace(std::move(key), id);
  return id;
}

}  // namespace bass
