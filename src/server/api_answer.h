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
#include "server/api_call.h"
#include "server/api_logprobs.h"
#include "server/reasoning.h"
#include "server/tool_calls.h"

namespace bass {

/// What all objects of an answer have in common.
struct ApiHead {
  std::string id;
  int64_t created_s = 0;  ///< seconds since 1970
  std::string model;
};

/// Tokens of a call, as far as is known.
class ApiUsage {
 public:
  explicit ApiUsage(size_t n_prompts) : is_counted_(n_prompts) {}
  /// Of the call's `prompt_idx`-th request.
  void count(size_t prompt_idx, const Event& event);
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  std::vector<bool> is_counted_;  // of each prompt: it was
  int64_t n_prompt_ = 0;
  int64_t n_cached_ = 0;      // of these
  int64_t n_completion_ = 0;  // of all samples, also those that are not answered
};

/// What is known of a choice: thoughts, text, and what was called.
struct AnswerPiece {
  std::string reasoning;
  ToolCallReader::Piece answer;
  [[nodiscard]] bool empty() const { return reasoning.empty() && answer.text.empty() && answer.calls.empty(); }
};

/// Tells these apart while a choice's text comes.
class AnswerReader {
 public:
  explicit AnswerReader(const ApiShape& shape) : reasoning_(shape.parts_reasoning), calls_(shape.tools) {}
  /// The prompt ends where thoughts begin.
  void begin_inside() { reasoning_.begin_inside(); }
  /// What is certain once `text` has come too. is_end: nothing follows
  AnswerPiece take(std::string_view text, bool is_end);

 private:
  ReasoningReader reasoning_;
  ToolCallReader calls_;
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
  [[nodiscard]] std::string end() const;

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

  ApiShape shape_;
  ApiHead head_;
  TokenTextOf texts_;
  ApiUsage usage_;
  std::vector<Choice> choices_;
};

/// An object as a server-sent event.
std::string server_sent_event(const nlohmann::ordered_json& object);

}  // namespace bass
