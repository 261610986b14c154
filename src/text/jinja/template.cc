#include "text/jinja/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace bass::jinja {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kInputFactor = 8;  // copies of the messages that are alive at once, the output among them

Value from_json(Runtime& rt, const Json& json, int depth);

Value from_array(Runtime& rt, const Json& json, int depth) {
  std::vector<Value> items;
  for (const Json& item : json) items.push_back(from_json(rt, item, depth));
  return rt.list(std::move(items));
}

Value from_object(Runtime& rt, const Json& json, int depth) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(rt.string(key), from_json(rt, value, depth));
  return rt.dict(std::move(entries));
}

Value from_json(Runtime& rt, const Json& json, int depth) {
  if (depth > rt.limits().max_value_depth) return rt.fail("the messages are nested too deep");
  switch (json.type()) {
    case Json::value_t::string:
      return rt.string(to_valid_utf8(json.get_ref<const std::string&>()));
    case Json::value_t::boolean:
      return Value::of_bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::of_int(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() <= INT64_MAX) return Value::of_int(json.get<int64_t>());
      return rt.fail("a whole number of more than 64 bits");
    case Json::value_t::number_float:
      return Value::of_float(json.get<double>());
    case Json::value_t::array:
      return from_array(rt, json, depth + 1);
    case Json::value_t::object:
      return from_object(rt, json, depth + 1);
    default:
      return {};
  }
}

}  // namespace

struct Template::Tree {
  Block block;
};

Template::Template(std::unique_ptr<Tree> tree) : tree_(std::move(tree)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return invalid_argument(
        fmt::format("the template has {} bytes; at most {} are read", source.size(), kMaxSourceBytes));
  }
  if (const auto bad = find_invalid_utf8(source)) {
    const auto line = 1 + std::ranges::count(source.substr(0, *bad), '\n');
    return invalid_argument(fmt::format("line {}: no valid UTF-8", line));
  }
  auto tree = std::make_unique<Tree>();
  BASS_ASSIGN_OR_RETURN(tree->block, parse_template(source));
  return Template(std::move(tree));
}

Result<std::string> Template::render(const Json& variables, std::time_t now, const Limits& limits) const {
  Runtime rt(limits, now);
  Evaluator evaluator(rt);
  for (const auto& [name, value] : variables.items()) evaluator.define(name, from_json(rt, value, 0));
  rt.allow_for_input(kInputFactor);
  std::string text = evaluator.run(tree_->block);
  BASS_RETURN_IF_ERROR(rt.status());
  return text;
}

}  // namespace bass::jinja
