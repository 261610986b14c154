#include "text/grammar/token_constraint.h"

#include <fmt/format.h>

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
  for (TokenId id = 0; id < std::min(n_tokens, tokenizer.vocab_size()); ++id) {
    if (tokenizer.is_control(id) || tokenizer.is_end(id) || tokenizer.token_bytes(id).empty()) continue;
    bytes_[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
    entries_.push_back({tokenizer.token_bytes(id), id, 0});
  }
  std::ranges::sort(entries_, {}, [](const Entry& entry) { return std::pair(entry.bytes, entry.id); });
  for (size_t i = 1; i < entries_.size(); ++i) {
    entries_[i].n_shared = shared_prefix(entries_[i - 1].bytes, entries_[i].bytes);
  }
}

const uint32_t* TokenConstraint::allowed(State state) {
  const std::lock_guard lock(mutex_);
  return mask(state).words.data();
}

const TokenConstraint::Mask& TokenConstraint::mask(State state) {
  const auto [known, is_new] = masks_.try_emplace(state);
  if (is_new) fill(state, &known->second);
  return known->second;
}

// Tokens come in the order of their bytes: what a token has in common with the one before is not read again.
void TokenConstraint::fill(State state, Mask* mask) {
  mask->words.assign(static_cast<size_t>((texts_->n_tokens() + kWordBits - 1) / kWordBits), 0);
  path_.assign(1, state);
  for (const TokenTexts::Entry& entry : texts_->entries()) {
    // path_: the states behind the first bytes of the entry before, as far as it was alive.
    if (entry.n_shared >= path_.size()) continue;  // it ended within what both have in common
    path_.resize(entry.n_shared + 1);
    for (size_t i = entry.n_shared; i < entry.bytes.size(); ++i) {
      const State next = automaton_.next(path_.back(), static_cast<uint8_t>(entry.bytes[i]));
      if (next == kDead) break;
      path_.push_back(next);
    }
    if (path_.size() <= entry.bytes.size()) continue;
    set_bit(&mask->words, entry.id);
    mask->is_empty = false;
  }
  if (!automaton_.is_accepting(state)) return;
  for (const TokenId id : texts_->end_ids()) {
    set_bit(&mask->words, id);
    mask->is_empty = false;
  }
}

TokenConstraint::State TokenConstraint::next(State state, TokenId token) {
  const std::string_view bytes = texts_->bytes(token);
  if (bytes.empty()) return kDead;
  const std::lock_guard lock(mutex_);
  for (const char byte : bytes) {
    if (state == kDead) break;
    state = automaton_.next(state, static_cast<uint8_t>(byte));
  }
  return state;
}

size_t TokenConstraint::n_allowed_of(State state, std::span<const TokenId> tokens) {
  size_t n = 0;
  for (; n < tokens.size(); ++n) {
    state = next(state, tokens[n]);
    if (state == kDead) break;
  }
  return n;
}

bool TokenConstraint::is_complete(State state) {
  const std::lock_guard lock(mutex_);
  return state != kDead && automaton_.is_final(state);
}

std::string TokenConstraint::why_stuck(State state) {
  const std::lock_guard lock(mutex_);
  if (state == kDead) return "the answer left its grammar";
  if (!mask(state).is_empty) return {};
  if (automaton_.is_full()) {
    return fmt::format(
        "the grammar has more than {} states that this answer met; make it simpler, or its repetitions "
        "shorter",
        GrammarAutomaton::kMaxStates);
  }
  return "no token of the model can go on as the grammar wants it: its vocabulary lacks bytes, or the model has no "
         "token "
         "that ends a text";
}

void TokenConstraint::trim() {
  if (masks_.size() * static_cast<size_t>(texts_->n_tokens()) / 8 > kMaxMaskBytes) masks_.clear();
}

}  // namespace bass
