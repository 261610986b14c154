#include "text/grammar/grammar_automaton.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace bass {
namespace {

// Of the stacks of a family so many are compared with each further one.
constexpr size_t kMaxCompared = 32;

}  // namespace

GrammarAutomaton::GrammarAutomaton(const Grammar& grammar) : byte_sets_(grammar.byte_sets()) {
  add_places(grammar);
  find_classes();
  start_ = make_start(grammar.root());
  is_full_ = start_ == kDead;
}

void GrammarAutomaton::add_places(const Grammar& grammar) {
  std::map<std::pair<int32_t, size_t>, int32_t> families;  // of a repetition's elements
  int32_t n_families = 0;
  for (const Grammar::Rule& rule : grammar.rules()) {
    const bool is_repetition = rule.repetition >= 0;
    has_repetitions_ |= is_repetition;
    std::vector<int32_t>& begins = rules_.emplace_back();
    for (const Grammar::Sequence& alternative : rule.alternatives) {
      begins.push_back(static_cast<int32_t>(places_.size()));
      for (size_t i = 0; i < alternative.size(); ++i) {
        Place& place = places_.emplace_back();
        const bool is_rule = alternative[i].kind == Grammar::Element::Kind::kRule;
        place.kind = is_rule ? Place::Kind::kRule : Place::Kind::kBytes;
        place.idx = alternative[i].idx;
        place.rank = rule.rank;
        place.family =
            is_repetition ? families.try_emplace({rule.repetition, i}, n_families).first->second : n_families;
        n_families += place.family == n_families ? 1 : 0;
        place.is_rest = is_repetition && is_rule && i + 1 == alternative.size() &&
                        grammar.rules()[static_cast<size_t>(place.idx)].repetition == rule.repetition;
      }
      places_.emplace_back();
    }
  }
}

// Bytes that no set tells apart.
void GrammarAutomaton::find_classes() {
  std::array<uint8_t, kBytes> classes{};
  size_t n = 1;
  for (const ByteSet& set : byte_sets_) {
    if (n == kBytes) break;
    std::array<int, 2 * kBytes> parts{};  // of a class and whether its bytes are in the set: one more than its number
    n = 0;
    for (size_t byte = 0; byte < kBytes; ++byte) {
      int& part = parts[2 * size_t{classes[byte]} + (set[byte] ? 1 : 0)];
      if (part == 0) part = static_cast<int>(++n);
      classes[byte] = static_cast<uint8_t>(part - 1);
    }
  }
  classes_ = classes;
  class_bytes_.resize(n);
  for (size_t byte = 0; byte < kBytes; ++byte) class_bytes_[classes[byte]] = static_cast<uint8_t>(byte);
}

GrammarAutomaton::State GrammarAutomaton::make_start(Grammar::RuleId root) {
  std::vector<int32_t> first;
  for (const int32_t begin : rules_[static_cast<size_t>(root)]) first.push_back(push(begin, kNoStack));
  const bool is_accepting = expand(std::move(first));
  return has_room() ? intern(is_accepting) : kDead;
}

// A rule at its alternative's end leaves nothing behind: so a repetition, which ends with itself, does not pile up.
int32_t GrammarAutomaton::push(int32_t place, int32_t below) {
  if (places_[static_cast<size_t>(place)].kind == Place::Kind::kEnd) return below;
  const Stack stack{place, below};
  if (const auto known = stack_ids_.find(stack); known != stack_ids_.end()) return known->second;
  const bool is_new = free_stacks_.empty();
  const auto id = is_new ? static_cast<int32_t>(stacks_.size()) : free_stacks_.back();
  if (is_new) {
    seen_in_.resize(stacks_.size() + 1);
    in_repetition_.resize(stacks_.size() + 1);
    stacks_.push_back(stack);
  } else {
    free_stacks_.pop_back();
    stacks_[static_cast<size_t>(id)] = stack;
  }
  in_repetition_[static_cast<size_t>(id)] =
      places_[static_cast<size_t>(place)].rank > 0 || (below != kNoStack && in_repetition_[static_cast<size_t>(below)]);
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
  if (!stacks.empty()) work_left_ = 0;  // what was found is not all, however few are left of it
  if (has_repetitions_) drop_contained();
  std::ranges::sort(found_);
  return may_end;
}

// Stacks all of whose texts another one has as well: where a repetition may have begun at several places, and so may
// come more or less often still. Without them states stay few, and become equal.
void GrammarAutomaton::drop_contained() {
  const auto order = [this](int32_t id) {
    const Place& place = place_of(id);
    return std::tuple(place.family, -place.rank, id);
  };
  std::ranges::sort(found_, {}, order);
  size_t n_kept = 0, family_begin = 0;
  for (size_t i = 0; i < found_.size(); ++i) {
    const int32_t id = found_[i];
    if (n_kept == family_begin || place_of(found_[family_begin]).family != place_of(id).family) family_begin = n_kept;
    const auto kept_end = found_.begin() + static_cast<ptrdiff_t>(n_kept);
    const auto compared = kept_end - static_cast<ptrdiff_t>(std::min(n_kept - family_begin, kMaxCompared));
    if (std::any_of(compared, kept_end, [&](int32_t kept) { return contains(kept, id); })) continue;
    const auto left = std::remove_if(compared, kept_end, [&](int32_t kept) { return contains(id, kept); });
    n_kept = static_cast<size_t>(left - found_.begin());
    found_[n_kept++] = id;
  }
  found_.resize(n_kept);
}

// By how they are built: what a stack has beside the other is how often a repetition that it is in may come still. True
// is right, false may be wrong.
bool GrammarAutomaton::contains(int32_t stack, int32_t other) {
  while (stack != other) {
    if (stack == kNoStack || !in_repetition_[static_cast<size_t>(stack)] || compares_left_ <= 0) return false;
    --compares_left_;
    const Stack& outer = stacks_[static_cast<size_t>(stack)];
    const Place& place = places_[static_cast<size_t>(outer.place)];
    const bool is_family = other != kNoStack && place_of(other).family == place.family;
    if (is_family && place_of(other).rank <= place.rank) {
      other = stacks_[static_cast<size_t>(other)].below;
    } else if (!place.is_rest) {
      return false;
    }
    stack = outer.below;  // of a rest, which may be empty, else behind what both have on top
  }
  return true;
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
  if (is_dead) found_.clear();  // else it is what was found last, perhaps too much
  const bool may_end = !is_dead && expand(std::move(read));
  if (!has_room()) return kDead;  // what was found may not be all
  const State next = is_dead ? kDead : intern(may_end);
  State* row = next_.data() + static_cast<size_t>(state) * n_classes();
  for (size_t i = 0; i < n_classes(); ++i) {
    if (alike[class_bytes_[i]]) row[i] = next;
  }
  return next;
}

uint64_t GrammarAutomaton::hash_of(const StateInfo& info) const {
  uint64_t hash = info.is_accepting ? 1 : 0;
  for (const int32_t id : info.stacks) hash = (hash ^ static_cast<uint32_t>(id)) * 0x9E3779B97F4A7C15u ^ hash >> 29;
  return hash;
}

GrammarAutomaton::State GrammarAutomaton::intern(bool is_accepting) {
  if (found_.empty() && !is_accepting) return kDead;  // a rule that matches nothing
  StateInfo info{found_, is_accepting, 0};
  const uint64_t hash = hash_of(info);
  const auto [begin, end] = state_ids_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const StateInfo& known = states_[static_cast<size_t>(it->second)];
    if (known.is_accepting == is_accepting && known.stacks == info.stacks) return it->second;
  }
  const bool is_new = free_states_.empty();
  const auto id = is_new ? static_cast<State>(states_.size()) : free_states_.back();
  if (is_new) {
    next_.resize((states_.size() + 1) * n_classes(), kUnknown);
    states_.emplace_back();
  } else {
    free_states_.pop_back();
  }
  n_held_stacks_ += info.stacks.size();
  states_[static_cast<size_t>(id)] = std::move(info);
  state_ids_.emplace(hash, id);
  return id;
}

void GrammarAutomaton::forget() {
  std::vector<bool> is_kept(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) is_kept[i] = is_held(static_cast<State>(i));
  std::unordered_multimap<uint64_t, State> ids;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (is_kept[i]) ids.emplace(hash_of(states_[i]), static_cast<State>(i));
  }
  free_states_.reserve(states_.size());
  free_states_.clear();  // from here on nothing fails that would leave a state half forgotten
  state_ids_ = std::move(ids);
  n_held_stacks_ = 0;
  for (size_t i = 0; i < states_.size(); ++i) {
    State* row = next_.data() + i * n_classes();
    if (is_kept[i]) {
      const auto is_gone = [&](State next) { return next >= 0 && !is_kept[static_cast<size_t>(next)]; };
      std::replace_if(row, row + n_classes(), is_gone, kUnknown);
      n_held_stacks_ += states_[i].stacks.size();
    } else {
      std::fill_n(row, n_classes(), kUnknown);
      states_[i] = {};
      free_states_.push_back(static_cast<State>(i));
    }
  }
  forget_stacks();
  left_ = {n_states(), n_held_stacks_, n_stacks()};
}

// Those that no state has, and that stand below none that one has.
void GrammarAutomaton::forget_stacks() {
  std::vector<bool> is_used(stacks_.size());
  for (const StateInfo& state : states_) {
    for (int32_t id : state.stacks) {
      for (; id != kNoStack && !is_used[static_cast<size_t>(id)]; id = stacks_[static_cast<size_t>(id)].below) {
        is_used[static_cast<size_t>(id)] = true;
      }
    }
  }
  free_stacks_.reserve(stacks_.size());
  free_stacks_.clear();
  std::erase_if(stack_ids_, [&](const auto& known) { return !is_used[static_cast<size_t>(known.second)]; });
  for (size_t i = 0; i < stacks_.size(); ++i) {
    if (!is_used[i]) free_stacks_.push_back(static_cast<int32_t>(i));
  }
  std::ranges::fill(seen_in_, 0);  // so that expansions may be counted for ever
  n_expansions_ = 0;
}

GrammarAutomaton::Run GrammarAutomaton::find_run(State state, size_t min_bytes, size_t max_len) {
  std::map<State, ByteSet> ways;
  for (size_t byte = 0; byte < kBytes; ++byte) {
    const State to = next(state, static_cast<uint8_t>(byte));
    if (to != kDead) ways[to].set(byte);
  }
  Run run;
  for (const auto& [to, bytes] : ways) {
    if (bytes.count() > run.bytes.count()) run.bytes = bytes;
  }
  if (run.bytes.count() < min_bytes) return {};
  std::vector<uint8_t> read;  // of each class one
  for (const uint8_t byte : class_bytes_) {
    if (run.bytes[byte]) read.push_back(byte);
  }
  for (State at = state; !read.empty() && run.len < max_len; ++run.len) {
    const State to = next(at, read.front());
    const auto leads_there = [&](uint8_t byte) { return next(at, byte) == to; };
    if (to == kDead || !std::ranges::all_of(read, leads_there)) break;
    at = to;
  }
  return run;
}

}  // namespace bass
