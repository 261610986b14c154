#include "text/jinja/loop.h"

#include "text/jinja/operators.h"

namespace bass::jinja {
namespace {

Value call_cycle(Runtime& rt, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) return rt.fail("no items for cycling given");
  const auto index = static_cast<size_t>(self.as<Loop>().index0);
  return arguments.positional[index % arguments.positional.size()];
}

Value call_changed(Runtime& rt, const Value& self, const Arguments& arguments) {
  auto& loop = self.as<Loop>();
  if (loop.is_over) return rt.fail("the loop has ended");
  const std::vector<Value>& now = arguments.positional;
  bool is_same = loop.last_changed.has_value() && loop.last_changed->size() == now.size();
  for (size_t i = 0; i < now.size() && is_same; ++i) is_same = equals(rt, now[i], (*loop.last_changed)[i]);
  loop.last_changed = now;
  return Value::of_bool(!is_same);
}

}  // namespace

std::optional<Value> Loop::next_passing() {
  while (n_taken_ < items.size() && !is_filtering_) {
    Value item = items[n_taken_++];
    if (!passes) return item;
    is_filtering_ = true;
    const bool has_passed = passes(item);
    is_filtering_ = false;
    if (has_passed) return item;
  }
  return std::nullopt;
}

void Loop::end() {
  is_over = true;
  passes = nullptr;
  items.clear();
  n_taken_ = 0;
  current = Value();
  for (auto* value : {&previous, &ahead_}) value->reset();
  last_changed.reset();
}

bool Loop::advance() {
  std::optional<Value> next = ahead_.has_value() ? std::exchange(ahead_, std::nullopt) : next_passing();
  if (!next.has_value()) return false;
  if (index0 >= 0) previous = std::move(current);
  current = std::move(*next);
  ++index0;
  return true;
}

const Value* Loop::peek() {
  if (!ahead_.has_value()) ahead_ = next_passing();
  return ahead_.has_value() ? &*ahead_ : nullptr;
}

// The rest of a filtered loop is filtered at once, as in Jinja.
int64_t Loop::length() {
  if (passes && !is_filtering_) {
    std::vector<Value> kept(static_cast<size_t>(index0 + 1));  // behind us
    if (ahead_.has_value()) kept.push_back(*std::exchange(ahead_, std::nullopt));
    while (std::optional<Value> item = next_passing()) kept.push_back(std::move(*item));
    items = std::move(kept);
    n_taken_ = static_cast<size_t>(index0 + 1);
    passes = nullptr;
  }
  return std::ssize(items);
}

std::optional<Value> loop_attribute(Runtime& rt, const Value& value, std::string_view name) {
  auto& loop = value.as<Loop>();
  if (name == "index") return Value::of_int(loop.index0 + 1);
  if (name == "index0") return Value::of_int(loop.index0);
  if (name == "first") return Value::of_bool(loop.index0 == 0);
  if (name == "last") return Value::of_bool(loop.peek() == nullptr);
  if (name == "length") return Value::of_int(loop.length());
  if (name == "revindex") return Value::of_int(loop.length() - loop.index0);
  if (name == "revindex0") return Value::of_int(loop.length() - loop.index0 - 1);
  if (name == "depth") return Value::of_int(1);
  if (name == "depth0") return Value::of_int(0);
  if (name == "previtem") return loop.previous.has_value() ? *loop.previous : rt.undefined("there is no previous item");
  if (name == "nextitem") {
    const Value* next = loop.peek();
    return next != nullptr ? *next : rt.undefined("there is no next item");
  }
  if (name == "cycle") return rt.function(call_cycle, value);
  if (name == "changed") return rt.function(call_changed, value);
  return std::nullopt;
}

}  // namespace bass::jinja
