// Numbers within bounds as grammars of their digits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/json_grammar.h"
#include "text/grammar/json_schema_keywords.h"

namespace bass {

/// A decimal in units of its last digit that may be written, 10^-kMaxDigits: bounds and numbers are compared exactly.
__extension__ typedef __int128 DecimalUnits;

inline constexpr int64_t kUnitsOfOne = 10'000'000'000'000'000;  // 10^kMaxDigits
inline constexpr int64_t kMaxWhole = kUnitsOfOne - 1;           // as many digits
inline constexpr DecimalUnits kMaxUnits = DecimalUnits{kUnitsOfOne} * kUnitsOfOne - 1;

/// What a schema's bounds leave of the numbers of at most kMaxDigits digits before the point and as many behind it.
struct NumberRange {
  DecimalUnits min = -kMaxUnits;
  DecimalUnits max = kMaxUnits;
  bool is_bounded = false;  // a bound is given, even one that leaves all

  [[nodiscard]] bool empty() const { return min > max; }
  /// The integers within: from the first to the last. None: the first is behind the last.
  [[nodiscard]] int64_t first_integer() const;
  [[nodiscard]] int64_t last_integer() const;
};

/// Of minimum, exclusiveMinimum, maximum and exclusiveMaximum. A bound that has digits behind the last that a number
/// may have leaves what the next number within leaves. Error: one is no number.
Result<NumberRange> number_range(const SchemaJson& schema, const std::string& path);

/// None: it has digits behind the last that may be written, or more in front of the point than numbers have.
std::optional<DecimalUnits> decimal_units(const SchemaJson& number);

/// Writes ranges, with what they have in common made once. No text is matched in two ways. Ranges must not be empty.
class NumberRangeGrammar {
 public:
  using Sequence = Grammar::Sequence;

  explicit NumberRangeGrammar(GrammarBuilder& builder) : builder_(builder) {}

  /// Without a point, and without -0.
  Sequence integers(int64_t min, int64_t max);
  /// With a point or without it, and as many zeros at the end as there is room for; no exponent. -0 and -0.0 are 0.
  Sequence decimals(DecimalUnits min, DecimalUnits max);

 private:
  /// Whether digits that are zeros up to the end must be written.
  enum class EndZeros : uint8_t { kWritten, kMayBeMissing };
  using DigitsOfLength = std::array<Sequence, JsonGrammar::kMaxDigits + 1>;

  Sequence whole_numbers(int64_t first, int64_t last);
  Sequence magnitudes(DecimalUnits first, DecimalUnits last);
  Sequence fraction(int64_t first, int64_t last);
  Sequence digits_range(std::string_view min, std::string_view max, EndZeros zeros);
  Sequence some_digits_range(std::string_view min, std::string_view max, EndZeros zeros);
  Sequence any_digits(size_t n_digits, EndZeros zeros);

  GrammarBuilder& builder_;
  DigitsOfLength just_so_many_, at_most_so_many_;  // one element each; empty: not made yet
};

}  // namespace bass
