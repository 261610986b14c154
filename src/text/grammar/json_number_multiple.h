// Multiples of a number within bounds as grammars of their digits.
#pragma once

#include <optional>

#include "bass/status.h"
#include "text/grammar/grammar.h"
#include "text/grammar/json_number_range.h"

namespace bass {

/// Multiples of a schema's multipleOf: exact, as decimals. Integers are written as NumberRangeGrammar writes them,
/// other numbers with as many digits behind the point as multiples have at most, zeros at the end written or not, and
/// no exponent. None: there are none within. Error (kInvalidArgument), to stand behind `"multipleOf" at #`: it is no
/// number above 0, or remainders modulo it are too many to be followed.
Result<std::optional<Grammar::Sequence>> multiples_within(GrammarBuilder& builder, const SchemaJson& multiple,
                                                          const NumberRange& range, bool are_integers);

}  // namespace bass
