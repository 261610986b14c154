// The `loop` of a for statement.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace bass::jinja {

/// Goes through items one by one. Whether an item passes the loop's filter is asked as late as Jinja asks it: the body
/// may change what the filter looks at.
struct Loop final : Object {
  Loop() : Object(Kind::kLoop) {}

  /// Moves to the next item that passes. False at the end.
  bool advance();
  /// The item behind the current one, or nullptr at the end.
  const Value* peek();
  /// Number of items that pass.
  int64_t length();
  /// Lets go of all that the loop holds, so that a loop that holds itself dies too. Nothing is in it any more.
  void end();

  std::vector<Value> items;
  std::function<bool(const Value&)> passes;  ///< none: all pass. Gone when the for statement has ended.
  int64_t index0 = -1;
  Value current;
  std::optional<Value> previous;
  std::optional<std::vector<Value>> last_changed;
  bool is_over = false;

 private:
  std::optional<Value> next_passing();

  size_t n_taken_ = 0;
  bool is_filtering_ = false;  // the filter is running; should it look at its own loop, there is no item ahead
  std::optional<Value> ahead_;
};

/// loop.index and the like; nullopt if there is no such attribute.
std::optional<Value> loop_attribute(Runtime& rt, const Value& loop, std::string_view name);

}  // namespace bass::jinja
