// JSON strings that match several patterns at once, or a pattern and a length.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "bass/status.h"
#include "text/grammar/grammar.h"

namespace bass {

/// The texts between the quotes of JSON strings in which each of the patterns is found (regex_grammar.h,
/// RegexText::kInJsonString) and that have min to max characters, of which an escape is one; max: none for any number.
/// Each place of the patterns becomes a rule for each number of characters in front of it that makes a difference.
/// work: what it takes (some 5 million a second) is taken from it.
///
/// Errors (kInvalidArgument), to stand behind "is not supported: ": of a pattern, or that there would be too many
/// rules. None: no string is such a one.
Result<std::optional<Grammar::Sequence>> json_string_product(GrammarBuilder& builder,
                                                             std::span<const std::string> patterns, int min,
                                                             std::optional<int> max, int64_t* work);

}  // namespace bass
