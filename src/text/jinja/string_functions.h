// What methods and filters of strings share. All check that what they make has room.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace bass::jinja {

NativeFunction find_string_method(std::string_view name);

/// str.split() and rsplit(): at runs of white space; `max` splits, -1: all.
Value split_space(Runtime& rt, std::string_view text, int64_t max, bool from_right);
/// At a separator, which is not empty.
Value split_at(Runtime& rt, std::string_view text, std::string_view separator, int64_t max, bool from_right);
/// `count` replacements, -1: all.
Value replace_text(Runtime& rt, std::string_view text, std::string_view from, std::string_view to, int64_t count);
/// str() of all items.
Value join_text(Runtime& rt, std::span<const Value> items, std::string_view separator);
int64_t count_text(std::string_view text, std::string_view part);
/// align: '<', '>', '^' as str.ljust, rjust, center. fill: one character.
Value pad_text(Runtime& rt, std::string_view text, int64_t width, std::string_view fill, char align);

}  // namespace bass::jinja
