// From the engine's events to the objects of the OpenAI-compatible API (docs/server.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bass/request.h"
#include "server/api_call.h"

namespace bass {

/// What all objects of an answer have in common.
struct ApiHead {
  std::string id;
  int64_t created_s = 0;  ///< seconds since 1970
  std::string model;
};

/// The bytes of a token, which need not be valid UTF-8.
using TokenBytes = std::function<std::string(TokenId)>;

struct ApiUsage {
  int64_t n_prompt = 0;
  int64_t n_cached = 0;      // of these
  int64_t n_completion = 0;  ///< of all samples, also those that are not answered

  void count(const Event& event);
  [[nodiscard]] nlohmann::ordered_json json() const;
};

/// Tokens with their log-probabilities, as a chat's or a completion's choice has them.
class ApiLogprobs {
 public:
  ApiLogprobs(ApiEndpoint endpoint, TokenBytes bytes_of) : endpoint_(endpoint), bytes_of_(std::move(bytes_of)) {}
  void add(const std::vector<TokenInfo>& tokens);
  /// Those that were added since the last call.
  nlohmann::ordered_json take();

 private:
  ApiEndpoint endpoint_;
  TokenBytes bytes_of_;
  nlohmann::ordered_json entries_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json token_logprobs_ = nlohmann::ordered_json::array();  // of a completion, as the next
  nlohmann::ordered_json offsets_ = nlohmann::ordered_json::array();
  int64_t n_chars_ = 0;  // of all tokens so far
};

/// An answer that is sent when all is done.
class WholeAnswer {
 public:
  WholeAnswer(const ApiShape& shape, ApiHead head, const TokenBytes& bytes_of);
  /// An event of the call's `prompt_idx`-th request.
  void take(size_t prompt_idx, const Event& event);
  /// The answer's body. Error: a sample that failed or was cancelled, as the server ends.
  [[nodiscard]] Result<std::string> finish();

 private:
  struct Sample {
    std::string text;
    double sum_logprob = 0;
    int64_t n_tokens = 0;
    FinishReason reason = FinishReason::kCancelled;
    Status error;
    ApiLogprobs logprobs;
  };
  [[nodiscard]] std::vector<Sample*> answered(size_t prompt_idx);

  ApiShape shape_;
  ApiHead head_;
  ApiUsage usage_;
  std::vector<std::vector<Sample>> samples_;  // of each prompt
  Status error_;
};

/// An answer that is sent piece by piece, as server-sent events.
class StreamedAnswer {
 public:
  StreamedAnswer(const ApiShape& shape, ApiHead head, const TokenBytes& bytes_of);
  /// What an event adds to the stream; may be empty. Error: of a sample that failed or was cancelled.
  Result<std::string> take(size_t prompt_idx, const Event& event);
  /// The end of the stream, behind the last event.
  [[nodiscard]] std::string end() const;

 private:
  struct Choice {
    ApiLogprobs logprobs;
    bool has_begun = false;
  };
  [[nodiscard]] nlohmann::ordered_json head_json() const;
  nlohmann::ordered_json choice_json(size_t index, const Event& event);

  ApiShape shape_;
  ApiHead head_;
  ApiUsage usage_;
  std::vector<Choice> choices_;
};

/// An object as a server-sent event.
std::string server_sent_event(const nlohmann::ordered_json& object);

}  // namespace bass
