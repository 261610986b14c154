// What requests ask of their texts, made once for all requests that ask the same: they share what is allowed.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "bass/request.h"
#include "bass/status.h"
#include "text/grammar/token_constraint.h"
#include "text/thoughts.h"
#include "text/tokenizer.h"

namespace bass {

/// Whether all of an answer has to fit something.
inline bool has_grammar(const Request& request) { return request.json_schema || request.regex; }

/// The option that a request's constraint comes from.
inline std::string_view constraint_name(const Request& request) {
  return request.json_schema ? "json_schema" : request.regex ? "regex" : "thinking_budget";
}

/// Thread-safe. Keeps the ones that were asked for last.
class ConstraintCache {
 public:
  static constexpr size_t kMaxKept = 16;

  /// The tokenizer outlives this and all that `get` gives. n_tokens: ids of the model that exist
  ConstraintCache(const Tokenizer& tokenizer, int n_tokens) : tokenizer_(tokenizer), n_tokens_(n_tokens) {}

  /// What the request's json_schema or regex asks for, behind such thoughts, which end within its thinking_budget; it
  /// has one of these three. Errors (kInvalidArgument) name the option.
  Result<std::shared_ptr<TokenConstraint>> get(const Request& request, ThoughtsAhead thoughts);

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<TokenConstraint> constraint;
  };

  std::shared_ptr<TokenConstraint> find(const std::string& key);  // with the lock held; null: there is none to share
  [[nodiscard]] Result<std::shared_ptr<TokenConstraint>> make(const Request& request, ThoughtsAhead thoughts) const;

  const Tokenizer& tokenizer_;
  int n_tokens_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTexts> texts_;  // from the first request on
  std::list<Kept> kept_;                     // asked for last: in front
};

}  // namespace bass
