// From the engine's events to the objects of the OpenAI-compatible API (docs/server.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bass/engine.h"
#include "bass/request.h"
#include "server/answer_piece.h"
#include "server/api_call.h"
#include "server/api_logprobs.h"
#include "server/reasoning.h"
#include "server/response_answer.h"

namespace bass {

/// Tokens of a call, as far as is known.
class ApiUsage {
 public:
  ApiUsage(const ApiShape& shape, TokenTextOf texts);
  /// Of the call's `prompt_idx`-th request.
  void count(size_t prompt_idx, const Event& event);
  /// The prompt ends where thoughts begin.
  void begin_inside();
  /// As a chat or a completion tells them.
  [[nodiscard]] nlohmann::ordered_json json() const;
  /// As a response does.
  [[nodiscard]] nlohmann::ordered_json response_json() const;

 private:
  [[nodiscard]] int64_t n_reasoning() const;

  TokenTextOf texts_;
  std::vector<bool> is_counted_;        // of each prompt: it was
  std::vector<ThoughtCount> thoughts_;  // of each sample; none: there are no thoughts
  int64_t n_prompt_ = 0;
  int64_t n_cached_ = 0;      // of these
  int64_t n_completion_ = 0;  // of all samples, also those that are not answered
};

/// An answer that is sent when all is done.
class WholeAnswer {
 public:
  WholeAnswer(const ApiShape& shape, ApiHead head, const TokenTextOf& texts);
  /// An event of the call's `prompt_idx`-th request.
  void take(size_t prompt_idx, const Event& event);
  /// The answer's body. Error: a sample that failed or was cancelled, as the server ends.
  [[nodiscard]] Result<std::string> finish();
  /// A sample's time was up before it had a token.
  [[nodiscard]] bool lacks_time() const;

 private:
  struct Sample {
    std::string text;
    double sum_logprob = 0;
    int64_t n_tokens = 0;
    FinishReason reason = FinishReason::kCancelled;
    Status error;
    ApiLogprobs logprobs;
  };
  void echo(size_t prompt_idx, const Event& event);
  [[nodiscard]] std::vector<Sample*> answered(size_t prompt_idx);
  [[nodiscard]] AnswerPiece parts_of(const std::string& text) const;
  /// The answer of a response.
  std::string response();
  /// Of an assistant: its thoughts and text, and what it has called.
  [[nodiscard]] nlohmann::ordered_json message_json(size_t choice_idx, const std::string& text) const;

  ApiShape shape_;
  ApiHead head_;
  TokenTextOf texts_;
  ApiUsage usage_;
  std::vector<std::vector<Sample>> samples_;  // of each prompt
  bool is_thinking_ = false;                  // the chat's prompt ends where thoughts begin
  Status error_;
};

/// An answer that is sent piece by piece, as server-sent events.
class StreamedAnswer {
 public:
  StreamedAnswer(const ApiShape& shape, ApiHead head, const TokenTextOf& texts);
  /// What an event adds to the stream; may be empty. Error: of a sample that failed or was cancelled.
  Result<std::string> take(size_t prompt_idx, const Event& event);
  /// The end of the stream, behind the last event.
  [[nodiscard]] std::string end();
  /// What is sent before the error of a sample that failed.
  [[nodiscard]] std::string failure(const Status& error);

 private:
  struct Choice {
    ApiLogprobs logprobs;
    AnswerReader reader;
    size_t n_calls = 0;
    bool has_begun = false;
  };
  std::span<Choice> choices_of(size_t prompt_idx) {
    const auto n = static_cast<size_t>(shape_.n_choices);
    return std::span(choices_).subspan(prompt_idx * n, n);
  }
  [[nodiscard]] nlohmann::ordered_json head_json() const;
  [[nodiscard]] std::string chunk(nlohmann::ordered_json choice) const;
  nlohmann::ordered_json choice_json(size_t index, const AnswerPiece& piece, const Event& event);
  std::string echo(size_t prompt_idx, const Event& event);
  std::string response_events(Choice* choice, const AnswerPiece& piece, const Event& event);

  ApiShape shape_;
  ApiHead head_;
  TokenTextOf texts_;
  ApiUsage usage_;
  std::vector<Choice> choices_;
  std::optional<ResponseStream> response_;  // where it is one
};

}  // namespace bass
