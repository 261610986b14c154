#include "server/api_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engine/ranking.h"
#include "server/sent_event.h"
#include "text/thoughts.h"
#include "text/user_json.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// The protocol's word for an answer that has called tools is another one where the caller did not choose which.
Json finish_reason(const ApiShape& shape, FinishReason reason, size_t n_calls) {
  const bool has_called = n_calls > 0 && reason == FinishReason::kStop && !shape.must_call_named;
  return has_called ? "tool_calls" : to_string(reason);
}

Json call_json(const ApiHead& head, size_t choice_idx, size_t idx, const ToolCall& call) {
  return {{"id", tool_call_id(head.id, choice_idx, idx)},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

bool has_failed(const Event& event) {
  return event.kind == Event::Kind::kFinished &&
         (event.finish_reason == FinishReason::kError || event.finish_reason == FinishReason::kCancelled);
}

Status error_of(FinishReason reason, const Status& error) {
  if (!error.ok()) return error;
  return reason == FinishReason::kCancelled ? unavailable("the server is ending") : internal_error("a sample failed");
}

// A prompt as it came; of token ids, as they read.
std::string echoed_text(const ApiShape& shape, size_t prompt_idx, const Event& event, const TokenTextOf& texts) {
  std::string text = shape.echoed[prompt_idx];
  if (!text.empty()) return text;
  bool at_start = true;
  for (const TokenId id : event.prompt_tokens) {
    const TokenText token = texts(id, at_start);
    text += token.bytes;
    at_start = token.at_start;
  }
  return to_valid_utf8(text);
}

// What follows a prompt of special tokens alone.
bool begins_text(const Event& prompt, const TokenTextOf& texts) {
  return std::ranges::all_of(prompt.prompt_tokens, [&](TokenId id) { return texts(id, true).is_special; });
}

// Whether the chat's template has begun the thoughts, or the text that is gone on with.
bool begins_inside(const ApiShape& shape, const Event& prompt, const TokenTextOf& texts) {
  constexpr size_t kMostTokens = 16;  // of the mark and what may stand behind it
  if (!shape.parts_reasoning || shape.continues_message) return shape.parts_reasoning && shape.continues_thoughts;
  const size_t n = std::min(prompt.prompt_tokens.size(), kMostTokens);
  std::string text;
  for (const TokenId id : std::span(prompt.prompt_tokens).last(n)) text += texts(id, false).bytes;
  return ends_with_thoughts_begin(text);
}

}  // namespace

ApiUsage::ApiUsage(const ApiShape& shape, TokenTextOf texts) : texts_(std::move(texts)), is_counted_(shape.n_prompts) {
  if (shape.parts_reasoning) thoughts_.resize(static_cast<size_t>(shape.n_samples));
}

// The prompt's event comes first, but one that was never processed has none.
void ApiUsage::count(size_t prompt_idx, const Event& event) {
  n_completion_ += static_cast<int64_t>(event.tokens.size());
  if (!thoughts_.empty()) {
    ThoughtCount& thoughts = thoughts_.at(static_cast<size_t>(event.choice_idx));
    for (const TokenInfo& token : event.tokens) {
      if (!thoughts.is_over()) thoughts.take(texts_(token.id, false).bytes);
    }
  }
  const bool tells_prompt = event.kind == Event::Kind::kPrompt || event.kind == Event::Kind::kDone;
  if (!tells_prompt || is_counted_[prompt_idx]) return;
  is_counted_[prompt_idx] = true;
  n_prompt_ += event.n_prompt_tokens;
  n_cached_ += event.n_cached_tokens;
}

void ApiUsage::begin_inside() {
  for (ThoughtCount& thoughts : thoughts_) thoughts.begin_inside();
}

int64_t ApiUsage::n_reasoning() const {
  int64_t n = 0;
  for (const ThoughtCount& thoughts : thoughts_) n += thoughts.n();
  return n;
}

Json ApiUsage::json() const {
  Json json{{"prompt_tokens", n_prompt_},
            {"completion_tokens", n_completion_},
            {"total_tokens", n_prompt_ + n_completion_},
            {"prompt_tokens_details", {{"cached_tokens", n_cached_}}}};
  if (const int64_t n = n_reasoning(); n > 0) json["completion_tokens_details"] = {{"reasoning_tokens", n}};
  return json;
}

Json ApiUsage::response_json() const {
  return {{"input_tokens", n_prompt_},
          {"input_tokens_details", {{"cached_tokens", n_cached_}, {"cache_write_tokens", 0}}},
          {"output_tokens", n_completion_},
          {"output_tokens_details", {{"reasoning_tokens", n_reasoning()}}},
          {"total_tokens", n_prompt_ + n_completion_}};
}

WholeAnswer::WholeAnswer(const ApiShape& shape, ApiHead head, const TokenTextOf& texts)
    : shape_(shape), head_(std::move(head)), texts_(texts), usage_(shape, texts) {
  const Sample sample{.logprobs = ApiLogprobs(shape_.endpoint, shape_.n_top, texts)};
  samples_.assign(shape_.n_prompts, std::vector<Sample>(static_cast<size_t>(shape_.n_samples), sample));
}

void WholeAnswer::echo(size_t prompt_idx, const Event& event) {
  const std::string text = echoed_text(shape_, prompt_idx, event, texts_);
  for (Sample& sample : samples_[prompt_idx]) {
    sample.text = text;
    if (shape_.has_logprobs) sample.logprobs.add_prompt(event, text);
  }
}

void WholeAnswer::take(size_t prompt_idx, const Event& event) {
  usage_.count(prompt_idx, event);
  if (event.kind == Event::Kind::kPrompt) {
    const bool at_start = shape_.has_logprobs && begins_text(event, texts_);
    for (Sample& sample : samples_[prompt_idx]) sample.logprobs.begin(at_start);
    is_thinking_ = begins_inside(shape_, event, texts_);
    if (is_thinking_) usage_.begin_inside();
    if (shape_.has_echo) echo(prompt_idx, event);
  }
  if (event.kind == Event::Kind::kDone && !event.error.ok()) error_ = event.error;
  if (event.kind != Event::Kind::kTokens && event.kind != Event::Kind::kFinished) return;
  Sample& sample = samples_[prompt_idx].at(static_cast<size_t>(event.choice_idx));
  sample.text += event.text;
  sample.n_tokens += static_cast<int64_t>(event.tokens.size());
  for (const TokenInfo& token : event.tokens) sample.sum_logprob += static_cast<double>(token.logprob);
  if (shape_.has_logprobs) sample.logprobs.add(event);
  if (event.kind != Event::Kind::kFinished) return;
  sample.reason = event.finish_reason;
  if (has_failed(event) && error_.ok()) error_ = error_of(event.finish_reason, event.error);
}

// In their order; the best first where not all are wanted.
std::vector<WholeAnswer::Sample*> WholeAnswer::answered(size_t prompt_idx) {
  std::vector<Sample*> all;
  for (Sample& sample : samples_[prompt_idx]) all.push_back(&sample);
  const auto n_wanted = static_cast<size_t>(shape_.n_choices);
  if (n_wanted >= all.size()) return all;
  std::ranges::sort(all, is_better, [&](const Sample* sample) {
    SampleRank rank{sample->reason, std::nullopt, static_cast<int>(sample - samples_[prompt_idx].data())};
    if (sample->n_tokens > 0) rank.mean_logprob = sample->sum_logprob / static_cast<double>(sample->n_tokens);
    return rank;
  });
  all.resize(n_wanted);
  return all;
}

AnswerPiece WholeAnswer::parts_of(const std::string& text) const {
  AnswerReader reader(shape_);
  if (is_thinking_) reader.begin_inside();
  return reader.take(text, /*is_end=*/true);
}

Json WholeAnswer::message_json(size_t choice_idx, const std::string& text) const {
  AnswerPiece piece = parts_of(text);
  const std::vector<ToolCall>& calls = piece.answer.calls;
  Json message{{"role", "assistant"}, {"content", std::move(piece.answer.text)}, {"refusal", nullptr}};
  if (!piece.reasoning.empty()) message["reasoning_content"] = std::move(piece.reasoning);
  if (calls.empty()) return message;
  if (message["content"] == "") message["content"] = nullptr;
  for (size_t i = 0; i < calls.size(); ++i) message["tool_calls"].push_back(call_json(head_, choice_idx, i, calls[i]));
  return message;
}

bool WholeAnswer::lacks_time() const {
  const auto lacks = [](const Sample& sample) {
    return sample.reason == FinishReason::kDeadline && sample.n_tokens == 0;
  };
  return std::ranges::any_of(samples_, [&](const auto& samples) { return std::ranges::any_of(samples, lacks); });
}

Result<std::string> WholeAnswer::finish() {
  BASS_RETURN_IF_ERROR(error_);
  if (shape_.endpoint == ApiEndpoint::kResponse) return response();
  Json choices = Json::array();
  for (size_t i = 0; i < samples_.size(); ++i) {
    for (Sample* sample : answered(i)) {
      Json choice{{"index", choices.size()}};
      size_t n_calls = 0;
      if (shape_.endpoint == ApiEndpoint::kChat) {
        choice["message"] = message_json(choices.size(), sample->text);
        n_calls = choice["message"].contains("tool_calls") ? choice["message"]["tool_calls"].size() : 0;
      } else {
        choice["text"] = std::move(sample->text);
      }
      choice["logprobs"] = shape_.has_logprobs ? sample->logprobs.take() : Json();
      choice["finish_reason"] = finish_reason(shape_, sample->reason, n_calls);
      choices.push_back(std::move(choice));
    }
  }
  const bool is_chat = shape_.endpoint == ApiEndpoint::kChat;
  return json_line({{"id", head_.id},
                    {"object", is_chat ? "chat.completion" : "text_completion"},
                    {"created", head_.created_s},
                    {"model", head_.model},
                    {"choices", std::move(choices)},
                    {"usage", usage_.json()}});
}

std::string WholeAnswer::response() {
  Sample* sample = answered(0).front();
  const ResponseState state = state_of(sample->reason);
  ResponseItems items(head_.id);
  ResponseItems::Events events;
  const Json logprobs = shape_.has_logprobs ? sample->logprobs.take()["content"] : Json::array();
  items.take(parts_of(sample->text), logprobs, &events);
  items.finish(state != ResponseState::kDone, &events);
  return json_line(ResponseObject(head_, shape_.repeated).json(state, items.output(), usage_.response_json()));
}

StreamedAnswer::StreamedAnswer(const ApiShape& shape, ApiHead head, const TokenTextOf& texts)
    : shape_(shape), head_(std::move(head)), texts_(texts), usage_(shape, texts) {
  const size_t n_choices = shape_.n_prompts * static_cast<size_t>(shape_.n_choices);
  choices_.assign(n_choices, {ApiLogprobs(shape_.endpoint, shape_.n_top, texts), AnswerReader(shape_)});
  if (shape_.endpoint == ApiEndpoint::kResponse) response_.emplace(ResponseObject(head_, shape_.repeated));
}

Json StreamedAnswer::head_json() const {
  const bool is_chat = shape_.endpoint == ApiEndpoint::kChat;
  Json json{{"id", head_.id},
            {"object", is_chat ? "chat.completion.chunk" : "text_completion"},
            {"created", head_.created_s},
            {"model", head_.model}};
  json["choices"] = Json::array();
  if (shape_.has_usage) json["usage"] = nullptr;
  return json;
}

Json StreamedAnswer::choice_json(size_t index, const AnswerPiece& piece, const Event& event) {
  Choice& choice = choices_.at(index);
  Json json{{"index", index}};
  if (shape_.endpoint == ApiEndpoint::kChat) {
    Json delta = Json::object();
    if (!choice.has_begun) delta["role"] = "assistant";
    if (!choice.has_begun || !piece.answer.text.empty()) delta["content"] = piece.answer.text;
    if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
    for (const ToolCall& call : piece.answer.calls) {
      Json one{{"index", choice.n_calls}};
      one.update(call_json(head_, index, choice.n_calls++, call));
      delta["tool_calls"].push_back(std::move(one));
    }
    json["delta"] = std::move(delta);
  } else {
    json["text"] = piece.answer.text;
  }
  choice.has_begun = true;
  json["logprobs"] = nullptr;
  if (shape_.has_logprobs && !event.tokens.empty()) {
    choice.logprobs.add(event);
    json["logprobs"] = choice.logprobs.take();
  }
  const bool has_ended = event.kind == Event::Kind::kFinished;
  json["finish_reason"] = has_ended ? finish_reason(shape_, event.finish_reason, choice.n_calls) : Json();
  return json;
}

std::string StreamedAnswer::chunk(Json choice) const {
  Json json = head_json();
  json["choices"].push_back(std::move(choice));
  if (shape_.has_running_usage) json["usage"] = usage_.json();
  return server_sent_event(json);
}

// A piece of each of the prompt's choices.
std::string StreamedAnswer::echo(size_t prompt_idx, const Event& event) {
  const std::string text = echoed_text(shape_, prompt_idx, event, texts_);
  std::string chunks;
  for (size_t i = 0; i < static_cast<size_t>(shape_.n_choices); ++i) {
    const size_t index = prompt_idx * static_cast<size_t>(shape_.n_choices) + i;
    Choice& choice = choices_.at(index);
    choice.has_begun = true;
    if (shape_.has_logprobs) choice.logprobs.add_prompt(event, text);
    chunks += chunk({{"index", index},
                     {"text", text},
                     {"logprobs", shape_.has_logprobs ? choice.logprobs.take() : Json()},
                     {"finish_reason", nullptr}});
  }
  return chunks;
}

Result<std::string> StreamedAnswer::take(size_t prompt_idx, const Event& event) {
  usage_.count(prompt_idx, event);
  if (event.kind == Event::Kind::kDone && !event.error.ok()) return event.error;
  if (event.kind == Event::Kind::kPrompt) {
    const bool at_start = shape_.has_logprobs && begins_text(event, texts_);
    const bool is_thinking = begins_inside(shape_, event, texts_);
    if (is_thinking) usage_.begin_inside();
    for (Choice& choice : choices_of(prompt_idx)) {
      choice.logprobs.begin(at_start);
      if (is_thinking) choice.reader.begin_inside();
    }
    if (response_) return response_->begin();
    return shape_.has_echo ? echo(prompt_idx, event) : std::string();
  }
  if (event.kind != Event::Kind::kTokens && event.kind != Event::Kind::kFinished) return std::string();
  if (has_failed(event)) return error_of(event.finish_reason, event.error);
  const size_t index = prompt_idx * static_cast<size_t>(shape_.n_choices) + static_cast<size_t>(event.choice_idx);
  const bool is_end = event.kind == Event::Kind::kFinished;
  const AnswerPiece piece = choices_.at(index).reader.take(event.text, is_end);
  if (response_) return response_events(&choices_.at(index), piece, event);
  if (!is_end && piece.empty() && !shape_.has_logprobs) return std::string();
  Json choice = choice_json(index, piece, event);
  if (piece.answer.calls.empty() || choice["finish_reason"].is_null()) return chunk(std::move(choice));
  // Clients look for the reason in a chunk that has nothing else.
  Json end{{"index", index}, {"delta", Json::object()}, {"logprobs", nullptr}};
  end["finish_reason"] = std::exchange(choice["finish_reason"], nullptr);
  return chunk(std::move(choice)) + chunk(std::move(end));
}

std::string StreamedAnswer::response_events(Choice* choice, const AnswerPiece& piece, const Event& event) {
  if (shape_.has_logprobs) choice->logprobs.add(event);
  std::string events;
  const bool is_end = event.kind == Event::Kind::kFinished;
  if (!piece.empty() || is_end) {
    const Json logprobs = shape_.has_logprobs ? choice->logprobs.take()["content"] : Json::array();
    events = response_->take(piece, logprobs);
  }
  if (is_end) events += response_->finish(event.finish_reason);
  return events;
}

std::string StreamedAnswer::failure(const Status& error) {
  return response_ ? response_->fail(error.message()) : std::string();
}

std::string StreamedAnswer::end() {
  if (response_) return response_->end(usage_.response_json());
  std::string text;
  if (shape_.has_usage) {
    Json chunk = head_json();
    chunk["usage"] = usage_.json();
    text = server_sent_event(chunk);
  }
  return text + "data: [DONE]\n\n";
}

}  // namespace bass
