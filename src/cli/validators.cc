#include "cli/validators.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace bass {
namespace {

/// Whether all of the text is a number of this type.
template <class Number>
bool read(const std::string& text, Number* number) {
  const bool is_octal = text.size() > 1 && text[0] == '0' && text[1] != '.';  // to CLI11, which reads it next
  if (is_octal) return false;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc{} && at == end;
}

std::string must_be(const std::string& text, const std::string& what) {
  return fmt::format("{}: must be {}", text, what);
}

/// The empty description leaves the help as it is.
template <class Accepts>
CLI::Validator validator(Accepts accepts, std::string what) {
  return {[accepts, what = std::move(what)](const std::string& text) {
            return accepts(text) ? std::string() : must_be(text, what);
          },
          ""};
}

}  // namespace

CLI::Validator whole_number(int64_t min, int64_t max) {
  const auto accepts = [min, max](const std::string& text) {
    int64_t number = 0;
    return read(text, &number) && number >= min && number <= max;
  };
  return validator(accepts, fmt::format("a whole number from {} to {}", min, max));
}

CLI::Validator number_from(double min, double max) {
  const auto accepts = [min, max](const std::string& text) {
    double number = 0;
    return read(text, &number) && number >= min && number <= max;
  };
  return validator(accepts, fmt::format("a number from {} to {}", min, max));
}

CLI::Validator positive_number() {
  const auto accepts = [](const std::string& text) {
    double number = 0;
    return read(text, &number) && number > 0 && std::isfinite(number);
  };
  return validator(accepts, "a number > 0");
}

CLI::Validator not_empty() {
  return validator([](const std::string& text) { return !text.empty(); }, "a text that is not empty");
}

CLI::Validator one_of(std::initializer_list<const char*> names) {
  const std::vector<std::string> known(names.begin(), names.end());
  std::string what = known.front();
  for (size_t i = 1; i < known.size(); ++i) what += (i + 1 < known.size() ? ", " : " or ") + known[i];
  const auto accepts = [known](const std::string& text) { return std::ranges::find(known, text) != known.end(); };
  return validator(accepts, what);
}

}  // namespace bass
