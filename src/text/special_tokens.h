// Finds the texts of special tokens in a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bass/types.h"

namespace bass {

/// A trie over the bytes of the tokens' texts. Thread-safe once filled.
class SpecialTokens {
 public:
  struct Match {
    size_t begin = 0;
    size_t n_bytes = 0;
    TokenId id = 0;
  };

  /// An empty text is ignored; of equal texts the first one counts.
  void add(std::string_view text, TokenId id);

  /// The leftmost match at or after `from`, the longest one there.
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  static uint64_t edge(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }
  [[nodiscard]] std::optional<Match> match_at(std::string_view text, size_t begin) const;

  std::vector<std::optional<TokenId>> token_of_node_{std::nullopt};  // node 0 is the root
  std::unordered_map<uint64_t, uint32_t> edges_;
};

}  // namespace bass
