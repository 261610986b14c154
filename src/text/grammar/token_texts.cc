#include "text/grammar/token_texts.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace bass {
namespace {

constexpr std::array<size_t, 5> kSplitLens{4, 8, 12, 16, TokenTexts::kMaxSplitLen};
constexpr size_t kMaxSplits = 64;  // of some hundred KiB each

size_t shared_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Of each entry the next one that shares no more, from the end on.
void link(std::vector<TokenList::Entry>* entries) {
  for (size_t i = entries->size(); i-- > 0;) {
    auto next = static_cast<uint32_t>(i + 1);
    while (next < entries->size() && (*entries)[next].n_shared > (*entries)[i].n_shared) next = (*entries)[next].next;
    (*entries)[i].next = next;
  }
}

}  // namespace

TokenTexts::TokenTexts(const Tokenizer& tokenizer, int n_tokens)
    : bytes_(static_cast<size_t>(n_tokens)),
      end_ids_(tokenizer.end_ids().begin(), tokenizer.end_ids().end()),
      n_tokens_(n_tokens) {
  for (TokenId id = 0; id < std::min(n_tokens, tokenizer.vocab_size()); ++id) {
    const std::string& text = tokenizer.token_bytes(id);
    if (tokenizer.is_control(id) || tokenizer.is_end(id) || text.empty()) continue;
    bytes_[static_cast<size_t>(id)] = text;
    max_len_ = std::max(max_len_, text.size());
    ordered_.push_back(id);
  }
  std::ranges::sort(ordered_, {}, [this](TokenId id) { return std::pair(bytes(id), id); });
  all_ = list(ordered_);
}

TokenList TokenTexts::list(const std::vector<TokenId>& ids) const {
  TokenList list;
  std::string_view before;
  for (const TokenId id : ids) {
    const size_t n_shared = shared_prefix(before, bytes(id));
    before = bytes(id);
    list.entries.push_back({.id = id,
                            .n_shared = static_cast<uint32_t>(n_shared),
                            .n_own = static_cast<uint32_t>(before.size() - n_shared),
                            .own_begin = static_cast<uint32_t>(list.own_bytes.size())});
    list.own_bytes.insert(list.own_bytes.end(), before.begin() + static_cast<ptrdiff_t>(n_shared), before.end());
  }
  link(&list.entries);
  return list;
}

std::shared_ptr<const TokenTexts::Split> TokenTexts::split(const ByteSet& made_of, size_t max_len) const {
  const auto rounded = std::ranges::upper_bound(kSplitLens, max_len);
  if (rounded == kSplitLens.begin() || made_of.count() < kMinSplitBytes) return nullptr;
  const size_t len = *(rounded - 1);
  const auto is_it = [&](const KnownSplit& known) { return known.max_len == len && known.made_of == made_of; };
  const std::lock_guard lock(mutex_);
  if (const auto known = std::ranges::find_if(splits_, is_it); known != splits_.end()) {
    splits_.splice(splits_.begin(), splits_, known);
  } else {
    splits_.push_front({made_of, len, make_split(made_of, len)});
    if (splits_.size() > kMaxSplits) splits_.pop_back();
  }
  return splits_.front().split;
}

std::shared_ptr<const TokenTexts::Split> TokenTexts::make_split(const ByteSet& made_of, size_t max_len) const {
  auto split = std::make_shared<Split>();
  split->made_of.assign(TokenMask::n_words(n_tokens_), 0);
  std::vector<TokenId> others;
  for (const TokenId id : ordered_) {
    const std::string_view text = bytes(id);
    const auto is_in = [&](char byte) { return made_of[static_cast<uint8_t>(byte)]; };
    if (text.size() <= max_len && std::ranges::all_of(text, is_in)) {
      TokenMask::set(&split->made_of, id);
    } else {
      others.push_back(id);
    }
  }
  if (4 * others.size() >= 3 * ordered_.size()) return nullptr;
  split->others = list(others);
  return split;
}

}  // namespace bass
