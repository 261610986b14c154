// What templates may call by name.
#include <fmt/format.h>

#include <array>

#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace bass::jinja {
namespace {

constexpr int64_t kMaxRangeLen = 100'000;  // Jinja's sandbox has the same

int64_t range_len(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop),
             high = static_cast<uint64_t>(step > 0 ? stop : start);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<int64_t>(std::min<uint64_t>((high - low - 1) / stride + 1, INT64_MAX));
}

Value call_range(Runtime& rt, const Value&, const Arguments& arguments) {
  const Bound bound(rt, "range", arguments, {"start", "stop", "step"}, 1);
  if (!rt.ok()) return {};
  const bool has_start = bound.has(1);
  const int64_t start = has_start ? bound.integer(0, 0) : 0;
  const int64_t stop = bound.integer(has_start ? 1 : 0, 0), step = bound.integer(2, 1);
  if (step == 0) return rt.fail("range() arg 3 must not be zero");
  const int64_t n = range_len(start, stop, step);
  if (n > kMaxRangeLen) return rt.fail(fmt::format("a range of more than {} numbers", kMaxRangeLen));
  if (!rt.reserve(n * static_cast<int64_t>(sizeof(Value)))) return {};
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) items.push_back(Value::of_int(start + i * step));
  std::string name =
      step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
  return rt.sequence(Kind::kRange, std::move(items), std::move(name));
}

/// dict(mapping or pairs, name=value, ...).
std::vector<std::pair<Value, Value>> make_entries(Runtime& rt, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) rt.fail("dict expected at most 1 argument");
  for (const Value& from : arguments.positional) {
    if (from.is(Kind::kDict)) {
      entries = from.as<Dict>().entries;
      continue;
    }
    for (const Value& pair : items_of(rt, from)) {
      std::vector<Value> both = items_of(rt, pair);
      if (both.size() != 2) rt.fail("dict needs pairs of a key and a value");
      if (rt.ok()) set_entry(rt, &entries, both[0], both[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) set_entry(rt, &entries, rt.string(name), value);
  return entries;
}

Value call_dict(Runtime& rt, const Value&, const Arguments& arguments) { return rt.dict(make_entries(rt, arguments)); }

Value call_namespace(Runtime& rt, const Value&, const Arguments& arguments) {
  auto result = std::make_unique<Namespace>();
  for (const auto& [key, value] : make_entries(rt, arguments)) {
    if (!key.is_string() || key.text().starts_with('_')) {
      return rt.fail(fmt::format("a namespace's attribute cannot be named '{}'", to_text(rt, key)));
    }
    result->attributes.emplace_back(key.text(), value);
  }
  return rt.ok() ? rt.keep(std::move(result)) : Value();
}

Value make_cycler(Runtime& rt, std::vector<Value> items) {
  auto cycler = std::make_unique<Cycler>();
  cycler->items = rt.tuple(std::move(items));
  return rt.ok() ? rt.keep(std::move(cycler)) : Value();
}

const Value& current_item(const Cycler& cycler) { return cycler.items.as<Sequence>().items[cycler.idx]; }

Value call_cycler(Runtime& rt, const Value&, const Arguments& arguments) {
  const Bound bound(rt, "cycler", {{}, arguments.named}, {});
  if (arguments.positional.empty()) return rt.fail("at least one item has to be provided");
  return make_cycler(rt, arguments.positional);
}

Value call_next(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "next", arguments, {});
  auto& cycler = self.as<Cycler>();
  Value item = current_item(cycler);
  cycler.idx = (cycler.idx + 1) % cycler.items.as<Sequence>().items.size();
  return item;
}

Value call_reset(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "reset", arguments, {});
  self.as<Cycler>().idx = 0;
  return {};
}

/// Nothing the first time, then the separator.
Value call_join(Runtime& rt, const Value& self, const Arguments& arguments) {
  const Bound bound(rt, "joiner", arguments, {});
  auto& cycler = self.as<Cycler>();
  Value item = current_item(cycler);
  cycler.idx = 1;
  return item;
}

Value call_joiner(Runtime& rt, const Value&, const Arguments& arguments) {
  const Bound bound(rt, "joiner", arguments, {"sep"});
  const Value separator = bound.has(0) ? bound.get(0) : rt.string(", ");
  const Value state = make_cycler(rt, {rt.string(""), separator});
  return rt.ok() ? rt.function(call_join, state) : Value();
}

Value call_raise_exception(Runtime& rt, const Value&, const Arguments& arguments) {
  const Bound bound(rt, "raise_exception", arguments, {"message"}, 1);
  return rt.fail(to_text(rt, bound.get(0)));
}

Value call_strftime_now(Runtime& rt, const Value&, const Arguments& arguments) {
  const Bound bound(rt, "strftime_now", arguments, {"format"}, 1);
  const std::string format = bound.text(0);
  if (!rt.ok() || format.empty()) return rt.string("");
  std::tm local{};
  const std::time_t now = rt.now();
  localtime_r(&now, &local);
  std::array<char, 1024> buffer{};
  const size_t n = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return rt.string(std::string(buffer.data(), n));  // a text that is longer has no place in a prompt
}

}  // namespace

NativeFunction find_function(std::string_view name) {
  static constexpr NamedFunction kFunctions[] = {{"range", call_range},
                                                 {"dict", call_dict},
                                                 {"namespace", call_namespace},
                                                 {"cycler", call_cycler},
                                                 {"joiner", call_joiner},
                                                 {"raise_exception", call_raise_exception},
                                                 {"strftime_now", call_strftime_now}};
  return find(name, std::begin(kFunctions), std::end(kFunctions));
}

std::optional<Value> cycler_attribute(Runtime& rt, const Value& cycler, std::string_view name) {
  if (name == "current") return current_item(cycler.as<Cycler>());
  if (name == "next") return rt.function(call_next, cycler);
  if (name == "reset") return rt.function(call_reset, cycler);
  return std::nullopt;
}

}  // namespace bass::jinja
