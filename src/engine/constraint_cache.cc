#include "engine/constraint_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/grammar/behind_thoughts.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace bass {
namespace {

Result<Grammar> make_grammar(const Request& request) {
  if (request.json_schema) return json_schema_grammar(*request.json_schema);
  GrammarBuilder builder;
  BASS_ASSIGN_OR_RETURN(const Grammar::Sequence root, regex_sequence(builder, *request.regex, RegexText::kPlain));
  return builder.finish(root);
}

}  // namespace

std::shared_ptr<TokenConstraint> ConstraintCache::find(const std::string& key) {
  const auto known = std::ranges::find(kept_, key, &Kept::key);
  if (known == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, known);
  return known->constraint;
}

Result<std::shared_ptr<TokenConstraint>> ConstraintCache::make(const Request& request, ThoughtsAhead thoughts) const {
  ThoughtBudget budget;
  if (request.thinking_budget) budget = {thoughts, static_cast<uint32_t>(*request.thinking_budget)};
  if (!has_grammar(request)) return std::make_shared<TokenConstraint>(texts_, budget);
  const std::string_view name = constraint_name(request);
  Result<Grammar> grammar = make_grammar(request);
  if (!grammar.ok()) {
    return Status(grammar.status().code(), fmt::format("{}: {}", name, grammar.status().message()));
  }
  auto constraint = std::make_shared<TokenConstraint>(grammar.value(), texts_);
  if (constraint->start() == TokenConstraint::kDead) {
    return invalid_argument(fmt::format("{}: no text fits it, or it leaves too many possibilities", name));
  }
  if (constraint->is_complete(constraint->start())) {
    return invalid_argument(fmt::format("{}: only the empty text fits it", name));
  }
  if (thoughts == ThoughtsAhead::kNone) return constraint;
  const Result<Grammar> both = behind_thoughts(std::move(grammar).value(), thoughts);
  if (!both.ok()) return Status(both.status().code(), fmt::format("{}: {}", name, both.status().message()));
  constraint = std::make_shared<TokenConstraint>(both.value(), texts_, budget);
  if (constraint->start() != TokenConstraint::kDead) return constraint;
  return invalid_argument(fmt::format("{}: it leaves too many possibilities behind thoughts", name));
}

Result<std::shared_ptr<TokenConstraint>> ConstraintCache::get(const Request& request, ThoughtsAhead thoughts) {
  std::string key = fmt::format("{} {} {} {}", constraint_name(request), static_cast<int>(thoughts),
                                request.thinking_budget.value_or(-1),
                                request.json_schema ? *request.json_schema : request.regex.value_or(""));
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<TokenConstraint> known = find(key); known != nullptr) return known;
    if (texts_ == nullptr) texts_ = std::make_shared<const TokenTexts>(tokenizer_, n_tokens_);
  }
  BASS_ASSIGN_OR_RETURN(std::shared_ptr<TokenConstraint> constraint, make(request, thoughts));
  const std::lock_guard lock(mutex_);
  if (std::shared_ptr<TokenConstraint> known = find(key); known != nullptr) return known;  // another call's, meanwhile
  kept_.push_front({std::move(key), constraint});
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return constraint;
}

}  // namespace bass
