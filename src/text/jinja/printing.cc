#include <fmt/format.h>

#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace bass::jinja {
namespace {

/// A value that has the same list in it many times may be printed into far more bytes than it holds.
bool has_room(Runtime& rt, const std::string& out) { return rt.spend(1) && rt.has_room(std::ssize(out)); }

void append_items(Runtime& rt, const std::vector<Value>& items, std::string* out) {
  for (size_t i = 0; i < items.size() && has_room(rt, *out); ++i) {
    if (i > 0) *out += ", ";
    append_repr(rt, items[i], out);
  }
}

void append_dict(Runtime& rt, const Dict& dict, std::string* out) {
  *out += '{';
  for (size_t i = 0; i < dict.entries.size() && has_room(rt, *out); ++i) {
    if (i > 0) *out += ", ";
    append_repr(rt, dict.entries[i].first, out);
    *out += ": ";
    append_repr(rt, dict.entries[i].second, out);
  }
  *out += '}';
}

void append_sequence(Runtime& rt, const Value& value, std::string* out) {
  const auto& sequence = value.as<Sequence>();
  if (value.is(Kind::kRange)) {
    *out += sequence.name;
  } else if (value.is(Kind::kGenerator)) {
    *out += "<generator object>";
  } else {
    const bool is_tuple = value.is(Kind::kTuple), is_view = value.is(Kind::kView);
    *out += is_view ? sequence.name + "([" : is_tuple ? "(" : "[";
    append_items(rt, sequence.items, out);
    if (is_tuple && sequence.items.size() == 1) *out += ',';
    *out += is_view ? "])" : is_tuple ? ")" : "]";
  }
}

std::string scalar_text(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is(Kind::kBool)) return value.integer() != 0 ? "True" : "False";
  if (value.is(Kind::kInt)) return fmt::format("{}", value.integer());
  if (value.is(Kind::kFloat)) return float_text(value.number());
  return fmt::format("<{}>", type_name(value));
}

}  // namespace

std::string to_text(Runtime& rt, const Value& value) {
  if (value.is_undefined() || !rt.ok()) return {};
  if (value.is_string()) return value.text();
  std::string out;
  append_repr(rt, value, &out);
  return out;
}

void append_repr(Runtime& rt, const Value& value, std::string* out) {
  if (!has_room(rt, *out)) return;
  if (value.is_string()) {
    rt.spend_on_text(value.text().size());
    *out += quoted_text(value.text());
  } else if (value.is_undefined()) {
    *out += "Undefined";
  } else if (value.is(Kind::kDict)) {
    append_dict(rt, value.as<Dict>(), out);
  } else if (value.is_sequence()) {
    append_sequence(rt, value, out);
  } else {
    *out += scalar_text(value);
  }
}

}  // namespace bass::jinja
