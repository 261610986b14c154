// The characters of regular expressions: escapes and classes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bass/status.h"
#include "text/grammar/code_point_set.h"

namespace bass {

/// Reads a pattern from left to right.
class RegexReader {
 public:
  /// `pattern` must be valid UTF-8 and outlive the reader.
  explicit RegexReader(std::string_view pattern) : pattern_(pattern) {}

  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] bool at_end() const { return position_ == pattern_.size(); }
  [[nodiscard]] bool sees(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  bool take(std::string_view text);
  void go_back(size_t position) { position_ = position; }
  /// The number here, or kMaxNumber where it is greater.
  std::optional<int> take_number();
  static constexpr int kMaxNumber = 1000000;
  char32_t take_code_point();
  /// From the backslash on.
  Result<CodePointSet> take_escape(bool is_in_class);
  /// From `[` on.
  Result<CodePointSet> take_class();

  /// "the pattern has `what` at byte `at`, which is not supported"
  [[nodiscard]] static Status not_supported(std::string_view what, size_t at);

 private:
  Result<CodePointSet> take_class_item();
  Result<CodePointSet> take_class_range(CodePointSet first, size_t at);
  Result<char32_t> take_hex(int n_digits, size_t at);
  Result<char32_t> take_utf16(size_t at);

  std::string_view pattern_;
  size_t position_ = 0;
};

}  // namespace bass
