// Byte-pair merging of one piece of text.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "bass/types.h"

namespace bass {

/// Which pairs of neighbours may become one token, and in which order. Thread-safe once filled.
class BpeMerges {
 public:
  struct Merge {
    uint32_t rank = 0;  ///< lower merges first
    TokenId result = 0;
  };

  void reserve(size_t n_merges) { merges_.reserve(n_merges); }

  /// False if the pair is there already: its first rank stays.
  bool add(TokenId left, TokenId right, Merge merge) { return merges_.emplace(key(left, right), merge).second; }

  /// nullptr if the pair does not merge.
  [[nodiscard]] const Merge* find(TokenId left, TokenId right) const {
    const auto found = merges_.find(key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  static uint64_t key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  struct Hash {
    // Fibonacci hashing: ids are small and dense, their bits have to be spread.
    size_t operator()(uint64_t value) const {
      const uint64_t product = value * 0x9E3779B97F4A7C15u;
      return product ^ product >> 32;
    }
  };

  std::unordered_map<uint64_t, Merge, Hash> merges_;
};

/// Merges pieces. Keeps its working memory from piece to piece: one for each thread.
class BpeMerger {
 public:
  explicit BpeMerger(const BpeMerges& merges) : merges_(merges) {}  ///< borrows `merges`

  /// Appends what `piece` becomes: always the best-ranked pair, the leftmost among equals, is merged next.
  /// Time O(n log n). Fewer than 2^31 tokens.
  void merge(std::span<const TokenId> piece, std::vector<TokenId>& out);

 private:
  static constexpr int32_t kNone = -1;

  struct Symbol {
    TokenId id;          ///< kNone once merged into its left neighbour
    int32_t prev, next;  ///< indices of neighbours, or kNone
  };
  struct Candidate {
    uint64_t order;       ///< rank << 32 | index of the left symbol
    TokenId left, right;  ///< what stood there when the candidate was found: it is stale if that changed
    TokenId result;
  };

  void consider(int32_t left_idx);
  void apply(int32_t left_idx, TokenId result);

  const BpeMerges& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace bass
