// Python's two ways of formatting: '%s' % x and '{}'.format(x).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace bass::jinja {

/// How one value is written into its field.
struct FieldFormat {
  char fill = ' ';
  char align = 0;  ///< '<', '>', '^', '=' (between sign and digits); 0: the type's own
  char sign = '-';
  bool is_alternate = false;  ///< '#'
  bool has_commas = false;
  int width = 0;
  int precision = -1;  ///< -1: none
  char type = 0;       ///< 0: the type's own
};

inline constexpr int kMaxFieldWidth = 1000;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// The number at the front of the text, which is taken; one that is too large becomes kMaxFieldWidth + 1.
int take_number(std::string_view* text, int otherwise);
/// What stands behind the colon of a '{}' field: [[fill]align][sign][#][0][width][,][.precision][type]. None: another.
std::optional<FieldFormat> parse_field_format(std::string_view spec);

/// Error: a type that does not fit the value.
std::string format_field(Runtime& rt, const Value& value, const FieldFormat& format);

/// text % argument; a tuple is several arguments, a dict named ones.
Value format_percent(Runtime& rt, std::string_view text, const Value& argument);
/// text.format(...).
Value format_braces(Runtime& rt, std::string_view text, const Arguments& arguments);

}  // namespace bass::jinja
