#include "text/grammar/json_grammar.h"

#include <algorithm>
#include <array>

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr int kMaxIndent = 20;
constexpr int kMaxExponentDigits = 2;   // within the range of a double
constexpr char32_t kFirstPlain = 0x20;  // what is below are control characters

struct ShortEscape {
  char32_t code_point;
  char letter;
};
constexpr std::array kShortEscapes{ShortEscape{'"', '"'},  ShortEscape{'\\', '\\'}, ShortEscape{'\b', 'b'},
                                   ShortEscape{'\f', 'f'}, ShortEscape{'\n', 'n'},  ShortEscape{'\r', 'r'},
                                   ShortEscape{'\t', 't'}};

ByteSet bytes_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<uint8_t>(byte));
  return set;
}

bool has_short_escape(char32_t code_point) {
  return std::ranges::any_of(kShortEscapes, [&](const ShortEscape& escape) { return escape.code_point == code_point; });
}

}  // namespace

Sequence single_element(GrammarBuilder& builder, Sequence sequence) {
  if (sequence.size() == 1) return sequence;
  const Grammar::RuleId id = builder.declare();
  builder.define(id, {std::move(sequence)});
  return builder.rule(id);
}

Sequence json_character(GrammarBuilder& builder, const CodePointSet& set) {
  static const CodePointSet kEscaped({{0, kFirstPlain - 1}, {'"', '"'}, {'\\', '\\'}});
  std::vector<Sequence> forms;
  const CodePointSet plain = set.without(kEscaped);
  if (!plain.empty()) forms.push_back(builder.character(plain.ranges()));
  ByteSet letters;
  for (const ShortEscape& escape : kShortEscapes) {
    if (set.contains(escape.code_point)) letters.set(static_cast<uint8_t>(escape.letter));
  }
  if (letters.any()) forms.push_back(builder.concat({builder.text("\\"), builder.bytes(letters)}));
  for (char32_t first = 0; first < kFirstPlain; first += 16) {
    ByteSet last_digits;
    for (char32_t i = 0; i < 16; ++i) {
      if (!set.contains(first + i) || has_short_escape(first + i)) continue;
      last_digits.set(static_cast<uint8_t>("0123456789abcdef"[i]));
    }
    if (last_digits.none()) continue;
    forms.push_back(builder.concat({builder.text(first == 0 ? "\\u000" : "\\u001"), builder.bytes(last_digits)}));
  }
  return builder.any_of(std::move(forms));
}

Sequence JsonGrammar::once(Slot& slot, Sequence (JsonGrammar::*make)()) {
  if (!slot) {
    slot = builder_.declare();
    builder_.define(*slot, {(this->*make)()});
  }
  return builder_.rule(*slot);
}

Sequence JsonGrammar::make_white_space() {
  const Sequence indent = builder_.repeat(builder_.bytes(bytes_of(" \t")), 0, kMaxIndent);
  return builder_.any_of({{}, builder_.text(" "), builder_.concat({builder_.text("\n"), indent})});
}

Sequence JsonGrammar::digits(int min, int max) {
  return builder_.repeat(builder_.bytes(bytes_of("0123456789")), min, max);
}

Sequence JsonGrammar::make_integer() {
  const Sequence from_one = builder_.concat({builder_.bytes(bytes_of("123456789")), digits(0, kMaxDigits - 1)});
  return builder_.concat({builder_.optional(builder_.text("-")), builder_.any_of({builder_.text("0"), from_one})});
}

Sequence JsonGrammar::make_number() {
  const Sequence fraction = builder_.concat({builder_.text("."), digits(1, kMaxDigits)});
  const Sequence exponent =
      builder_.concat({builder_.bytes(bytes_of("eE")), builder_.optional(builder_.bytes(bytes_of("+-"))),
                       digits(1, kMaxExponentDigits)});
  return builder_.concat({integer(), builder_.optional(fraction), builder_.optional(exponent)});
}

Sequence JsonGrammar::make_string_character() {
  const Sequence hex = builder_.bytes(bytes_of("0123456789abcdefABCDEF"));
  const Sequence d = builder_.bytes(bytes_of("dD"));
  const Sequence below_8 = builder_.bytes(bytes_of("01234567"));
  const Sequence not_d = builder_.bytes(bytes_of("0123456789abcefABCEF"));
  const Sequence no_surrogate =
      builder_.any_of({builder_.concat({not_d, hex, hex, hex}), builder_.concat({d, below_8, hex, hex})});
  const Sequence high = builder_.concat({d, builder_.bytes(bytes_of("89abAB")), hex, hex});
  const Sequence low = builder_.concat({d, builder_.bytes(bytes_of("cdefCDEF")), hex, hex});
  const CodePointSet plain =
      CodePointSet({{kFirstPlain, kMaxCodePoint}}).without(CodePointSet({{'"', '"'}, {'\\', '\\'}}));
  return builder_.any_of({
      builder_.character(plain.ranges()),
      builder_.concat({builder_.text("\\"), builder_.bytes(bytes_of("\"\\/bfnrt"))}),
      builder_.concat({builder_.text("\\u"), no_surrogate}),
      builder_.concat({builder_.text("\\u"), high, builder_.text("\\u"), low}),
  });
}

Sequence JsonGrammar::make_string() {
  const Sequence characters = builder_.repeat(string_character(), 0, std::nullopt);
  return builder_.concat({builder_.text("\""), characters, builder_.text("\"")});
}

Sequence JsonGrammar::value() {
  if (value_) return builder_.rule(*value_);
  value_ = builder_.declare();
  Sequence self = builder_.rule(*value_);
  const Sequence pair = single_element(builder_, member(string(), self));
  builder_.define(*value_, {
                               builder_.concat({opening('{'), list(pair, 0, std::nullopt, '}')}),
                               builder_.concat({opening('['), list(self, 0, std::nullopt, ']')}),
                               string(),
                               number(),
                               builder_.text("true"),
                               builder_.text("false"),
                               builder_.text("null"),
                           });
  return self;
}

Sequence JsonGrammar::member(const Sequence& name, const Sequence& value) {
  return builder_.concat({name, builder_.text(":"), white_space(), value});
}

Sequence JsonGrammar::rest_of_list(const Sequence& item, int min, std::optional<int> max, char close) {
  const Sequence further = single_element(builder_, builder_.concat({builder_.text(","), white_space(), item}));
  return builder_.concat({builder_.repeat(further, min, max), white_space(), builder_.text({&close, 1})});
}

Sequence JsonGrammar::list(const Sequence& item, int min, std::optional<int> max, char close) {
  Sequence none = builder_.text({&close, 1});
  if (max == 0) return none;
  const std::optional<int> max_rest = max ? std::optional(*max - 1) : std::nullopt;
  Sequence some = builder_.concat({item, rest_of_list(item, std::max(min - 1, 0), max_rest, close)});
  return min > 0 ? some : builder_.any_of({none, std::move(some)});
}

}  // namespace bass
