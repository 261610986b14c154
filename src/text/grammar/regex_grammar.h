// Regular expressions as grammars.
#pragma once

#include <string_view>

#include "bass/status.h"
#include "text/grammar/grammar.h"

namespace bass {

/// What a pattern's texts are written as.
enum class RegexText : uint8_t {
  kPlain,         ///< as they are
  kInJsonString,  ///< as between the quotes of a JSON string: see json_character()
};

inline constexpr size_t kMaxRegexBytes = 65536;
inline constexpr int kMaxRegexNesting = 200;     // of groups
inline constexpr int kMaxRegexRepeats = 100000;  // in one {m,n}

/// The texts that match `pattern`. For kPlain the whole text must match: `^` at the beginning and `$` at the end of the
/// pattern, or of one of its outermost alternatives, are allowed and mean nothing. For kInJsonString the pattern is
/// looked for, as JSON Schema has it: where `^` does not begin it any characters may come before, where `$` does not
/// end it any may follow.
///
/// Literal characters, `.` (any but a line feed), classes ([a-z], [^a-z]), \d \D \w \W \s \S (of ASCII), the escapes
/// \n \t \r \f \v \0 \xHH \uHHHH and of punctuation, groups ( ) (?: ) (?<name> ), |, and * + ? {m} {m,} {m,n}, also
/// lazy, which is the same language.
///
/// Errors (kInvalidArgument): whatever else, named with the byte of the pattern where it stands; more bytes,
/// nesting or repetitions than the constants above; no valid UTF-8.
Result<Grammar::Sequence> regex_sequence(GrammarBuilder& builder, std::string_view pattern, RegexText text);

}  // namespace bass
