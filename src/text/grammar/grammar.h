// Context-free grammars over bytes: what a text may be, whatever tokens it comes in. Front ends (regex_grammar.h,
// json_schema.h) build them; grammar_automaton.h runs them.
#pragma once

#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

using ByteSet = std::bitset<256>;

/// Unicode code points first .. last.
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
  bool operator==(const CodePointRange&) const = default;
};

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

class Grammar {
 public:
  using RuleId = int32_t;

  /// One byte of a set, or a text of a rule.
  struct Element {
    enum class Kind : uint8_t { kBytes, kRule };
    Kind kind = Kind::kBytes;
    int32_t idx = 0;  // of a byte set, or of a rule
  };
  /// Elements one after the other; none: the empty text.
  using Sequence = std::vector<Element>;

  struct Rule {
    std::vector<Sequence> alternatives;
    /// Of the rest of a bounded repetition: which one it is of (else -1), and how often that may come still. Its
    /// alternatives are what is repeated with the rest of one rank less behind it, if there is one, and the empty text:
    /// so it has all texts of a lower rank's.
    int32_t repetition = -1;
    int32_t rank = 0;
  };

  [[nodiscard]] const std::vector<ByteSet>& byte_sets() const { return byte_sets_; }
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  [[nodiscard]] RuleId root() const { return root_; }

 private:
  friend class GrammarBuilder;
  std::vector<ByteSet> byte_sets_;
  std::vector<Rule> rules_;
  RuleId root_ = 0;
};

/// Puts a grammar together from sequences. A grammar that grows too large is an error of `finish`: until then nothing
/// more is added to it.
class GrammarBuilder {
 public:
  using Sequence = Grammar::Sequence;
  static constexpr size_t kMaxElements = size_t{1} << 20;

  GrammarBuilder() = default;
  /// More of a grammar that was finished, whose rules keep their ids.
  explicit GrammarBuilder(Grammar begun);
  /// The rule that was the begun grammar's.
  [[nodiscard]] Grammar::RuleId root() const { return grammar_.root(); }

  /// A rule that is defined later: rules may refer to one another, and to themselves.
  Grammar::RuleId declare();
  void define(Grammar::RuleId rule, std::vector<Sequence> alternatives);

  [[nodiscard]] Sequence rule(Grammar::RuleId id) const { return {{Grammar::Element::Kind::kRule, id}}; }
  [[nodiscard]] Sequence bytes(const ByteSet& set);
  [[nodiscard]] Sequence text(std::string_view text);
  /// One character of the ranges, as UTF-8. Surrogates are no characters. No character at all: a text that is nowhere.
  [[nodiscard]] Sequence character(std::span<const CodePointRange> ranges);
  [[nodiscard]] Sequence concat(std::initializer_list<Sequence> parts) const;
  [[nodiscard]] Sequence any_of(std::vector<Sequence> alternatives);
  /// One of the texts. What they begin with alike is written once, so that thousands of them are few ways to follow.
  [[nodiscard]] Sequence any_text(std::vector<std::string> texts);
  [[nodiscard]] Sequence optional(Sequence sequence) { return any_of({std::move(sequence), {}}); }
  /// `sequence` min to max times; max: none for any number.
  [[nodiscard]] Sequence repeat(const Sequence& sequence, int min, std::optional<int> max);

  /// Nothing more is added, and `finish` is an error.
  [[nodiscard]] bool is_too_large() const { return is_too_large_; }
  /// Error (kInvalidArgument): the grammar is too large, or a rule begins with itself.
  [[nodiscard]] Result<Grammar> finish(const Sequence& root);

 private:
  bool take(size_t n_elements);
  Sequence rest_of_repetition(const Sequence& sequence, int max);
  Sequence text_tree(std::span<const std::string> texts, size_t n_read);
  Sequence utf8_range(char32_t first, char32_t last);

  Grammar grammar_;
  size_t n_elements_ = 0;
  bool is_too_large_ = false;
};

}  // namespace bass
