// Regular expressions of tokenizers: Oniguruma's syntax, Unicode 16, run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bass/status.h"

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

namespace bass {

/// Thread-safe after construction.
class Regex {
 public:
  struct Match {
    size_t begin = 0, end = 0;  ///< bytes; they may be equal
  };
  /// Working memory of matching: one for each thread.
  using Scratch = std::unique_ptr<pcre2_real_match_data_8, void (*)(pcre2_real_match_data_8*)>;

  /// `pattern` comes from a file. Errors (kInvalidFile): no valid expression, one of a construct that BASS does not
  /// know, longer than 64 KiB.
  static Result<Regex> compile(std::string_view pattern, bool is_literal);

  /// Error: no memory.
  static Result<Scratch> make_scratch();

  /// The leftmost match at or after `from`. `text` is valid UTF-8 and `from` the beginning of a character. Error: an
  /// expression that takes too many steps on this text.
  [[nodiscard]] Result<std::optional<Match>> find(std::string_view text, size_t from, const Scratch& scratch) const;

 private:
  Regex() = default;

  std::shared_ptr<const pcre2_real_code_8> code_;
  std::shared_ptr<pcre2_real_match_context_8> limits_;
};

/// `pattern` with Oniguruma's Unicode classes spelled out for PCRE2. Error: a construct that is not supported.
Result<std::string> translate_regex(std::string_view pattern);

/// Contents of a character class: Unicode's White_Space.
std::string_view space_class();
/// A whole expression: one number (what the reference's digit splitter takes for one).
std::string digit_pattern();
/// A whole expression: one punctuation character, as the reference's splitter at punctuation means it.
std::string punctuation_pattern();

}  // namespace bass
