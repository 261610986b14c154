#include "text/grammar/json_number_multiple.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

constexpr int kWrittenDigits = JsonGrammar::kMaxDigits;
constexpr int64_t kMaxRemainders = 1024;  // of integers; of others less, as their digits are more

/// Numbers in units of 10^-n_behind that are multiples of `multiple` such units.
struct Lattice {
  int64_t multiple = 1;
  int n_behind = 0;  // digits behind the point
};

DecimalUnits power_of_ten(int n) {
  DecimalUnits power = 1;
  for (int i = 0; i < n; ++i) power *= 10;
  return power;
}

/// None: it has too many remainders.
std::optional<Lattice> lattice_of(DecimalUnits multiple, bool are_integers) {
  Lattice lattice{.multiple = 0, .n_behind = kWrittenDigits};
  for (; lattice.n_behind > 0 && multiple % 10 == 0; --lattice.n_behind) multiple /= 10;
  if (multiple > int64_t{1} << 62) return std::nullopt;
  lattice.multiple = static_cast<int64_t>(multiple);
  if (are_integers) {
    // t 10^n is one of m where t is one of m / gcd(m, 10^n).
    lattice.multiple /= std::gcd(lattice.multiple, static_cast<int64_t>(power_of_ten(lattice.n_behind)));
    lattice.n_behind = 0;
  }
  const int64_t n_rules = lattice.multiple * (kWrittenDigits + lattice.n_behind);
  return lattice.multiple <= kMaxRemainders && n_rules <= kMaxRemainders * kWrittenDigits ? std::optional(lattice)
                                                                                          : std::nullopt;
}

class MultipleWriter {
 public:
  MultipleWriter(GrammarBuilder& builder, Lattice lattice) : builder_(builder), lattice_(lattice) {}

  /// From first to last, in units of the lattice, neither below 0; leaves what there is in `parts`.
  void add_magnitudes(DecimalUnits first, DecimalUnits last, std::string_view sign, std::vector<Sequence>* parts) {
    const DecimalUnits unit = power_of_ten(lattice_.n_behind);
    // Numbers of as many digits in front of the point each.
    for (int n_whole = 1; n_whole <= kWrittenDigits; ++n_whole) {
      const DecimalUnits least = n_whole == 1 ? 0 : power_of_ten(n_whole - 1) * unit;
      const DecimalUnits low = std::max(first, least), high = std::min(last, power_of_ten(n_whole) * unit - 1);
      if (low > high) continue;
      const auto n_digits = static_cast<size_t>(n_whole + lattice_.n_behind);
      const std::optional<Sequence> digits = rest(digits_of(low, n_digits), digits_of(high, n_digits), 0);
      if (digits) parts->push_back(builder_.concat({builder_.text(sign), *digits}));
    }
  }

 private:
  static std::string digits_of(DecimalUnits number, size_t n_digits) {
    std::string digits(n_digits, '0');
    for (size_t i = n_digits; i-- > 0; number /= 10) digits[i] = static_cast<char>('0' + static_cast<int>(number % 10));
    return digits;
  }

  /// What is behind digits of this remainder, so that what is missing of the number is from low to high: as many digits
  /// in both. None: no multiple begins so.
  std::optional<Sequence> rest(const std::string& low, const std::string& high, int64_t remainder) {
    if (builder_.is_too_large()) return std::nullopt;
    if (low.empty()) return remainder == 0 ? std::optional(Sequence{}) : std::nullopt;
    const bool has_zeros = low.find_first_not_of('0') == low.npos;
    const bool is_free = has_zeros && high.find_first_not_of('9') == high.npos;
    const std::pair key(low.size(), remainder);
    if (is_free) {
      if (const auto known = free_.find(key); known != free_.end()) return known->second;
    }
    std::vector<Sequence> alternatives;
    const auto n_left = static_cast<int>(low.size());
    if (n_left <= lattice_.n_behind && has_zeros && remainder_behind_zeros(remainder, n_left) == 0)
      alternatives.emplace_back();
    const Sequence point = n_left == lattice_.n_behind ? builder_.text(".") : Sequence{};
    for (char digit = low[0]; digit <= high[0]; ++digit) add_digit(digit, low, high, remainder, point, &alternatives);
    std::optional<Sequence> all;
    if (!alternatives.empty()) all = single_element(builder_, builder_.any_of(std::move(alternatives)));
    if (is_free) free_[key] = all;
    return all;
  }

  void add_digit(char digit, const std::string& low, const std::string& high, int64_t remainder, const Sequence& point,
                 std::vector<Sequence>* alternatives) {
    const size_t n_left = low.size() - 1;
    const std::string rest_low = digit == low[0] ? low.substr(1) : std::string(n_left, '0');
    const std::string rest_high = digit == high[0] ? high.substr(1) : std::string(n_left, '9');
    const std::optional<Sequence> behind =
        rest(rest_low, rest_high, (remainder * 10 + (digit - '0')) % lattice_.multiple);
    if (behind) alternatives->push_back(builder_.concat({point, builder_.text({&digit, 1}), *behind}));
  }

  [[nodiscard]] int64_t remainder_behind_zeros(int64_t remainder, int n_zeros) const {
    for (int i = 0; i < n_zeros; ++i) remainder = remainder * 10 % lattice_.multiple;
    return remainder;
  }

  GrammarBuilder& builder_;
  Lattice lattice_;
  std::map<std::pair<size_t, int64_t>, std::optional<Sequence>> free_;  // digits without bounds
};

}  // namespace

Result<std::optional<Sequence>> multiples_within(GrammarBuilder& builder, const SchemaJson& multiple,
                                                 const NumberRange& range, bool are_integers) {
  if (!multiple.is_number() || !(multiple.get<double>() > 0)) return invalid_argument("must be a number above 0");
  const std::optional<DecimalUnits> units = decimal_units(multiple);
  const std::optional<Lattice> lattice = units ? lattice_of(*units, are_integers) : std::nullopt;
  if (!lattice) {
    return invalid_argument("is not supported: it has more than three digits or many behind the point; leave it out");
  }
  const DecimalUnits unit = power_of_ten(kWrittenDigits - lattice->n_behind);
  const auto floored = [unit](DecimalUnits number) {
    return number / unit - (number < 0 && number % unit != 0 ? 1 : 0);
  };
  const DecimalUnits first = -floored(-range.min), last = floored(range.max);
  std::vector<Sequence> parts;
  MultipleWriter writer(builder, *lattice);
  const DecimalUnits least_negative = are_integers ? 1 : 0;  // there is no integer -0
  if (first <= -least_negative) writer.add_magnitudes(std::max(least_negative, -last), -first, "-", &parts);
  if (last >= 0) writer.add_magnitudes(std::max(DecimalUnits{0}, first), last, "", &parts);
  if (parts.empty() && !builder.is_too_large()) return std::optional<Sequence>();
  return std::optional(builder.any_of(std::move(parts)));
}

}  // namespace bass
