// Texts of a grammar behind what a model thinks first.
#pragma once

#include "text/grammar/grammar.h"
#include "text/thoughts.h"

namespace bass {

/// What may stand between thoughts and the text.
inline constexpr int kMaxBlanksBehindThoughts = 4;

/// kBegun: any bytes up to the mark that ends thoughts, blanks, and a text of the grammar. kMayBegin: the same behind
/// the mark that begins them, or the text alone. Error (kInvalidArgument): the grammar is too large.
Result<Grammar> behind_thoughts(Grammar text, ThoughtsAhead thoughts);

}  // namespace bass
