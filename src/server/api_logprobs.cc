#include "server/api_logprobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

// Characters, not bytes: what a client's strings count. One that several tokens spell counts with the first of them.
int64_t n_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

/// A completion's word for a token: parts of characters, which look alike as text, by their bytes (as OpenAI's API had
/// them).
std::string completion_token(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

}  // namespace

TokenTextOf token_texts(const Engine* engine) {
  return [engine](TokenId id, bool at_start) {
    Result<TokenText> text = engine->token_text(id, at_start);
    return text.ok() ? std::move(text).value() : TokenText();
  };
}

void ApiLogprobs::add(const Event& event) {
  for (size_t i = 0; i < event.tokens.size(); ++i) {
    const TokenInfo& token = event.tokens[i];
    const Entry entry{token.id, token.logprob, std::span(event.top_logprobs).subspan(i * n_top_, n_top_), at_start_};
    const TokenText text = texts_(token.id, at_start_);
    if (endpoint_ != ApiEndpoint::kCompletion) {
      add_to_chat(entry, text);
    } else {
      add_to_completion(entry, text);
    }
    if (text.is_special) continue;
    n_chars_ += n_code_points(text.bytes);
    at_start_ = text.at_start;
  }
}

// What begins or ends texts of this vocabulary is among the tokens, but not in a text that was sent.
void ApiLogprobs::add_prompt(const Event& event, std::string_view echoed) {
  Entry entry{.at_start = true};
  for (size_t i = 0; i < event.prompt_tokens.size(); ++i) {
    entry.id = event.prompt_tokens[i];
    if (i > 0) {
      entry.logprob = event.prompt_logprobs[i - 1];
      entry.top = std::span(event.top_logprobs).subspan((i - 1) * n_top_, n_top_);
    }
    const TokenText text = texts_(entry.id, entry.at_start);
    add_to_completion(entry, text);
    if (text.is_special && !echoed.starts_with(text.bytes)) continue;
    entry.at_start = text.at_start;
    n_chars_ += n_code_points(text.bytes);
    echoed.remove_prefix(std::min(echoed.size(), text.bytes.size()));
  }
}

void ApiLogprobs::add_to_chat(const Entry& entry, const TokenText& text) {
  const auto json = [](const std::string& bytes, float logprob) {
    const std::vector<uint8_t> numbers(bytes.begin(), bytes.end());
    return Json{{"token", to_valid_utf8(bytes)}, {"logprob", logprob}, {"bytes", numbers}};
  };
  Json alternatives = Json::array();
  for (const TopLogprob& one : entry.top) {
    if (one.id >= 0) alternatives.push_back(json(texts_(one.id, entry.at_start).bytes, one.logprob));
  }
  Json own = json(text.bytes, *entry.logprob);
  own["top_logprobs"] = std::move(alternatives);
  entries_.push_back(std::move(own));
}

// The token itself is among its alternatives, however improbable it is; of two that look alike the first one counts.
void ApiLogprobs::add_to_completion(const Entry& entry, const TokenText& text) {
  const std::string token = completion_token(text.bytes);
  entries_.push_back(token);
  token_logprobs_.push_back(entry.logprob ? Json(*entry.logprob) : Json());
  offsets_.push_back(n_chars_);
  if (n_top_ == 0) return;
  Json alternatives = entry.logprob ? Json::object() : Json();
  for (const TopLogprob& one : entry.top) {
    if (one.id >= 0) alternatives.emplace(completion_token(texts_(one.id, entry.at_start).bytes), one.logprob);
  }
  if (entry.logprob) alternatives.emplace(token, *entry.logprob);
  top_.push_back(std::move(alternatives));
}

Json ApiLogprobs::take() {
  Json logprobs;
  if (endpoint_ != ApiEndpoint::kCompletion) {
    logprobs = {{"content", std::move(entries_)}, {"refusal", nullptr}};
  } else {
    logprobs = {{"tokens", std::move(entries_)},
                {"token_logprobs", std::move(token_logprobs_)},
                {"top_logprobs", n_top_ > 0 ? std::move(top_) : Json()},
                {"text_offset", std::move(offsets_)}};
  }
  entries_ = token_logprobs_ = top_ = offsets_ = Json::array();
  return logprobs;
}

}  // namespace bass
