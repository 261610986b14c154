#include "text/grammar/token_constraint.h"

#include <algorithm>

namespace bass {
namespace {

constexpr size_t kMaxMaskBytes = size_t{64} << 20;

}  // namespace

TokenConstraint::State TokenConstraint::start() const {
  const TextState text = automaton_ ? automaton_->start() : kFreeText;
  return text == GrammarAutomaton::kDead ? kDead : State{text, thoughts_place(budget_.ahead)};
}

const uint32_t* TokenConstraint::allowed(State state) noexcept try {
  if (!automaton_ && !has_to_end(state.thoughts)) return nullptr;
  const std::lock_guard lock(mutex_);
  return mask(state).words.data();
} catch (...) {  // memory is wanting
  return nothing_.data();
}

const TokenConstraint::Mask& TokenConstraint::mask(State state) {
  const MaskKey key = key_of(state);
  const auto known = masks_.find(key);
  return known != masks_.end() ? known->second : masks_.emplace(key, make_mask(state)).first->second;
}

// A mask that lacks what there was no room for would change what is drawn: it allows nothing, so that the sample ends.
TokenConstraint::Mask TokenConstraint::make_mask(State state) {
  Mask mask;
  mask.words.assign(nothing_.size(), 0);
  if (automaton_) automaton_->allow_work();
  const bool is_end_due = has_to_end(state.thoughts);
  if (is_end_due) {
    allow_end_of_thoughts(state, &mask);
  } else {
    allow_texts(state.text, &mask);
  }
  if (automaton_ && automaton_->is_full()) {
    mask = {.words = nothing_, .was_too_much = true};
    has_failed_ = true;
    return mask;
  }
  if (is_end_due || !automaton_->is_accepting(state.text)) return mask;
  for (const TokenId id : texts_->end_ids()) TokenMask::set(&mask.words, id);
  mask.has_end = !texts_->end_ids().empty();
  return mask;
}

// The token that is what is wanting of the mark, if there is one: from that the model has learnt to go on. Else all
// that come nearer.
void TokenConstraint::allow_end_of_thoughts(State state, Mask* mask) {
  const std::string_view rest = rest_of_thoughts_end(state.thoughts);
  const auto allow_where = [&](auto fits) {
    for (TokenId id = 0; id < texts_->n_tokens(); ++id) {
      const std::string_view bytes = texts_->bytes(id);
      if (bytes.empty() || !fits(bytes) || behind(state.text, bytes) == GrammarAutomaton::kDead) continue;
      TokenMask::set(&mask->words, id);
      mask->has_text = true;
    }
  };
  allow_where([&](std::string_view bytes) { return bytes == rest; });
  if (mask->has_text) return;
  allow_where([&](std::string_view bytes) { return rest.starts_with(bytes) || bytes.starts_with(rest); });
}

// What is made of bytes that may come in any order needs no following: most tokens, inside a string.
void TokenConstraint::allow_texts(TextState state, Mask* mask) {
  const size_t max_len = std::min(texts_->max_len(), TokenTexts::kMaxSplitLen);
  const GrammarAutomaton::Run run = automaton_->find_run(state, TokenTexts::kMinSplitBytes, max_len);
  automaton_->allow_work();  // looking further than tokens go must not be what makes it too much
  const std::shared_ptr<const TokenTexts::Split> split = texts_->split(run.bytes, run.len);
  if (split == nullptr) return allow_texts(state, texts_->all(), mask);
  mask->words = split->made_of;
  mask->has_text = true;
  allow_texts(state, split->others, mask);
}

// Tokens come in the order of their bytes: what a token has in common with the one before is not read again.
void TokenConstraint::allow_texts(TextState state, const TokenList& tokens, Mask* mask) {
  path_.resize(texts_->max_len() + 1);
  TextState* path = path_.data();  // behind the first bytes of the last token that was followed, as far as it was alive
  path[0] = state;
  size_t n_alive = 0;  // bytes
  for (size_t i = 0; i < tokens.entries.size();) {
    const TokenList::Entry& entry = tokens.entries[i];
    if (entry.n_shared > n_alive) {  // it ended within what both have in common
      i = entry.next;
      continue;
    }
    n_alive = entry.n_shared;
    const uint8_t* bytes = tokens.own_bytes.data() + entry.own_begin;
    const size_t len = entry.n_shared + entry.n_own;
    for (TextState at = path[n_alive]; n_alive < len; path[++n_alive] = at) {
      at = automaton_->next(at, bytes[n_alive - entry.n_shared]);
      if (at == GrammarAutomaton::kDead) break;
    }
    if (n_alive == len) {
      TokenMask::set(&mask->words, entry.id);
      mask->has_text = true;
    }
    i = n_alive == entry.n_shared ? entry.next : i + 1;
  }
}

// What is no text stands in free texts alone.
TokenConstraint::State TokenConstraint::next(State state, TokenId token) noexcept try {
  const std::string_view bytes = texts_->bytes(token);
  const bool is_end_due = has_to_end(state.thoughts);
  if (state == kDead || (bytes.empty() && (automaton_ || is_end_due))) return kDead;
  const std::lock_guard lock(mutex_);
  if (is_end_due && !TokenMask::has(mask(state).words.data(), token)) return kDead;
  if (automaton_) automaton_->allow_work();
  const TextState text = behind(state.text, bytes);
  return text == GrammarAutomaton::kDead ? kDead : State{text, behind_token(state.thoughts, bytes)};
} catch (...) {
  return kDead;
}

TokenConstraint::TextState TokenConstraint::behind(TextState state, std::string_view bytes) {
  if (!automaton_) return state;
  for (const char byte : bytes) {
    if (state == GrammarAutomaton::kDead) break;
    state = automaton_->next(state, static_cast<uint8_t>(byte));
  }
  return state;
}

size_t TokenConstraint::n_allowed_of(State state, std::span<const TokenId> tokens) noexcept {
  size_t n = 0;
  for (; n < tokens.size(); ++n) {
    state = next(state, tokens[n]);
    if (state == kDead) break;
  }
  return n;
}

bool TokenConstraint::is_complete(State state) noexcept {
  if (!automaton_ || state == kDead) return false;
  const std::lock_guard lock(mutex_);
  return automaton_->is_final(state.text);
}

std::string TokenConstraint::why_stuck(State state, bool may_end) {
  const std::lock_guard lock(mutex_);
  if (state == kDead) return {};
  const auto known = masks_.find(key_of(state));
  if (known != masks_.end() && (known->second.has_text || (may_end && known->second.has_end))) return {};
  if (known == masks_.end() || known->second.was_too_much) {
    return "the grammar leaves too many possibilities to be followed here; make it simpler: alternatives that differ "
           "sooner, repetitions with lower bounds";
  }
  return "no token of the model can go on as the grammar wants it: its vocabulary lacks bytes, or no token ends a text";
}

// Without memory for forgetting, all stays as it is. A mask that was too much may be made the next time: what was in
// its way is gone, or is known.
void TokenConstraint::trim() noexcept try {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_failed_, false)) {
    std::erase_if(masks_, [](const auto& mask) { return mask.second.was_too_much; });
  }
  if (!automaton_) return;  // a mask for each byte of a mark
  const bool is_crowded = automaton_->is_crowded();
  const size_t max_masks = std::max(kMaxMaskBytes / (nothing_.size() * sizeof(uint32_t) + 1), 2 * n_masks_left_);
  if (is_crowded || masks_.size() > max_masks) {
    std::erase_if(masks_, [&](const auto& mask) { return !automaton_->is_held(mask.first.text); });
    n_masks_left_ = masks_.size();
  }
  if (is_crowded) automaton_->forget();
} catch (...) {
}

void TokenConstraint::hold(State state) noexcept {
  if (!automaton_ || state == kDead) return;
  const std::lock_guard lock(mutex_);
  automaton_->hold(state.text);
}

void TokenConstraint::release(State state) noexcept {
  if (!automaton_ || state == kDead) return;
  const std::lock_guard lock(mutex_);
  automaton_->release(state.text);
}

ConstraintPlace::ConstraintPlace(std::shared_ptr<TokenConstraint> constraint)
    : constraint_(std::move(constraint)), state_(constraint_->start()) {
  constraint_->hold(state_);
}

ConstraintPlace::~ConstraintPlace() {
  if (constraint_ != nullptr) constraint_->release(state_);
}

void ConstraintPlace::advance(TokenId token) noexcept {
  const State behind = constraint_->next(state_, token);
  constraint_->hold(behind);
  constraint_->release(state_);
  state_ = behind;
  if (constraint_->is_free(state_)) *this = ConstraintPlace();
}

}  // namespace bass
