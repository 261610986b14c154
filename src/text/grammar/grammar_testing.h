// Whether a text is one of a grammar's, found in another way than the engine's: for tests.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "text/grammar/grammar.h"

namespace bass {

/// Earley's recogniser, with the mend of Aycock and Horspool (2002) for rules that match the empty text.
class EarleyRecogniser {
 public:
  explicit EarleyRecogniser(const Grammar& grammar) : grammar_(grammar), is_nullable_(grammar.rules().size(), false) {
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (size_t i = 0; i < is_nullable_.size(); ++i) {
        if (is_nullable_[i] || !can_be_empty(grammar.rules()[i])) continue;
        has_changed = is_nullable_[i] = true;
      }
    }
  }

  bool matches(std::string_view text) {
    columns_.assign(text.size() + 1, {});
    predict(0, grammar_.root());
    for (size_t at = 0; at <= text.size(); ++at) {
      for (size_t i = 0; i < columns_[at].items.size(); ++i) step(at, columns_[at].items[i], text);
    }
    return columns_[text.size()].is_done;
  }

 private:
  using Item = std::tuple<int32_t, size_t, size_t, size_t>;  // rule, alternative, elements behind it, where it began
  struct Column {
    std::vector<Item> items;
    std::set<Item> known;
    std::set<int32_t> predicted;
    std::map<int32_t, std::vector<Item>> waiting;  // rule -> items that it is next in
    bool is_done = false;
  };

  [[nodiscard]] bool can_be_empty(const Grammar::Rule& rule) const {
    for (const Grammar::Sequence& sequence : rule.alternatives) {
      bool is_empty = true;
      for (const Grammar::Element& element : sequence) {
        is_empty &= element.kind == Grammar::Element::Kind::kRule && is_nullable_[static_cast<size_t>(element.idx)];
      }
      if (is_empty) return true;
    }
    return false;
  }

  [[nodiscard]] const Grammar::Sequence& sequence_of(const Item& item) const {
    return grammar_.rules()[static_cast<size_t>(std::get<0>(item))].alternatives[std::get<1>(item)];
  }

  void add(size_t at, const Item& item) {
    if (columns_[at].known.insert(item).second) columns_[at].items.push_back(item);
  }

  void advance(size_t at, Item item) {
    ++std::get<2>(item);
    add(at, item);
  }

  void predict(size_t at, int32_t rule) {
    if (!columns_[at].predicted.insert(rule).second) return;
    const size_t n_alternatives = grammar_.rules()[static_cast<size_t>(rule)].alternatives.size();
    for (size_t i = 0; i < n_alternatives; ++i) add(at, {rule, i, 0, at});
  }

  void step(size_t at, const Item item, std::string_view text) {  // by value: the column grows
    const auto [rule, alternative, n_behind, origin] = item;
    const Grammar::Sequence& sequence = sequence_of(item);
    if (n_behind == sequence.size()) {
      columns_[at].is_done |= rule == grammar_.root() && origin == 0;
      const std::vector<Item> waiting = columns_[origin].waiting[rule];
      for (const Item& other : waiting) advance(at, other);
      return;
    }
    const Grammar::Element& next = sequence[n_behind];
    if (next.kind == Grammar::Element::Kind::kBytes) {
      if (at == text.size()) return;
      const ByteSet& set = grammar_.byte_sets()[static_cast<size_t>(next.idx)];
      if (set.test(static_cast<uint8_t>(text[at]))) advance(at + 1, item);
      return;
    }
    columns_[at].waiting[next.idx].push_back(item);
    predict(at, next.idx);
    if (is_nullable_[static_cast<size_t>(next.idx)]) advance(at, item);
  }

  const Grammar& grammar_;
  std::vector<bool> is_nullable_;
  std::vector<Column> columns_;
};

inline bool matches(const Grammar& grammar, std::string_view text) { return EarleyRecogniser(grammar).matches(text); }

}  // namespace bass
