// Tokens and their log-probabilities as the API tells them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "bass/engine.h"
#include "server/api_call.h"

namespace bass {

/// Engine::token_text of a token that the engine has told of.
using TokenTextOf = std::function<TokenText(TokenId, bool at_start)>;
/// engine: must outlive the function
TokenTextOf token_texts(const Engine* engine);

/// Tokens with their log-probabilities, as a chat's or a completion's choice has them.
class ApiLogprobs {
 public:
  /// n_top: of Event::top_logprobs
  ApiLogprobs(ApiEndpoint endpoint, int n_top, TokenTextOf texts)
      : endpoint_(endpoint), n_top_(static_cast<size_t>(n_top)), texts_(std::move(texts)) {}
  /// Before anything is added. at_start: the prompt is no text, so that the answer begins one.
  void begin(bool at_start) { at_start_ = at_start; }
  void add(const Event& event);
  /// A completion's prompt, whose first token has no probability (Event::Kind::kPrompt), and how it is echoed.
  void add_prompt(const Event& event, std::string_view echoed);
  /// Those that were added since the last call.
  nlohmann::ordered_json take();

 private:
  /// A token in its place.
  struct Entry {
    TokenId id = 0;
    std::optional<float> logprob;
    std::span<const TopLogprob> top;
    bool at_start = false;
  };
  void add_to_chat(const Entry& entry, const TokenText& text);
  void add_to_completion(const Entry& entry, const TokenText& text);

  ApiEndpoint endpoint_;
  size_t n_top_;
  TokenTextOf texts_;
  nlohmann::ordered_json entries_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json token_logprobs_ = nlohmann::ordered_json::array();  // of a completion, as the next two
  nlohmann::ordered_json top_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json offsets_ = nlohmann::ordered_json::array();
  int64_t n_chars_ = 0;    // of the text so far
  bool at_start_ = false;  // the answer's text is the beginning of one, and has only begun
};

}  // namespace bass
