// The n-gram drafter: drafts for free by copying what followed the last time that the sequence's ending was seen, in
// its prompt, in its own output or in the outputs of its siblings (the other samples of the same request).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bass/types.h"

namespace bass {

struct NgramOptions {
  int min_order = 2;         // shortest ending that is looked up
  int max_order = 5;         // longest; longer matches count as this long
  int max_tokens = 1 << 17;  // tokens that are indexed for a request; later ones are drafted for but not learnt
};

/// The n-grams of one request: its prompt, indexed once, and the output of each of its samples.
///
/// Appending a token costs O(max_order^2) amortised, whatever the text's length; nothing is scanned again. Memory is at
/// most 64 bytes times the number of orders for each token that is indexed or reserved for while the table grows, and
/// goes with the object.
/// Not thread-safe. What is proposed is a deterministic function of the calls so far.
class NgramIndex {
 public:
  NgramIndex(std::span<const TokenId> prompt, int n_samples, const NgramOptions& options = {});

  /// Room for n_tokens more tokens of a sample: appending them allocates nothing. Optional.
  void reserve(int sample_idx, int n_tokens);

  /// `token` has been committed to the output of a sample. Rejected drafts are never appended.
  void append(int sample_idx, TokenId token);

  /// Writes up to out.size() tokens that may follow the sample's text, and returns how many.
  ///
  /// The longest ending of the text (max_order .. min_order tokens) that occurred before with a continuation wins; of
  /// several occurrences the one whose continuation was appended last. The continuation is copied; one that comes to
  /// the end of the sample's own text goes on into what has just been proposed (so a repetition repeats), one that
  /// comes to the end of a sibling's text stops. Drafts are one-hot distributions that are fixed before any random
  /// number of their positions is drawn, so every verification rule may use them.
  /// `order`, if given: tokens of the ending that matched.
  int propose(int sample_idx, std::span<TokenId> out, int* order = nullptr) const;

  [[nodiscard]] int n_samples() const { return static_cast<int>(outputs_.size()); }
  [[nodiscard]] size_t memory_bytes() const;

 private:
  /// An occurrence: the token at `end` of a sample's text (prompt, then output) is the last one of the n-gram.
  struct Entry {
    uint64_t key = 0;  // 0: empty
    int32_t sample_idx = 0;
    int32_t end = 0;
  };

  [[nodiscard]] int text_len(int sample_idx) const;
  [[nodiscard]] TokenId token_at(int sample_idx, int position) const;
  [[nodiscard]] uint64_t key_of(int sample_idx, int end, int order) const;
  [[nodiscard]] bool same_ngram(const Entry& entry, int sample_idx, int end, int order) const;
  [[nodiscard]] const Entry* find(int sample_idx, int order) const;
  void learn(int sample_idx, int end);
  void insert(const Entry& entry);
  void grow_to(size_t table_len);

  NgramOptions options_;
  std::vector<TokenId> prompt_;
  std::vector<std::vector<TokenId>> outputs_;  // [n_samples]
  std::vector<Entry> table_;                   // open addressing, a power of two long, at most half full
  size_t n_entries_ = 0;
  int n_learnt_ = 0;    // tokens
  int n_expected_ = 0;  // tokens that there is room for, or 0
};

}  // namespace bass
