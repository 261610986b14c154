#include "server/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/user_json.h"
#include "text/chat_tools.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBlanks = " \t\r\n";

std::optional<ToolCall> read_call(const Json& json, std::span<const std::string> names) {
  if (!json.is_object()) return std::nullopt;
  const Json name = json.value("name", Json());
  if (!name.is_string() || std::ranges::find(names, name.get_ref<const std::string&>()) == names.end())
    return std::nullopt;
  Json arguments = json.value("arguments", json.value("parameters", Json()));
  if (arguments.is_string()) {
    Result<Json> parsed = parse_user_json(arguments.get_ref<const std::string&>());
    arguments = parsed.ok() ? std::move(parsed).value() : Json();
  }
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{name.get<std::string>(), arguments.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

/// How many bytes at the end of the text may be the beginning of a call, with the blanks before it.
size_t n_uncertain(std::string_view text) {
  size_t n = std::min(text.size(), kCallBegin.size() - 1);
  while (!kCallBegin.starts_with(text.substr(text.size() - n))) --n;
  const std::string_view before = text.substr(0, text.size() - n);
  const size_t last = before.find_last_not_of(kBlanks);
  return text.size() - (last == before.npos ? 0 : last + 1);
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// References into a schema that now stands at `place` of another one.
void move_references(const std::string& place, Json* schema) {
  if (schema->is_object() && schema->contains("$ref") && (*schema)["$ref"].is_string()) {
    const auto& target = (*schema)["$ref"].get_ref<const std::string&>();
    if (target.starts_with('#')) (*schema)["$ref"] = place + target.substr(1);
  }
  for (Json& part : *schema) {
    if (part.is_structured()) move_references(place, &part);
  }
}

Json call_schema(const Tool& tool, const std::string& place) {
  Json arguments = tool.parameters;
  move_references(place + "/properties/arguments", &arguments);
  return {{"type", "object"},
          {"properties", {{"name", {{"const", tool.name}}}, {"arguments", std::move(arguments)}}},
          {"required", {"name", "arguments"}},
          {"additionalProperties", false}};
}

}  // namespace

std::vector<ToolCall> ToolCallReader::read_calls(std::string_view json) const {
  const Result<Json> parsed = parse_user_json(json);
  if (!parsed.ok()) return {};
  const Json list = parsed.value().is_array() ? parsed.value() : Json::array({parsed.value()});
  std::vector<ToolCall> calls;
  for (const Json& one : list) {
    std::optional<ToolCall> call = read_call(one, names_);
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

void ToolCallReader::add_text(std::string_view text, Piece* piece) {
  if (std::exchange(follows_call_, false)) {
    const size_t begin = text.find_first_not_of(kBlanks);
    follows_call_ = begin == text.npos;
    text.remove_prefix(follows_call_ ? text.size() : begin);
    if (has_text_ && !text.empty()) piece->text += '\n';
  }
  has_text_ = has_text_ || !text.empty();
  piece->text += text;
}

bool ToolCallReader::advance(Piece* piece) {
  const size_t begin = pending_.find(kCallBegin);
  if (begin == pending_.npos) {
    const size_t n_certain = pending_.size() - n_uncertain(pending_);
    add_text(std::string_view(pending_).substr(0, n_certain), piece);
    pending_.erase(0, n_certain);
    return false;
  }
  const size_t text_end = pending_.find_last_not_of(kBlanks, begin == 0 ? 0 : begin - 1);
  if (begin > 0 && text_end != pending_.npos) {  // the blanks stay: perhaps it is no call
    add_text(std::string_view(pending_).substr(0, text_end + 1), piece);
    pending_.erase(0, text_end + 1);
    return true;
  }
  const size_t json_begin = begin + kCallBegin.size();
  const size_t json_end = pending_.find(kCallEnd, json_begin);
  if (json_end == pending_.npos) return false;
  const std::string_view all = pending_;
  std::vector<ToolCall> calls = read_calls(all.substr(json_begin, json_end - json_begin));
  if (calls.empty()) add_text(all.substr(0, json_end + kCallEnd.size()), piece);
  follows_call_ = !calls.empty();
  std::ranges::move(calls, std::back_inserter(piece->calls));
  pending_.erase(0, json_end + kCallEnd.size());
  return true;
}

ToolCallReader::Piece ToolCallReader::take(std::string_view text) {
  Piece piece;
  const bool is_first = pending_.find_first_not_of(kBlanks) == pending_.npos && !has_text_ && !follows_call_;
  pending_ += text;
  if (is_first) {
    const size_t begin = pending_.find_first_not_of(kBlanks);
    is_json_ = begin != pending_.npos && (pending_[begin] == '{' || pending_[begin] == '[');
  }
  while (!is_json_ && advance(&piece)) {
  }
  return piece;
}

ToolCallReader::Piece ToolCallReader::finish() {
  Piece piece;
  is_json_ = false;
  if (!has_text_ && !follows_call_) piece.calls = read_calls(trimmed(pending_));
  if (!piece.calls.empty()) {
    pending_.clear();
    return piece;
  }
  while (advance(&piece)) {
  }
  const std::string_view rest = pending_;
  const size_t begin = rest.find(kCallBegin);
  if (begin != rest.npos) {
    std::vector<ToolCall> calls = read_calls(trimmed(rest.substr(begin + kCallBegin.size())));
    if (calls.empty()) add_text(rest, &piece);
    std::ranges::move(calls, std::back_inserter(piece.calls));
  } else {
    add_text(rest, &piece);
  }
  pending_.clear();
  return piece;
}

Json tool_call_schema(std::span<const Tool> tools) {
  if (tools.size() == 1) return call_schema(tools[0], "#");
  Json any = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) any.push_back(call_schema(tools[i], fmt::format("#/anyOf/{}", i)));
  return {{"anyOf", std::move(any)}};
}

}  // namespace bass
