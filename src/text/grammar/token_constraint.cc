#include "text/grammar/token_constraint.h"

#include <algorithm>

namespace bass {
namespace {

constexpr size_t kMaxMaskBytes = size_t{64} << 20;

size_t shared_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

void set_bit(std::vector<uint32_t>* words, TokenId id) {
  (*words)[static_cast<size_t>(id / TokenConstraint::kWordBits)] |= 1u << id % TokenConstraint::kWordBits;
}

}  // namespace

TokenTexts::TokenTexts(const Tokenizer& tokenizer, int n_tokens)
    : bytes_(static_cast<size_t>(n_tokens)),
      end_ids_(tokenizer.end_ids().begin(), tokenizer.end_ids().end()),
      n_tokens_(n_tokens) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < std::min(n_tokens, tokenizer.vocab_size()); ++id) {
    const std::string& text = tokenizer.token_bytes(id);
    if (tokenizer.is_control(id) || tokenizer.is_end(id) || text.empty()) continue;
    bytes_[static_cast<size_t>(id)] = text;
    max_len_ = std::max(max_len_, text.size());
    ids.push_back(id);
  }
  std::ranges::sort(ids, {}, [this](TokenId id) { return std::pair(bytes(id), id); });
  std::string_view before;
  for (const TokenId id : ids) {
    const size_t n_shared = shared_prefix(before, bytes(id));
    before = bytes(id);
    entries_.push_back({id, static_cast<uint32_t>(n_shared), static_cast<uint32_t>(before.size() - n_shared)});
    own_bytes_.insert(own_bytes_.end(), before.begin() + static_cast<ptrdiff_t>(n_shared), before.end());
  }
}

const uint32_t* TokenConstraint::allowed(State state) noexcept try {
  const std::lock_guard lock(mutex_);
  return mask(state).words.data();
} catch (...) {  // memory is wanting
  return nothing_.data();
}

const TokenConstraint::Mask& TokenConstraint::mask(State state) {
  const auto known = masks_.find(state);
  return known != masks_.end() ? known->second : masks_.emplace(state, make_mask(state)).first->second;
}

// A mask that lacks what there was no room for would change what is drawn: it allows nothing, so that the sample ends.
TokenConstraint::Mask TokenConstraint::make_mask(State state) {
  Mask mask;
  mask.words.assign(n_words(), 0);
  automaton_.allow_work();
  allow_texts(state, &mask);
  if (automaton_.is_full()) {
    mask = {nothing_};
    return mask;
  }
  if (!automaton_.is_accepting(state)) return mask;
  for (const TokenId id : texts_->end_ids()) set_bit(&mask.words, id);
  mask.has_end = !texts_->end_ids().empty();
  return mask;
}

// Tokens come in the order of their bytes: what a token has in common with the one before is not read again.
void TokenConstraint::allow_texts(State state, Mask* mask) {
  path_.resize(texts_->max_len() + 1);
  State* path = path_.data();  // behind the first bytes of the last token that was followed, as far as it was alive
  path[0] = state;
  size_t n_alive = 0;  // bytes
  const uint8_t* own = texts_->own_bytes();
  for (const TokenTexts::Entry& entry : texts_->entries()) {
    const uint8_t* bytes = own;
    own += entry.n_own;
    if (entry.n_shared > n_alive) continue;  // it ended within what both have in common
    n_alive = entry.n_shared;
    const size_t len = entry.n_shared + entry.n_own;
    for (State at = path[n_alive]; n_alive < len; path[++n_alive] = at) {
      at = automaton_.next(at, bytes[n_alive - entry.n_shared]);
      if (at == kDead) break;
    }
    if (n_alive < len) continue;
    set_bit(&mask->words, entry.id);
    mask->has_text = true;
  }
}

TokenConstraint::State TokenConstraint::next(State state, TokenId token) noexcept try {
  const std::string_view bytes = texts_->bytes(token);
  if (bytes.empty()) return kDead;
  const std::lock_guard lock(mutex_);
  automaton_.allow_work();
  for (const char byte : bytes) {
    if (state == kDead) break;
    state = automaton_.next(state, static_cast<uint8_t>(byte));
  }
  return state;
} catch (...) {
  return kDead;
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
  const std::lock_guard lock(mutex_);
  return state != kDead && automaton_.is_final(state);
}

std::string TokenConstraint::why_stuck(State state, bool may_end) {
  const std::lock_guard lock(mutex_);
  if (state == kDead) return {};
  const auto known = masks_.find(state);
  if (known != masks_.end() && (known->second.has_text || (may_end && known->second.has_end))) return {};
  if (known == masks_.end() || automaton_.is_full()) {
    return "the grammar leaves too many possibilities to be followed here; make it simpler: alternatives that differ "
           "sooner, repetitions with lower bounds";
  }
  return "no token of the model can go on as the grammar wants it: its vocabulary lacks bytes, or no token ends a text";
}

bool TokenConstraint::is_worn() noexcept {
  const std::lock_guard lock(mutex_);
  return automaton_.is_worn();
}

void TokenConstraint::trim() {
  if (masks_.size() * n_words() * sizeof(uint32_t) > kMaxMaskBytes) masks_.clear();
}

}  // namespace bass
