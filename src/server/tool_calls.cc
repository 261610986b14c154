#include "server/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/chat_tools.h"
#include "text/text_marks.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// Of marks without a call in an answer: behind each of them JSON may be looked for up to the end.
constexpr int kMaxFalseMarks = 64;

/// The end of the value that begins there, in valid JSON.
size_t value_end(std::string_view json, size_t begin) {
  const char first = json[begin];
  if (first == '{' || first == '[') return JsonEnd(begin).find(json);
  if (first != '"') return std::min(json.find_first_of(",]} \t\r\n", begin), json.size());
  size_t at = begin + 1;
  while (json[at] != '"') at += json[at] == '\\' ? 2 : 1;
  return at + 1;
}

/// The values in a valid JSON list, or behind the keys of an object, as they are written, and these keys.
std::vector<std::pair<std::string_view, std::string_view>> parts_of(std::string_view json) {
  const bool is_object = json.front() == '{';
  std::vector<std::pair<std::string_view, std::string_view>> parts;
  size_t at = skip_blanks(json, 1);
  while (json[at] != '}' && json[at] != ']') {
    std::string_view key;
    if (is_object) {
      const size_t end = value_end(json, at);
      key = json.substr(at + 1, end - at - 2);
      at = skip_blanks(json, skip_blanks(json, end) + 1);  // the colon
    }
    const size_t end = value_end(json, at);
    parts.emplace_back(key, json.substr(at, end - at));
    at = skip_blanks(json, end);
    if (json[at] == ',') at = skip_blanks(json, at + 1);
  }
  return parts;
}

std::optional<std::string> text_of(std::string_view json) {
  const Json text = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return text.is_string() ? std::optional(text.get<std::string>()) : std::nullopt;
}

bool is_object(std::string_view json) {
  const Result<Json> parsed = parse_user_json(json);
  return parsed.ok() && parsed.value().is_object();
}

/// json: valid, and without blanks around it
std::optional<ToolCall> read_call(std::string_view json, std::span<const std::string> names) {
  if (!json.starts_with('{')) return std::nullopt;
  std::optional<std::string> name, arguments;
  bool is_known_object = false;
  for (const auto& [key, value] : parts_of(json)) {
    if (key == "name") name = text_of(value);
    if (key != "arguments" && (key != "parameters" || arguments)) continue;
    is_known_object = value.starts_with('{');
    arguments = value.starts_with('"') ? text_of(value) : std::string(value);
  }
  if (!name || !arguments || std::ranges::find(names, *name) == names.end()) return std::nullopt;
  if (!is_known_object && !is_object(*arguments)) return std::nullopt;
  return ToolCall{.name = std::move(*name), .arguments = std::move(*arguments)};
}

/// What there is of a call that tool_call_schema has written and something has cut. None: it has no name as yet.
std::optional<ToolCall> read_cut_call(std::string_view json, std::span<const std::string> names) {
  size_t at = 0;
  const auto take = [&](std::string_view part) {
    const size_t first = skip_blanks(json, at);
    if (!json.substr(first).starts_with(part)) return false;
    at = first + part.size();
    return true;
  };
  if (!take("{") || !take("\"name\"") || !take(":")) return std::nullopt;
  const auto name = std::ranges::find_if(names, [&](const std::string& one) { return take(Json(one).dump()); });
  if (name == names.end()) return std::nullopt;
  const bool has_arguments = take(",") && take("\"arguments\"") && take(":");
  return ToolCall{
      .name = *name, .arguments = has_arguments ? std::string(json.substr(skip_blanks(json, at))) : "", .is_cut = true};
}

/// How many bytes at the end of the text may be the beginning of a call, with the blanks before it.
size_t n_uncertain(std::string_view text) {
  return text.size() - len_without_blanks(text.substr(0, text.size() - n_begun(text, kCallBegin)));
}

/// References into a schema that now stands at `place` of another one.
void move_references(const std::string& place, Json* schema) {
  constexpr std::array kValues{"const", "enum", "default", "examples"};
  constexpr std::array kSchemasByName{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"};
  const auto is_in = [](const auto& keys, const std::string& key) {
    return std::ranges::find(keys, key) != keys.end();
  };
  for (auto& [key, part] : schema->items()) {
    const bool has_key = schema->is_object();
    if (has_key && key == "$ref" && part.is_string() && part.get_ref<const std::string&>().starts_with('#')) {
      part = place + part.get<std::string>().substr(1);
    } else if (has_key && is_in(kSchemasByName, key) && part.is_object()) {
      for (Json& one : part) move_references(place, &one);
    } else if (part.is_structured() && !(has_key && is_in(kValues, key))) {
      move_references(place, &part);
    }
  }
}

/// What may be null may as well not be there.
void drop_null(const char* keyword, Json* schema) {
  if (!schema->contains(keyword) || !(*schema)[keyword].is_array()) return;
  Json kept = Json::array();
  for (Json& one : (*schema)[keyword]) {
    if (one != Json{{"type", "null"}}) kept.push_back(std::move(one));
  }
  (*schema)[keyword] = std::move(kept);
}

Json call_schema(const Tool& tool, const std::string& place) {
  Json arguments = tool.parameters;
  if (!arguments.contains("const") && !arguments.contains("enum")) {
    arguments["type"] = "object";  // as the protocol wants it
    arguments.erase("nullable");
    for (const char* const several : {"anyOf", "oneOf"}) drop_null(several, &arguments);
  }
  move_references(place + "/properties/arguments", &arguments);
  return {{"type", "object"},
          {"properties", {{"name", {{"const", tool.name}}}, {"arguments", std::move(arguments)}}},
          {"required", {"name", "arguments"}},
          {"additionalProperties", false}};
}

}  // namespace

size_t JsonEnd::find(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (is_in_string_) {
      is_in_string_ = is_escaped_ || c != '"';
      is_escaped_ = !is_escaped_ && c == '\\';
      continue;
    }
    is_in_string_ = c == '"';
    depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (depth_ == 0) return ++at_;
  }
  return text.npos;
}

void ToolCallReader::add_text(size_t n_bytes, Piece* piece) {
  std::string_view text = std::string_view(pending_).substr(0, n_bytes);
  if (follows_call_) {
    text.remove_prefix(skip_blanks(text, 0));
    if (!text.empty()) {
      follows_call_ = false;
      if (has_text_) piece->text += '\n';
    }
  }
  has_text_ = has_text_ || !text.empty();
  piece->text += text;
  pending_.erase(0, n_bytes);
}

void ToolCallReader::give(ToolCall call, Piece* piece) {
  call.text_len = piece->text.size();
  piece->calls.push_back(std::move(call));
}

bool ToolCallReader::add_calls(std::string_view json, Piece* piece) {
  if (!parse_user_json(json).ok()) return false;
  std::vector<ToolCall> calls;
  const auto read = [&](std::string_view one) {
    std::optional<ToolCall> call = read_call(one, tools_->names);
    if (call) calls.push_back(std::move(*call));
    return call.has_value();
  };
  if (json.starts_with('{') && !read(json)) return false;
  if (json.starts_with('[') &&
      !std::ranges::all_of(parts_of(json), [&](const auto& part) { return read(part.second); }))
    return false;
  for (ToolCall& call : calls) {
    if (std::exchange(has_called_, true) && tools_->only_one) break;
    give(std::move(call), piece);
  }
  return !calls.empty();
}

// A list that does not begin with an object is none of calls.
bool ToolCallReader::begin(bool is_end) {
  const size_t first = skip_blanks(pending_, 0);
  const bool is_list = first < pending_.size() && pending_[first] == '[';
  const size_t object = is_list ? skip_blanks(pending_, first + 1) : first;
  if (object == pending_.size() && !is_end) return false;
  const bool is_json = object < pending_.size() && pending_[object] == '{';
  state_ = is_json ? State::kWhole : State::kText;
  json_end_ = JsonEnd(first);
  return true;
}

bool ToolCallReader::take_whole(bool is_end, Piece* piece) {
  const size_t end = json_end_.find(pending_);
  const bool is_more = end != pending_.npos && skip_blanks(pending_, end) < pending_.size();
  if (!is_end && !is_more) {
    if (end != pending_.npos) json_end_ = JsonEnd(skip_blanks(pending_, 0));
    return false;
  }
  const size_t first = skip_blanks(pending_, 0);
  if (tools_->must_call && end == pending_.npos) {
    if (std::optional<ToolCall> call = read_cut_call(std::string_view(pending_).substr(first), tools_->names)) {
      give(std::move(*call), piece);
      pending_.clear();
      return false;
    }
  }
  if (is_more || end == pending_.npos || !add_calls(std::string_view(pending_).substr(first, end - first), piece)) {
    state_ = State::kText;
    return true;
  }
  pending_.clear();
  return false;
}

bool ToolCallReader::take_text(bool is_end, Piece* piece) {
  const size_t mark = n_false_marks_ < kMaxFalseMarks ? pending_.find(kCallBegin) : pending_.npos;
  if (mark == pending_.npos) {
    add_text(is_end ? pending_.size() : pending_.size() - n_uncertain(pending_), piece);
    return false;
  }
  const size_t last = std::string_view(pending_).substr(0, mark).find_last_not_of(kBlanks);
  if (last != pending_.npos) add_text(last + 1, piece);  // the blanks stay: perhaps it is no call
  state_ = State::kMarked;
  return true;
}

bool ToolCallReader::take_marked(bool is_end, Piece* piece) {
  const size_t mark_end = pending_.find(kCallBegin) + kCallBegin.size();
  const size_t first = skip_blanks(pending_, mark_end);
  if (first == pending_.size() && !is_end) return false;
  const bool is_json = first < pending_.size() && (pending_[first] == '{' || pending_[first] == '[');
  if (is_json && !is_scanning_) json_end_ = JsonEnd(first);
  is_scanning_ = is_json;
  const size_t end = is_json ? json_end_.find(pending_) : pending_.npos;
  if (is_json && end == pending_.npos && !is_end) return false;
  is_scanning_ = false;
  if (end == pending_.npos || !add_calls(std::string_view(pending_).substr(first, end - first), piece)) {
    ++n_false_marks_;
    add_text(mark_end, piece);
    state_ = State::kText;
    return true;
  }
  pending_.erase(0, end);
  follows_call_ = true;
  state_ = State::kAfterCall;
  return true;
}

bool ToolCallReader::pass_end_mark(bool is_end) {
  const size_t first = skip_blanks(pending_, 0);
  const std::string_view rest = std::string_view(pending_).substr(first);
  const bool is_whole = rest.starts_with(kCallEnd);
  if (!is_whole && kCallEnd.starts_with(rest) && !(is_end && rest == "<")) {  // so far; the answer was cut in it
    if (is_end) pending_.clear();
    return false;
  }
  if (is_whole) pending_.erase(0, first + kCallEnd.size());
  state_ = State::kText;
  return true;
}

bool ToolCallReader::advance(bool is_end, Piece* piece) {
  if (pending_.empty()) return false;
  switch (state_) {
    case State::kBlank:
      return begin(is_end);
    case State::kWhole:
      return take_whole(is_end, piece);
    case State::kText:
      return take_text(is_end, piece);
    case State::kMarked:
      return take_marked(is_end, piece);
    case State::kAfterCall:
      return pass_end_mark(is_end);
  }
  return false;
}

ToolCallReader::Piece ToolCallReader::take(std::string_view text) {
  if (tools_ == nullptr) return {std::string(text), {}};
  Piece piece;
  pending_ += text;
  while (advance(/*is_end=*/false, &piece)) {
  }
  return piece;
}

void ToolCallReader::finish(Piece* piece) {
  while (tools_ != nullptr && advance(/*is_end=*/true, piece)) {
  }
}

Json tool_call_schema(std::span<const Tool> tools) {
  if (tools.size() == 1) return call_schema(tools[0], "#");
  Json any = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) any.push_back(call_schema(tools[i], fmt::format("#/anyOf/{}", i)));
  return {{"anyOf", std::move(any)}};
}

Json tool_call_or(Json other, std::span<const Tool> tools) {
  move_references("#/anyOf/0", &other);
  Json any = Json::array({std::move(other)});
  for (const Tool& tool : tools) any.push_back(call_schema(tool, fmt::format("#/anyOf/{}", any.size())));
  return {{"anyOf", std::move(any)}};
}

}  // namespace bass
