// The pieces that JSON texts are made of.
#pragma once

#include <optional>
#include <string_view>

#include "text/grammar/code_point_set.h"
#include "text/grammar/grammar.h"

namespace bass {

/// A sequence of one element that is the same: it can be written down often without growing.
Grammar::Sequence single_element(GrammarBuilder& builder, Grammar::Sequence sequence);

/// One character of the set as it stands in a JSON string: `"`, `\` and control characters as the shortest escape
/// (\" \\ \b \f \n \r \t, else \u00XX with lower-case digits), all others as they are.
Grammar::Sequence json_character(GrammarBuilder& builder, const CodePointSet& set);

/// Rules for JSON, each made when first asked for. All are single elements but for the lists.
///
/// White space, so that no text consists of it for ever: none, one space, or a line feed and up to 20 spaces or tabs.
/// It may stand behind `{` `[` `,` `:` and before `}` `]`.
/// Numbers have at most 16 digits before the point, 16 behind it, and 2 in the exponent.
/// Strings are valid UTF-8; of \u escapes no surrogate stands alone.
class JsonGrammar {
 public:
  using Sequence = Grammar::Sequence;
  static constexpr int kMaxDigits = 16;

  explicit JsonGrammar(GrammarBuilder& builder) : builder_(builder) {}

  Sequence value();
  Sequence string() { return once(string_, &JsonGrammar::make_string); }
  Sequence number() { return once(number_, &JsonGrammar::make_number); }
  Sequence integer() { return once(integer_, &JsonGrammar::make_integer); }
  Sequence white_space() { return once(white_space_, &JsonGrammar::make_white_space); }
  /// A character within a string, with whatever escape.
  Sequence string_character() { return once(string_character_, &JsonGrammar::make_string_character); }

  /// `"name": value`, where `name` is with its quotes.
  Sequence member(const Sequence& name, const Sequence& value);
  /// What comes behind a list's bracket (and white space): min to max items and the closing bracket.
  Sequence list(const Sequence& item, int min, std::optional<int> max, char close);
  /// The same behind an item of the list: min to max further ones and the closing bracket.
  Sequence rest_of_list(const Sequence& item, int min, std::optional<int> max, char close);
  Sequence opening(char bracket) { return builder_.concat({builder_.text({&bracket, 1}), white_space()}); }

 private:
  using Slot = std::optional<Grammar::RuleId>;
  Sequence once(Slot& slot, Sequence (JsonGrammar::*make)());
  Sequence make_string();
  Sequence make_number();
  Sequence make_integer();
  Sequence make_white_space();
  Sequence make_string_character();
  Sequence digits(int min, int max);

  GrammarBuilder& builder_;
  Slot value_, string_, number_, integer_, white_space_, string_character_;
};

}  // namespace bass
