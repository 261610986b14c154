// JSON from strangers, value by value: no tree is built, so that a text takes the memory that its reader keeps of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "bass/status.h"

namespace bass {

/// An object or array without entries.
struct JsonEmpty {
  bool is_object = false;
};

/// A value that holds no other one. Whole numbers are uint64_t, below zero int64_t.
using JsonLeaf = std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, JsonEmpty>;

/// "a string", "an array", ...: for messages.
std::string_view json_kind(const JsonLeaf& leaf);

/// A key of an object, or a place in an array.
struct JsonStep {
  std::string key;
  bool is_index = false;
};

/// Called for each leaf, in the text's order. path: from the outermost object on. An error ends the reading and is
/// passed on.
using JsonVisitor = std::function<Status(std::span<const JsonStep> path, const JsonLeaf& leaf)>;

/// Where the text stands, for messages.
struct JsonPlace {
  std::string path;  ///< of the file
  uint64_t at = 0;   ///< the text's first byte in it
};

/// Reads one JSON text, which must be an object. Memory: some bytes a key of the objects that are open.
/// Errors (kInvalidFile): "PATH: what is wrong (at byte N | key 'a.b')": no JSON, bad UTF-8, trailing bytes, a key
/// twice in one object, nesting deeper than 64.
Status read_json_leaves(std::string_view text, const JsonPlace& place, const JsonVisitor& visit);

/// "a.b.0"
std::string joined_json_path(std::span<const JsonStep> path);

}  // namespace bass
