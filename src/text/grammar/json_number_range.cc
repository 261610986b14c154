#include "text/grammar/json_number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr int kMaxDigits = JsonGrammar::kMaxDigits;

struct BoundKeyword {
  const char* name;
  bool is_min;
  bool is_exclusive;
};
constexpr BoundKeyword kBounds[] = {{"minimum", true, false},
                                    {"exclusiveMinimum", true, true},
                                    {"maximum", false, false},
                                    {"exclusiveMaximum", false, true}};

/// A JSON number's digits without its point and exponent, and how many of them stand for whole units.
struct WrittenDigits {
  std::string digits;  // from the first that is not 0 on; none: the number is 0
  int64_t n_whole = kMaxDigits;
};

WrittenDigits written_digits(const std::string& text) {
  WrittenDigits written;
  const size_t exponent_at = std::min(text.find('e'), text.size());
  if (exponent_at < text.size()) written.n_whole += std::strtol(text.c_str() + exponent_at + 1, nullptr, 10);
  bool is_before_point = true;
  for (const char c : text.substr(0, exponent_at)) {
    if (c == '.') is_before_point = false;
    if (c < '0' || c > '9') continue;
    const bool is_leading_zero = c == '0' && written.digits.empty();
    written.n_whole += (is_before_point ? 1 : 0) - (is_leading_zero ? 1 : 0);
    if (!is_leading_zero) written.digits += c;
  }
  return written;
}

/// The greatest number of whole units that is not above a decimal.
struct FlooredUnits {
  DecimalUnits units = 0;
  bool is_exact = true;
};

// `text` is a JSON number. What is beyond all of ours becomes the first beyond.
FlooredUnits floored_units(const std::string& text) {
  const auto [digits, n_whole] = written_digits(text);
  if (digits.empty()) return {};
  const bool is_negative = text.starts_with('-');
  if (n_whole > 2 * kMaxDigits) return {is_negative ? -kMaxUnits - 1 : kMaxUnits + 1, true};
  FlooredUnits result;
  for (int64_t i = 0; i < n_whole; ++i) {
    const auto idx = static_cast<size_t>(i);
    result.units = result.units * 10 + (idx < digits.size() ? digits[idx] - '0' : 0);
  }
  const auto n_kept = static_cast<size_t>(std::max<int64_t>(n_whole, 0));
  result.is_exact = digits.find_first_not_of('0', n_kept) == digits.npos;
  if (is_negative) result.units = -result.units - (result.is_exact ? 0 : 1);
  return result;
}

// A double's shortest text is what the schema said, up to the double's precision.
std::string decimal_text(const SchemaJson& number) {
  return number.is_number_float() ? fmt::format("{}", number.get<double>()) : number.dump();
}

ByteSet digit_set(char first, char last) {
  ByteSet set;
  for (char digit = first; digit <= last; ++digit) set.set(static_cast<uint8_t>(digit));
  return set;
}

bool are_all(std::string_view digits, char digit) { return digits.find_first_not_of(digit) == digits.npos; }

}  // namespace

std::optional<DecimalUnits> decimal_units(const SchemaJson& number) {
  const FlooredUnits floored = floored_units(decimal_text(number));
  const bool is_one = floored.is_exact && floored.units <= kMaxUnits && floored.units >= -kMaxUnits;
  return is_one ? std::optional(floored.units) : std::nullopt;
}

int64_t NumberRange::first_integer() const {
  return static_cast<int64_t>(min / kUnitsOfOne) + (min > 0 && min % kUnitsOfOne != 0 ? 1 : 0);
}

int64_t NumberRange::last_integer() const {
  return static_cast<int64_t>(max / kUnitsOfOne) - (max < 0 && max % kUnitsOfOne != 0 ? 1 : 0);
}

Result<NumberRange> number_range(const SchemaJson& schema, const std::string& path) {
  NumberRange range;
  for (const BoundKeyword& keyword : kBounds) {
    const auto bound = schema.find(keyword.name);
    if (bound == schema.end()) continue;
    if (!bound->is_number()) return wrong_keyword(keyword.name, path, "must be a number");
    range.is_bounded = true;
    const auto [units, is_exact] = floored_units(decimal_text(*bound));
    if (keyword.is_min) {
      range.min = std::max(range.min, units + (keyword.is_exclusive || !is_exact ? 1 : 0));
    } else {
      range.max = std::min(range.max, units - (keyword.is_exclusive && is_exact ? 1 : 0));
    }
    if (range.min > kMaxUnits || range.max < -kMaxUnits) {
      return wrong_keyword(
          keyword.name, path,
          fmt::format(
              "leaves only numbers of more than {} digits in front of the point, which are not written where there "
              "are bounds; leave it out",
              kMaxDigits));
    }
  }
  return range;
}

Sequence NumberRangeGrammar::integers(int64_t min, int64_t max) {
  std::vector<Sequence> parts;
  if (min < 0) parts.push_back(builder_.concat({builder_.text("-"), whole_numbers(std::max<int64_t>(1, -max), -min)}));
  if (max >= 0) parts.push_back(whole_numbers(std::max<int64_t>(0, min), max));
  return builder_.any_of(std::move(parts));
}

Sequence NumberRangeGrammar::decimals(DecimalUnits min, DecimalUnits max) {
  constexpr DecimalUnits kZero = 0;
  std::vector<Sequence> parts;
  if (min <= 0) parts.push_back(builder_.concat({builder_.text("-"), magnitudes(std::max(kZero, -max), -min)}));
  if (max >= 0) parts.push_back(magnitudes(std::max(kZero, min), max));
  return builder_.any_of(std::move(parts));
}

Sequence NumberRangeGrammar::whole_numbers(int64_t first, int64_t last) {
  std::vector<Sequence> parts;
  // Numbers of as many digits each.
  for (int64_t least = 0, greatest = 9; least <= last; least = greatest + 1, greatest = greatest * 10 + 9) {
    const int64_t low = std::max(first, least), high = std::min(last, greatest);
    if (low > high) continue;
    parts.push_back(digits_range(std::to_string(low), std::to_string(high), EndZeros::kWritten));
  }
  return builder_.any_of(std::move(parts));
}

// The whole numbers at the two ends go on with a part of the fractions, those between with any.
Sequence NumberRangeGrammar::magnitudes(DecimalUnits first, DecimalUnits last) {
  const auto whole = [](DecimalUnits units) { return static_cast<int64_t>(units / kUnitsOfOne); };
  const auto behind_point = [](DecimalUnits units) { return static_cast<int64_t>(units % kUnitsOfOne); };
  const auto part = [&](int64_t from, int64_t to, int64_t low, int64_t high) {
    return builder_.concat({whole_numbers(from, to), fraction(low, high)});
  };
  int64_t from = whole(first), to = whole(last);
  const int64_t low = behind_point(first), high = behind_point(last);
  if (from == to) return part(from, to, low, high);
  std::vector<Sequence> parts;
  if (low != 0) {
    parts.push_back(part(from, from, low, kMaxWhole));
    ++from;
  }
  if (high != kMaxWhole) {
    parts.push_back(part(to, to, 0, high));
    --to;
  }
  if (from <= to) parts.push_back(part(from, to, 0, kMaxWhole));
  return builder_.any_of(std::move(parts));
}

// The point and what is behind it, in units; nothing, if that may be zero.
Sequence NumberRangeGrammar::fraction(int64_t first, int64_t last) {
  const std::string low = fmt::format("{:0{}}", first, kMaxDigits), high = fmt::format("{:0{}}", last, kMaxDigits);
  Sequence written = builder_.concat({builder_.text("."), some_digits_range(low, high, EndZeros::kMayBeMissing)});
  return first == 0 ? builder_.optional(std::move(written)) : written;
}

// As many digits in both.
Sequence NumberRangeGrammar::digits_range(std::string_view min, std::string_view max, EndZeros zeros) {
  if (are_all(min, '0') && are_all(max, '9')) return any_digits(min.size(), zeros);
  Sequence some = some_digits_range(min, max, zeros);
  const bool may_be_missing = zeros == EndZeros::kMayBeMissing && are_all(min, '0');
  return may_be_missing ? builder_.optional(std::move(some)) : some;
}

// At least one digit. Where all digits behind the first may be anything for a part of the range, that part is one
// alternative; its two ends go on a digit further.
Sequence NumberRangeGrammar::some_digits_range(std::string_view min, std::string_view max, EndZeros zeros) {
  const std::string_view low = min.substr(1), high = max.substr(1);
  const std::string all_zeros(low.size(), '0'), all_nines(low.size(), '9');
  const auto part = [&](char from, char to, std::string_view rest_min, std::string_view rest_max) {
    return builder_.concat({builder_.bytes(digit_set(from, to)), digits_range(rest_min, rest_max, zeros)});
  };
  char first = min[0], last = max[0];
  if (first == last) return part(first, first, low, high);
  std::vector<Sequence> parts;
  if (low != all_zeros) {
    parts.push_back(part(first, first, low, all_nines));
    ++first;
  }
  if (high != all_nines) {
    parts.push_back(part(last, last, all_zeros, high));
    --last;
  }
  if (first <= last) parts.push_back(part(first, last, all_zeros, all_nines));
  return builder_.any_of(std::move(parts));
}

Sequence NumberRangeGrammar::any_digits(size_t n_digits, EndZeros zeros) {
  if (n_digits == 0) return {};
  const Sequence digit = builder_.bytes(digit_set('0', '9'));
  Sequence& known = (zeros == EndZeros::kWritten ? just_so_many_ : at_most_so_many_)[n_digits];
  if (!known.empty()) return known;
  if (zeros == EndZeros::kWritten) {
    known = single_element(builder_, builder_.concat({digit, any_digits(n_digits - 1, zeros)}));
  } else {
    known = builder_.optional(builder_.concat({digit, any_digits(n_digits - 1, zeros)}));
  }
  return known;
}

}  // namespace bass
