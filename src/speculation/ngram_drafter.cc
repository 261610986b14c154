#include "speculation/ngram_drafter.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mix_bits.h"

namespace bass {
namespace {

constexpr size_t kInitialTableLen = 256;

}  // namespace

NgramIndex::NgramIndex(std::span<const TokenId> prompt, int n_samples, const NgramOptions& options)
    : options_(options),
      prompt_(prompt.begin(), prompt.end()),
      outputs_(static_cast<size_t>(n_samples)),
      table_(kInitialTableLen) {
  BASS_CHECK(options.min_order >= 1 && options.min_order <= options.max_order);
  BASS_CHECK(n_samples >= 1);
  // An n-gram is learnt when the token after it is known. Inside the prompt all samples have the same text.
  for (int end = 0; end + 1 < static_cast<int>(prompt_.size()); ++end) learn(0, end);
}

void NgramIndex::reserve(int sample_idx, int n_tokens) {
  std::vector<TokenId>& output = outputs_[static_cast<size_t>(sample_idx)];
  output.reserve(output.size() + static_cast<size_t>(n_tokens));
  n_expected_ = std::min(std::max(n_expected_, n_learnt_) + n_tokens, options_.max_tokens);
  const auto n_orders = static_cast<size_t>(options_.max_order - options_.min_order + 1);
  const size_t table_len = std::bit_ceil(2 * n_orders * static_cast<size_t>(n_expected_));
  if (table_len > table_.size()) grow_to(table_len);
}

void NgramIndex::append(int sample_idx, TokenId token) {
  const int end = text_len(sample_idx) - 1;
  outputs_[static_cast<size_t>(sample_idx)].push_back(token);
  if (end >= 0) learn(sample_idx, end);
}

int NgramIndex::propose(int sample_idx, std::span<TokenId> out, int* order) const {
  const Entry* match = nullptr;
  for (int len = options_.max_order; len >= options_.min_order && match == nullptr; --len) {
    match = find(sample_idx, len);
    if (order != nullptr) *order = len;
  }
  if (match == nullptr) return 0;
  // A match inside the prompt goes on into the sample's own output; only then is it "its own text".
  const bool is_own = match->sample_idx == sample_idx || match->end < static_cast<int>(prompt_.size()) - 1;
  const int source = is_own ? sample_idx : match->sample_idx;
  const int source_len = text_len(source);
  int n_proposed = 0;
  for (int position = match->end + 1; n_proposed < static_cast<int>(out.size()); ++position, ++n_proposed) {
    if (position >= source_len && !is_own) break;
    out[static_cast<size_t>(n_proposed)] =
        position < source_len ? token_at(source, position) : out[static_cast<size_t>(position - source_len)];
  }
  return n_proposed;
}

size_t NgramIndex::memory_bytes() const {
  size_t n_tokens = prompt_.capacity();
  for (const std::vector<TokenId>& output : outputs_) n_tokens += output.capacity();
  return n_tokens * sizeof(TokenId) + table_.capacity() * sizeof(Entry);
}

int NgramIndex::text_len(int sample_idx) const {
  return static_cast<int>(prompt_.size() + outputs_[static_cast<size_t>(sample_idx)].size());
}

TokenId NgramIndex::token_at(int sample_idx, int position) const {
  const auto i = static_cast<size_t>(position);
  return i < prompt_.size() ? prompt_[i] : outputs_[static_cast<size_t>(sample_idx)][i - prompt_.size()];
}

// 64 bits that stand for the n-gram; never 0. Equal keys of different n-grams are told apart by same_ngram.
uint64_t NgramIndex::key_of(int sample_idx, int end, int order) const {
  auto key = static_cast<uint64_t>(order);
  for (int i = end - order + 1; i <= end; ++i) {
    key = mix_bits(key * 0x9E3779B97F4A7C15u + static_cast<uint32_t>(token_at(sample_idx, i)) + 1);
  }
  return key == 0 ? 1 : key;
}

bool NgramIndex::same_ngram(const Entry& entry, int sample_idx, int end, int order) const {
  if (entry.end + 1 < order) return false;
  for (int i = 0; i < order; ++i) {
    if (token_at(entry.sample_idx, entry.end - i) != token_at(sample_idx, end - i)) return false;
  }
  return true;
}

const NgramIndex::Entry* NgramIndex::find(int sample_idx, int order) const {
  const int end = text_len(sample_idx) - 1;
  if (end + 1 < order) return nullptr;
  const uint64_t key = key_of(sample_idx, end, order);
  const size_t mask = table_.size() - 1;
  for (size_t slot = key & mask; table_[slot].key != 0; slot = (slot + 1) & mask) {
    if (table_[slot].key != key) continue;
    return same_ngram(table_[slot], sample_idx, end, order) ? &table_[slot] : nullptr;
  }
  return nullptr;
}

void NgramIndex::learn(int sample_idx, int end) {
  if (n_learnt_ >= options_.max_tokens) return;
  ++n_learnt_;
  for (int order = options_.min_order; order <= std::min(options_.max_order, end + 1); ++order) {
    insert({key_of(sample_idx, end, order), sample_idx, end});
  }
}

void NgramIndex::insert(const Entry& entry) {
  const size_t mask = table_.size() - 1;
  size_t slot = entry.key & mask;
  while (table_[slot].key != 0 && table_[slot].key != entry.key) slot = (slot + 1) & mask;
  const bool is_new = table_[slot].key == 0;
  table_[slot] = entry;
  if (is_new && ++n_entries_ * 2 > table_.size()) grow_to(table_.size() * 2);
}

void NgramIndex::grow_to(size_t table_len) {
  std::vector<Entry> old(table_len);
  old.swap(table_);
  const size_t mask = table_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.key == 0) continue;
    size_t slot = entry.key & mask;
    while (table_[slot].key != 0) slot = (slot + 1) & mask;
    table_[slot] = entry;
  }
}

}  // namespace bass
