// Answers as OpenAI's Responses API has them: items of output, and the events that tell of them while they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bass/request.h"
#include "server/answer_piece.h"

namespace bass {

/// How an answer has ended, or that it has not.
enum class ResponseState : uint8_t { kRunning, kDone, kCutLength, kCutTime, kFailed };
ResponseState state_of(FinishReason reason);

/// What is told of an answer as a whole, at its beginning and at its end.
class ResponseObject {
 public:
  /// repeated: of the call (ResponseCall); none: nothing
  ResponseObject(ApiHead head, std::shared_ptr<const nlohmann::ordered_json> repeated)
      : head_(std::move(head)), repeated_(std::move(repeated)) {}
  /// usage: null while it is not known. error: of kFailed
  [[nodiscard]] nlohmann::ordered_json json(ResponseState state, nlohmann::ordered_json output,
                                            nlohmann::ordered_json usage, const std::string& error = "") const;
  [[nodiscard]] const std::string& id() const { return head_.id; }

 private:
  ApiHead head_;
  std::shared_ptr<const nlohmann::ordered_json> repeated_;
};

/// Thoughts, texts and calls of an answer, while they come, as items.
class ResponseItems {
 public:
  using Events = std::vector<nlohmann::ordered_json>;

  /// answer_id: items' ids are made of it
  explicit ResponseItems(std::string answer_id) : answer_id_(std::move(answer_id)) {}

  /// logprobs: of the tokens that have come since the last call, the list of a chat's "content". Text takes those that
  /// have come before it. events: gets what this adds
  void take(const AnswerPiece& piece, const nlohmann::ordered_json& logprobs, Events* events);
  /// Nothing follows. An answer that was not cut, and is no call, has a text, if only an empty one.
  void finish(bool is_cut, Events* events);
  /// The item that grows, if there is one, grows no more.
  void end(bool is_cut, Events* events);
  /// Those that have ended.
  [[nodiscard]] const nlohmann::ordered_json& output() const { return output_; }

 private:
  enum class Kind : uint8_t { kNone, kThoughts, kText, kCall };

  void add_answer(std::string_view text, Events* events);
  void add_text(Kind kind, std::string_view text, Events* events);
  void add_call(const ToolCall& call, Events* events);
  void begin(Kind kind, Events* events);
  [[nodiscard]] nlohmann::ordered_json item(const char* status, nlohmann::ordered_json content) const;
  [[nodiscard]] nlohmann::ordered_json part() const;
  [[nodiscard]] std::string item_id() const;
  [[nodiscard]] nlohmann::ordered_json event(const std::string& type) const;
  [[nodiscard]] std::string text_event(const char* what) const;

  std::string answer_id_;
  nlohmann::ordered_json output_ = nlohmann::ordered_json::array();
  Kind kind_ = Kind::kNone;  // of the item that grows
  std::string text_;         // its text, and the log-probabilities of that
  nlohmann::ordered_json logprobs_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json pending_logprobs_ = nlohmann::ordered_json::array();  // that no text has taken
  size_t n_calls_ = 0;
};

/// The server-sent events of one answer.
class ResponseStream {
 public:
  explicit ResponseStream(ResponseObject object);
  /// The events that come before all others, which otherwise come with the first of those. Once.
  std::string begin();
  std::string take(const AnswerPiece& piece, const nlohmann::ordered_json& logprobs);
  /// Behind the last piece.
  std::string finish(FinishReason reason);
  /// The last event, behind `finish`.
  std::string end(nlohmann::ordered_json usage);
  /// The last event instead, at any time.
  std::string fail(const std::string& error);

 private:
  std::string text_of(ResponseItems::Events events);

  ResponseObject object_;
  ResponseItems items_;
  ResponseState state_ = ResponseState::kRunning;
  int64_t n_sent_ = 0;
};

}  // namespace bass
