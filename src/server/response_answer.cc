#include "server/response_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "server/sent_event.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

const char* status_of(ResponseState state) {
  switch (state) {
    case ResponseState::kRunning:
      return "in_progress";
    case ResponseState::kDone:
      return "completed";
    case ResponseState::kFailed:
      return "failed";
    default:
      return "incomplete";
  }
}

Json details_of(ResponseState state) {
  if (state == ResponseState::kCutLength) return {{"reason", "max_output_tokens"}};
  if (state == ResponseState::kCutTime) return {{"reason", "deadline"}};
  return nullptr;
}

void append(const Json& from, Json* to) { to->insert(to->end(), from.begin(), from.end()); }

}  // namespace

ResponseState state_of(FinishReason reason) {
  if (reason == FinishReason::kLength) return ResponseState::kCutLength;
  return reason == FinishReason::kDeadline ? ResponseState::kCutTime : ResponseState::kDone;
}

Json ResponseObject::json(ResponseState state, Json output, Json usage, const std::string& error) const {
  Json json{{"id", head_.id},
            {"object", "response"},
            {"created_at", head_.created_s},
            {"status", status_of(state)},
            {"error", nullptr},
            {"incomplete_details", details_of(state)},
            {"model", head_.model},
            {"output", std::move(output)}};
  if (state == ResponseState::kFailed) json["error"] = {{"code", "server_error"}, {"message", error}};
  if (repeated_) json.update(*repeated_);
  json["usage"] = std::move(usage);
  return json;
}

void ResponseItems::take(const AnswerPiece& piece, const Json& logprobs, Events* events) {
  append(logprobs, &pending_logprobs_);
  if (!piece.reasoning.empty()) add_text(Kind::kThoughts, piece.reasoning, events);
  const std::string_view text = piece.answer.text;
  size_t n_said = 0;
  for (const ToolCall& call : piece.answer.calls) {
    add_answer(text.substr(n_said, call.text_len - n_said), events);
    n_said = call.text_len;
    end(/*is_cut=*/false, events);
    add_call(call, events);
  }
  add_answer(text.substr(n_said), events);
}

// Behind a call without the line feed that stands for it where text is in one piece.
void ResponseItems::add_answer(std::string_view text, Events* events) {
  const bool is_behind_call = kind_ != Kind::kText && n_calls_ > 0;
  if (is_behind_call) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (!text.empty()) add_text(Kind::kText, text, events);
}

void ResponseItems::finish(bool is_cut, Events* events) {
  const bool is_silent = kind_ != Kind::kText && n_calls_ == 0;
  if (is_silent && (!is_cut || kind_ == Kind::kNone)) begin(Kind::kText, events);
  end(is_cut, events);
}

void ResponseItems::add_text(Kind kind, std::string_view text, Events* events) {
  if (kind_ != kind) begin(kind, events);
  text_ += text;
  Json delta = event(text_event("delta"));
  delta["content_index"] = 0;
  delta["delta"] = text;
  if (kind == Kind::kText) {
    append(pending_logprobs_, &logprobs_);
    delta["logprobs"] = std::exchange(pending_logprobs_, Json::array());
  }
  events->push_back(std::move(delta));
}

void ResponseItems::begin(Kind kind, Events* events) {
  end(/*is_cut=*/false, events);
  kind_ = kind;
  Json added = event("response.output_item.added");
  added["item"] = item("in_progress", Json::array());
  Json part_added = event("response.content_part.added");
  part_added["content_index"] = 0;
  part_added["part"] = part();
  events->push_back(std::move(added));
  events->push_back(std::move(part_added));
}

void ResponseItems::end(bool is_cut, Events* events) {
  if (kind_ == Kind::kNone) return;
  if (kind_ == Kind::kText) append(std::exchange(pending_logprobs_, Json::array()), &logprobs_);
  Json done = event(text_event("done"));
  done["content_index"] = 0;
  done["text"] = text_;
  if (kind_ == Kind::kText) done["logprobs"] = logprobs_;
  Json part_done = event("response.content_part.done");
  part_done["content_index"] = 0;
  part_done["part"] = part();
  Json item_done = event("response.output_item.done");
  item_done["item"] = item(is_cut ? "incomplete" : "completed", Json::array({part()}));
  output_.push_back(item_done["item"]);
  for (Json* one : {&done, &part_done, &item_done}) events->push_back(std::move(*one));
  kind_ = Kind::kNone;
  text_.clear();
  logprobs_ = Json::array();
}

void ResponseItems::add_call(const ToolCall& call, Events* events) {
  kind_ = Kind::kCall;
  Json item{{"id", item_id()},         {"type", "function_call"},
            {"status", "in_progress"}, {"call_id", tool_call_id(answer_id_, 0, n_calls_++)},
            {"name", call.name},       {"arguments", ""}};
  Json added = event("response.output_item.added");
  added["item"] = item;
  Json delta = event("response.function_call_arguments.delta");
  delta["delta"] = call.arguments;
  Json done = event("response.function_call_arguments.done");
  done["name"] = call.name;
  done["arguments"] = call.arguments;
  item["status"] = call.is_cut ? "incomplete" : "completed";
  item["arguments"] = call.arguments;
  Json item_done = event("response.output_item.done");
  item_done["item"] = item;
  output_.push_back(std::move(item));
  for (Json* one : {&added, &delta, &done, &item_done}) events->push_back(std::move(*one));
  kind_ = Kind::kNone;
}

/// The text item that grows, as far as it has come.
Json ResponseItems::item(const char* status, Json content) const {
  if (kind_ == Kind::kThoughts)
    return {{"id", item_id()},
            {"type", "reasoning"},
            {"summary", Json::array()},
            {"content", std::move(content)},
            {"status", status}};
  return {{"id", item_id()},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

Json ResponseItems::part() const {
  if (kind_ == Kind::kThoughts) return {{"type", "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

/// "msg_<the answer's><place>"
std::string ResponseItems::item_id() const {
  const char* const prefix = kind_ == Kind::kThoughts ? "rs" : kind_ == Kind::kText ? "msg" : "fc";
  const std::string_view answer = std::string_view(answer_id_).substr(answer_id_.find_first_of("_-") + 1);
  return fmt::format("{}_{}{:04x}", prefix, answer, output_.size());
}

/// About the item that grows.
Json ResponseItems::event(const std::string& type) const {
  Json json{{"type", type}};
  const bool is_of_item = type.starts_with("response.output_item.");  // which has its id
  if (!is_of_item) json["item_id"] = item_id();
  json["output_index"] = output_.size();
  return json;
}

std::string ResponseItems::text_event(const char* what) const {
  return fmt::format("response.{}.{}", kind_ == Kind::kThoughts ? "reasoning_text" : "output_text", what);
}

ResponseStream::ResponseStream(ResponseObject object) : object_(std::move(object)), items_(object_.id()) {}

std::string ResponseStream::begin() { return text_of({}); }

std::string ResponseStream::take(const AnswerPiece& piece, const Json& logprobs) {
  ResponseItems::Events events;
  items_.take(piece, logprobs, &events);
  return text_of(std::move(events));
}

std::string ResponseStream::finish(FinishReason reason) {
  state_ = state_of(reason);
  ResponseItems::Events events;
  items_.finish(state_ != ResponseState::kDone, &events);
  return text_of(std::move(events));
}

std::string ResponseStream::end(Json usage) {
  const std::string type = state_ == ResponseState::kDone ? "response.completed" : "response.incomplete";
  return text_of({{{"type", type}, {"response", object_.json(state_, items_.output(), std::move(usage))}}});
}

std::string ResponseStream::fail(const std::string& error) {
  ResponseItems::Events events;
  items_.end(/*is_cut=*/true, &events);
  events.push_back({{"type", "response.failed"},
                    {"response", object_.json(ResponseState::kFailed, items_.output(), nullptr, error)}});
  return text_of(std::move(events));
}

/// Behind those that come first, the first time.
std::string ResponseStream::text_of(ResponseItems::Events events) {
  if (n_sent_ == 0) {
    const Json object = object_.json(ResponseState::kRunning, Json::array(), nullptr);
    const Json first[] = {{{"type", "response.created"}, {"response", object}},
                          {{"type", "response.in_progress"}, {"response", object}}};
    events.insert(events.begin(), std::begin(first), std::end(first));
  }
  std::string text;
  for (Json& event : events) {
    event["sequence_number"] = n_sent_++;
    text += server_sent_event(event, event["type"].get_ref<const std::string&>());
  }
  return text;
}

}  // namespace bass
