// Names, numbers and strings as they are written in a template.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "bass/status.h"

namespace bass::jinja {

/// Bytes of the name that the text begins with; 0 if there is none.
size_t name_len(std::string_view text);

struct NumberLiteral {
  size_t n_bytes = 0;
  bool is_float = false;
  std::string text;  ///< without underscores; with the prefix of its base
};
/// The number that the text begins with; it begins with a digit.
NumberLiteral read_number(std::string_view text, bool may_be_float);

/// What a string between its quotes stands for, by Python's escapes. Error: an escape that stands for nothing.
Result<std::string> unescape(std::string_view text);

}  // namespace bass::jinja
