#include "server/api_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "engine/ranking.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Characters, not bytes: what a client's strings count.
int64_t n_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

bool has_failed(const Event& event) {
  return event.kind == Event::Kind::kFinished &&
         (event.finish_reason == FinishReason::kError || event.finish_reason == FinishReason::kCancelled);
}

Status error_of(FinishReason reason, const Status& error) {
  if (!error.ok()) return error;
  return reason == FinishReason::kCancelled ? unavailable("the server is ending") : internal_error("a sample failed");
}

}  // namespace

void ApiUsage::count(const Event& event) {
  if (event.kind == Event::Kind::kDone) {
    n_prompt += event.n_prompt_tokens;
    n_cached += event.n_cached_tokens;
  }
  n_completion += static_cast<int64_t>(event.tokens.size());
}

Json ApiUsage::json() const {
  return {{"prompt_tokens", n_prompt},
          {"completion_tokens", n_completion},
          {"total_tokens", n_prompt + n_completion},
          {"prompt_tokens_details", {{"cached_tokens", n_cached}}}};
}

void ApiLogprobs::add(const std::vector<TokenInfo>& tokens) {
  for (const TokenInfo& token : tokens) {
    const std::string bytes = bytes_of_(token.id);
    const std::string text = to_valid_utf8(bytes);
    if (endpoint_ == ApiEndpoint::kChat) {
      const std::vector<uint8_t> numbers(bytes.begin(), bytes.end());
      entries_.push_back(
          {{"token", text}, {"logprob", token.logprob}, {"bytes", numbers}, {"top_logprobs", Json::array()}});
      continue;
    }
    entries_.push_back(text);
    token_logprobs_.push_back(token.logprob);
    offsets_.push_back(n_chars_);
    n_chars_ += n_code_points(text);
  }
}

Json ApiLogprobs::take() {
  Json logprobs;
  if (endpoint_ == ApiEndpoint::kChat) {
    logprobs = {{"content", std::move(entries_)}, {"refusal", nullptr}};
  } else {
    logprobs = {{"tokens", std::move(entries_)},
                {"token_logprobs", std::move(token_logprobs_)},
                {"top_logprobs", nullptr},
                {"text_offset", std::move(offsets_)}};
  }
  entries_ = token_logprobs_ = offsets_ = Json::array();
  return logprobs;
}

WholeAnswer::WholeAnswer(const ApiShape& shape, ApiHead head, const TokenBytes& bytes_of)
    : shape_(shape), head_(std::move(head)) {
  const Sample sample{.logprobs = ApiLogprobs(shape_.endpoint, bytes_of)};
  samples_.assign(shape_.n_prompts, std::vector<Sample>(static_cast<size_t>(shape_.n_samples), sample));
}

void WholeAnswer::take(size_t prompt_idx, const Event& event) {
  usage_.count(event);
  if (event.kind == Event::Kind::kDone && !event.error.ok()) error_ = event.error;
  if (event.kind != Event::Kind::kTokens && event.kind != Event::Kind::kFinished) return;
  Sample& sample = samples_[prompt_idx].at(static_cast<size_t>(event.choice_idx));
  sample.text += event.text;
  sample.n_tokens += static_cast<int64_t>(event.tokens.size());
  for (const TokenInfo& token : event.tokens) sample.sum_logprob += static_cast<double>(token.logprob);
  if (shape_.has_logprobs) sample.logprobs.add(event.tokens);
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

Result<std::string> WholeAnswer::finish() {
  BASS_RETURN_IF_ERROR(error_);
  Json choices = Json::array();
  for (size_t i = 0; i < samples_.size(); ++i) {
    for (Sample* sample : answered(i)) {
      Json choice{{"index", choices.size()}};
      if (shape_.endpoint == ApiEndpoint::kChat) {
        choice["message"] = {{"role", "assistant"}, {"content", std::move(sample->text)}, {"refusal", nullptr}};
      } else {
        choice["text"] = std::move(sample->text);
      }
      choice["logprobs"] = shape_.has_logprobs ? sample->logprobs.take() : Json();
      choice["finish_reason"] = to_string(sample->reason);
      choices.push_back(std::move(choice));
    }
  }
  const bool is_chat = shape_.endpoint == ApiEndpoint::kChat;
  return dump(Json{{"id", head_.id},
                   {"object", is_chat ? "chat.completion" : "text_completion"},
                   {"created", head_.created_s},
                   {"model", head_.model},
                   {"choices", std::move(choices)},
                   {"usage", usage_.json()}}) +
         "\n";
}

StreamedAnswer::StreamedAnswer(const ApiShape& shape, ApiHead head, const TokenBytes& bytes_of)
    : shape_(shape), head_(std::move(head)) {
  const size_t n_choices = shape_.n_prompts * static_cast<size_t>(shape_.n_choices);
  choices_.assign(n_choices, Choice{ApiLogprobs(shape_.endpoint, bytes_of)});
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

Json StreamedAnswer::choice_json(size_t index, const Event& event) {
  Choice& choice = choices_.at(index);
  Json json{{"index", index}};
  if (shape_.endpoint == ApiEndpoint::kChat) {
    Json delta = Json::object();
    if (!choice.has_begun) delta["role"] = "assistant";
    if (!choice.has_begun || !event.text.empty()) delta["content"] = event.text;
    json["delta"] = std::move(delta);
  } else {
    json["text"] = event.text;
  }
  choice.has_begun = true;
  json["logprobs"] = nullptr;
  if (shape_.has_logprobs && !event.tokens.empty()) {
    choice.logprobs.add(event.tokens);
    json["logprobs"] = choice.logprobs.take();
  }
  const bool has_ended = event.kind == Event::Kind::kFinished;
  json["finish_reason"] = has_ended ? Json(to_string(event.finish_reason)) : Json();
  return json;
}

Result<std::string> StreamedAnswer::take(size_t prompt_idx, const Event& event) {
  usage_.count(event);
  if (event.kind == Event::Kind::kDone && !event.error.ok()) return event.error;
  if (event.kind != Event::Kind::kTokens && event.kind != Event::Kind::kFinished) return std::string();
  if (has_failed(event)) return error_of(event.finish_reason, event.error);
  const bool says_nothing = event.kind == Event::Kind::kTokens && event.text.empty() && !shape_.has_logprobs;
  if (says_nothing) return std::string();
  Json chunk = head_json();
  const size_t index = prompt_idx * static_cast<size_t>(shape_.n_choices) + static_cast<size_t>(event.choice_idx);
  chunk["choices"].push_back(choice_json(index, event));
  return server_sent_event(chunk);
}

std::string StreamedAnswer::end() const {
  std::string text;
  if (shape_.has_usage) {
    Json chunk = head_json();
    chunk["usage"] = usage_.json();
    text = server_sent_event(chunk);
  }
  return text + "data: [DONE]\n\n";
}

std::string server_sent_event(const Json& object) { return fmt::format("data: {}\n\n", dump(object)); }

}  // namespace bass
