// A conversation with one model: what was said, and the next answer.
#pragma once

#include <functional>
#include <string>

#include "bass/engine.h"

namespace bass {

struct Answer {
  FinishReason reason = FinishReason::kStop;
  bool is_context_full = false;  ///< with kLength: not max_tokens ended it
  int n_forgotten = 0;           ///< messages, the oldest ones, that the context had no room for
};

/// Gets the text of an answer as it comes, whole characters. False: nobody reads it, the answer may stop.
using Show = std::function<bool(const std::string&)>;

class Conversation {
 public:
  /// `request`: what every answer starts from; its system message is the first one. With a seed, answer j uses seed +
  /// j.
  Conversation(Engine* engine, Request request) : engine_(engine), request_(std::move(request)) {}

  /// Whether the model can chat at all, and the options fit it. Asked before the first message.
  [[nodiscard]] Status check() const;

  /// Answers a message. Ctrl-C stops the answer (kCancelled): what there is of it stays. Where the context has no room
  /// for the conversation and an answer, its oldest turns are forgotten, more of them than must be, so that what is
  /// left is not read anew with every message. Errors: what the engine refuses, as a message that the context cannot
  /// hold; then it is forgotten.
  Result<Answer> answer(const std::string& message, const Show& show);

  /// Forgets what was said; the system message stays.
  void reset() { turns_.clear(); }
  /// For the answers from now on; empty: none.
  void set_system(const std::string& text);

 private:
  [[nodiscard]] Request make_request() const;
  /// How many messages it forgot.
  [[nodiscard]] Result<int> make_room();
  /// Goes through a request's events up to its end. The text is what was shown.
  struct Followed {
    Event finished;
    std::string text;
    int n_tokens = 0;
  };
  Followed follow(RequestId id, EventQueue* events, const Show& show);

  Engine* engine_;
  Request request_;
  std::vector<ChatMessage> turns_;  // user, assistant, user, ...
  uint64_t n_answers_ = 0;
};

}  // namespace bass
