#include "text/grammar/json_string_product.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/grammar/grammar_automaton.h"
#include "text/grammar/regex_grammar.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr size_t kMaxPlaces = 1 << 14;   // of all patterns at once
constexpr size_t kMaxCounted = 1 << 17;  // with a number of characters each
constexpr int kBytes = 256;
constexpr int kHexDigits = 4;

/// Where in a character the text is: between two; so many bytes of UTF-8 are missing; behind an escape's backslash; so
/// many of its hexadecimal digits are missing.
enum Phase : int { kBetween = 0, kMissing = 1, kEscape = 4, kMissingDigits = 5 };

/// Behind the byte, which a pattern allows there.
int phase_behind(int phase, int byte) {
  if (phase == kBetween) {
    if (byte == '\\') return kEscape;
    return byte >= 0xF0 ? kMissing + 2 : byte >= 0xE0 ? kMissing + 1 : byte >= 0xC0 ? kMissing : kBetween;
  }
  if (phase == kEscape) return byte == 'u' ? kMissingDigits + kHexDigits - 1 : kBetween;
  return phase == kMissing || phase == kMissingDigits ? kBetween : phase - 1;
}

/// A place in all patterns, and what may follow.
struct Place {
  struct Step {
    ByteSet bytes;
    size_t to = 0;
  };
  std::vector<Step> steps;
  bool begins_character = false;
  bool is_end = false;
};

/// The patterns' automata, taken together.
class Patterns {
 public:
  explicit Patterns(int64_t* work) : work_(work) {}

  Status add(const std::string& pattern) {
    GrammarBuilder builder;
    BASS_ASSIGN_OR_RETURN(const Sequence sequence, regex_sequence(builder, pattern, RegexText::kInJsonString));
    BASS_ASSIGN_OR_RETURN(const Grammar grammar, builder.finish(sequence));
    automata_.emplace_back(grammar);
    return ok_status();
  }

  /// All places that texts get to; the first is their beginning.
  Result<std::vector<Place>> places() {
    Key start{{}, kBetween};
    for (const GrammarAutomaton& automaton : automata_) {
      if (automaton.start() == GrammarAutomaton::kDead) return too_large();
      start.first.push_back(automaton.start());
    }
    place_of(start);
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_.size() > kMaxPlaces || *work_ <= 0) return too_large();
      places_[i] = place_at(keys_[i]);
      if (std::ranges::any_of(automata_, [](const auto& automaton) { return automaton.is_full(); })) return too_large();
    }
    return std::move(places_);
  }

 private:
  using Key = std::pair<std::vector<GrammarAutomaton::State>, int>;

  static Status too_large() { return invalid_argument("it has too many places"); }

  size_t place_of(const Key& key) {
    const auto [known, is_new] = ids_.try_emplace(key, keys_.size());
    if (is_new) {
      keys_.push_back(key);
      places_.emplace_back();
    }
    return known->second;
  }

  Place place_at(const Key& key) {
    Place place;
    place.begins_character = place.is_end = key.second == kBetween;
    for (size_t i = 0; i < automata_.size(); ++i) {
      automata_[i].allow_work();
      place.is_end = place.is_end && automata_[i].is_accepting(key.first[i]);
    }
    constexpr int64_t kLook = 16;  // at all bytes
    std::map<size_t, ByteSet> bytes_to;
    for (int byte = 0; byte < kBytes; ++byte) {
      Key next{{}, phase_behind(key.second, byte)};
      for (size_t i = 0; i < automata_.size(); ++i) {
        next.first.push_back(automata_[i].next(key.first[i], static_cast<uint8_t>(byte)));
      }
      if (std::ranges::find(next.first, GrammarAutomaton::kDead) == next.first.end()) {
        bytes_to[place_of(next)].set(static_cast<size_t>(byte));
      }
    }
    for (const auto& [to, bytes] : bytes_to) place.steps.push_back({bytes, to});
    for (const GrammarAutomaton& automaton : automata_) *work_ -= kLook + automaton.work_done();
    return place;
  }

  int64_t* work_;
  std::vector<GrammarAutomaton> automata_;
  std::map<Key, size_t> ids_;
  std::deque<Key> keys_;  // references stay
  std::vector<Place> places_;
};

/// Places with the characters in front of them, counted up to where more make no difference.
class CountedPlaces {
 public:
  CountedPlaces(std::vector<Place> places, int min, std::optional<int> max)
      : places_(std::move(places)), min_(min), max_(max) {}

  /// Finds all of them that a text gets to, and those from which one comes to an end. False: they are too many.
  bool find(int64_t* work) {
    id_of({0, 0});
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_.size() > kMaxCounted || *work <= 0) return false;
      *work -= 1 + std::ssize(places_[keys_[i].place].steps);
      for (const Place::Step& step : places_[keys_[i].place].steps) {
        if (const std::optional<Key> next = behind(keys_[i], step)) sources_[id_of(*next)].push_back(i);
      }
    }
    find_alive();
    return true;
  }

  /// None: no text comes to an end.
  std::optional<Sequence> write(GrammarBuilder& builder) const {
    if (!is_alive_.front()) return std::nullopt;
    std::vector<Grammar::RuleId> rules(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (is_alive_[i]) rules[i] = builder.declare();
    }
    for (size_t i = 0; i < keys_.size() && !builder.is_too_large(); ++i) {
      if (!is_alive_[i]) continue;
      std::vector<Sequence> alternatives;
      for (const Place::Step& step : places_[keys_[i].place].steps) {
        const std::optional<Key> next = behind(keys_[i], step);
        if (!next) continue;
        const size_t to = ids_.at(*next);
        if (is_alive_[to]) alternatives.push_back(builder.concat({builder.bytes(step.bytes), builder.rule(rules[to])}));
      }
      if (may_end(keys_[i])) alternatives.emplace_back();
      builder.define(rules[i], std::move(alternatives));
    }
    return builder.rule(rules.front());
  }

 private:
  struct Key {
    size_t place = 0;
    int n_characters = 0;
    auto operator<=>(const Key&) const = default;
  };

  [[nodiscard]] bool may_end(const Key& key) const { return places_[key.place].is_end && key.n_characters >= min_; }

  /// None: that were too many characters.
  [[nodiscard]] std::optional<Key> behind(const Key& key, const Place::Step& step) const {
    const int n = key.n_characters + (places_[key.place].begins_character ? 1 : 0);
    if (max_ && n > *max_) return std::nullopt;
    return Key{step.to, max_ ? n : std::min(n, min_)};
  }

  size_t id_of(const Key& key) {
    const auto [known, is_new] = ids_.try_emplace(key, keys_.size());
    if (is_new) {
      keys_.push_back(key);
      sources_.emplace_back();
    }
    return known->second;
  }

  void find_alive() {
    is_alive_.assign(keys_.size(), false);
    std::vector<size_t> found;
    const auto add = [&](size_t i) {
      if (!is_alive_[i]) found.push_back(i);
      is_alive_[i] = true;
    };
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (may_end(keys_[i])) add(i);
    }
    while (!found.empty()) {
      const size_t i = found.back();
      found.pop_back();
      for (const size_t source : sources_[i]) add(source);
    }
  }

  std::vector<Place> places_;
  int min_;
  std::optional<int> max_;
  std::map<Key, size_t> ids_;
  std::deque<Key> keys_;
  std::deque<std::vector<size_t>> sources_;  // of each, from where it is got to
  std::vector<bool> is_alive_;
};

}  // namespace

Result<std::optional<Sequence>> json_string_product(GrammarBuilder& builder, std::span<const std::string> patterns,
                                                    int min, std::optional<int> max, int64_t* work) {
  Patterns all(work);
  for (const std::string& pattern : patterns) BASS_RETURN_IF_ERROR(all.add(pattern));
  BASS_ASSIGN_OR_RETURN(std::vector<Place> places, all.places());
  CountedPlaces counted(std::move(places), min, max);
  if (!counted.find(work)) return invalid_argument("it has too many places for so many characters");
  return counted.write(builder);
}

}  // namespace bass
