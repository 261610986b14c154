#include "text/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>

namespace bass::jinja {
namespace {

constexpr int64_t kObjectBytes = 64;  // an object without what it holds, and its place in the heap
constexpr size_t kMaxMessageBytes = 500;

int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

}  // namespace

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.as<Sequence>().name;
    case Kind::kGenerator:
      return "generator";
    case Kind::kDict:
      return "dict";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kCycler:
      return "Cycler";
  }
  return "object";
}

Value Runtime::fail(std::string_view message) {
  if (!ok()) return {};
  const bool is_long = message.size() > kMaxMessageBytes;
  status_ =
      invalid_argument(fmt::format("line {}: {}{}", line_, message.substr(0, kMaxMessageBytes), is_long ? "..." : ""));
  return {};
}

bool Runtime::spend(int64_t n_steps) {
  n_steps_ += n_steps;
  if (n_steps_ > limits_.max_steps) {
    fail(fmt::format("the template takes more than {} steps", limits_.max_steps));
  }
  return ok();
}

bool Runtime::has_room(int64_t n_bytes) {
  if (n_bytes < 0 || !memory_.has(n_bytes)) {
    fail(fmt::format("the template's values take more than {} MiB", limits_.max_bytes >> 20));
  }
  return ok();
}

Value Runtime::made(const std::shared_ptr<Object>& object, int64_t n_bytes) {
  if (!reserve(n_bytes + kObjectBytes)) return {};
  if (object->depth > limits_.max_value_depth) {
    return fail(fmt::format("lists and dicts are nested more than {} deep", limits_.max_value_depth));
  }
  object->charge.take(&memory_, n_bytes + kObjectBytes);
  return Value(object);
}

Value Runtime::string(std::string bytes) {
  if (!ok()) return {};
  const auto object = std::make_shared<Text>(Kind::kString);
  object->bytes = std::move(bytes);
  return made(object, static_cast<int64_t>(object->bytes.capacity()));
}

Value Runtime::sequence(Kind kind, std::vector<Value> items, std::string name) {
  if (!ok()) return {};
  const auto object = std::make_shared<Sequence>(kind);
  object->items = std::move(items);
  object->name = std::move(name);
  object->depth = 1 + depth_of(object->items);
  return made(object, static_cast<int64_t>(object->items.capacity() * sizeof(Value)));
}

Value Runtime::dict(std::vector<std::pair<Value, Value>> entries) {
  if (!ok()) return {};
  const auto object = std::make_shared<Dict>();
  object->entries = std::move(entries);
  int depth = 0;
  for (const auto& [key, value] : object->entries) depth = std::max({depth, key.depth(), value.depth()});
  object->depth = 1 + depth;
  return made(object, static_cast<int64_t>(object->entries.capacity() * 2 * sizeof(Value)));
}

Value Runtime::function(NativeFunction call, Value self) {
  if (!ok()) return {};
  const auto object = std::make_shared<Function>();
  object->call = call;
  object->depth = 1 + self.depth();
  object->self = std::move(self);
  return made(object, 0);
}

Value Runtime::undefined(std::string what) {
  const auto object = std::make_shared<Text>(Kind::kUndefined);
  object->bytes = std::move(what);
  return made(object, static_cast<int64_t>(object->bytes.capacity()));
}

Value Runtime::keep(std::unique_ptr<Object> object) {
  kept_.push_back(std::move(object));
  memory_.take(2 * kObjectBytes);
  if (!reserve(0)) return {};
  return Value(std::shared_ptr<Object>(std::shared_ptr<Object>(), kept_.back().get()));  // owned here, not by the value
}

}  // namespace bass::jinja
