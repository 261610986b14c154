// What Python's operators and built-in functions do to values. Errors go to the Runtime.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace bass::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

bool is_true(const Value& value);
bool equals(Runtime& rt, const Value& a, const Value& b);
/// Negative, zero or positive as a is below, equal to or above b. `symbol` is the operator of the error.
int compare(Runtime& rt, const Value& a, const Value& b, std::string_view symbol);
bool contains(Runtime& rt, const Value& container, const Value& item);

Value arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b);
/// ==, <, in and their like.
bool relation(Runtime& rt, Operator op, const Value& a, const Value& b);
/// -value or +value.
Value signed_value(Runtime& rt, const Value& value, bool is_negative);

/// The items that iter() would give; a generator's are gone then. Error: it cannot be gone through.
std::vector<Value> items_of(Runtime& rt, const Value& value);
/// len(). Error: it has none.
std::optional<int64_t> length(Runtime& rt, const Value& value);

/// The entry of a key, or nullptr.
const Value* find_entry(Runtime& rt, const Dict& dict, const Value& key);
const Value* find_entry(const Dict& dict, std::string_view key);
void set_entry(Runtime& rt, std::vector<std::pair<Value, Value>>* entries, Value key, Value value);

/// object.name: the attribute, or the item of that name; undefined if there is neither.
Value attribute(Runtime& rt, const Value& object, std::string_view name);
/// object[key]: the item, or the attribute of that name; undefined if there is neither.
Value item(Runtime& rt, const Value& object, const Value& key);
/// object[start:stop:step]; none where a number is left out.
Value slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);

/// str(): what printing a value gives.
std::string to_text(Runtime& rt, const Value& value);
/// repr(): as values inside of a list are printed.
void append_repr(Runtime& rt, const Value& value, std::string* out);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  ///< none: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps of Python. Error: what JSON has no form for.
std::string to_json(Runtime& rt, const Value& value, const JsonStyle& style);

}  // namespace bass::jinja
