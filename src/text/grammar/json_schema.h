// JSON Schema as a grammar of the JSON texts that are valid against it.
#pragma once

#include <string_view>

#include "bass/status.h"
#include "text/grammar/grammar.h"

namespace bass {

inline constexpr size_t kMaxSchemaBytes = size_t{1} << 18;
inline constexpr int kMaxSchemaNesting = 200;   // of objects and lists in the schema's text
inline constexpr int kMaxSchemaCount = 100000;  // of minLength, maxItems and the like

/// `schema` is JSON: an object, true or false. White space, numbers and strings are as JsonGrammar says.
///
/// Objects have their properties in the order of the schema, then those that are required but not described, in the
/// order of `required`, then additional ones, whose names are none of those (but may be the same twice).
/// `additionalProperties` not given: none beside `properties`, against the standard, since models would go on and on;
/// any where there are no `properties`. minProperties, maxProperties and propertyNames: only without `properties` and
/// `required`. Arrays: items, prefixItems, minItems, maxItems. Further items are allowed unless `items` is false.
/// uniqueItems: seen to where items are of an enum of at most eight values. Strings: minLength and maxLength (an escape
/// is one character), pattern (regex_grammar.h), format (json_formats.h; others: an
/// annotation); of several all hold. Integers (without a point or an exponent) and numbers: minimum, maximum,
/// exclusiveMinimum, exclusiveMaximum, which are compared as decimals, digit by digit, and multipleOf. A number that
/// has one of them is written without an exponent.
///
/// type (a name or a list; nullable: also null), enum and const (compactly written; nothing else that constrains but a
/// type may be beside them), anyOf, oneOf (as anyOf), $ref (into the document; also recursive), allOf. What allOf
/// joins, and what stands beside $ref, anyOf and oneOf, must not say two things of the same, but for `required`, `type`
/// and different properties. Where `type` is not given, the types are those that the keywords speak of (minLength:
/// strings), or all if none does; keywords for other types than `type` says mean nothing.
///
/// Errors (kInvalidArgument), with the JSON pointer of the place: other keywords that constrain, unknown keywords (but
/// for those that begin with "x-"), schemas that no text matches, or that none with an end matches, too much of
/// anything.
Result<Grammar> json_schema_grammar(std::string_view schema);

}  // namespace bass
