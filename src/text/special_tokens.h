// Finds the texts of special tokens in a text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bass/types.h"
#include "text/tokenizer_rules.h"

namespace bass {

/// A trie over the bytes of the tokens' texts. Thread-safe once filled.
class SpecialTokens {
 public:
  struct Match {
    size_t begin = 0, end = 0;  ///< with the white space that the token takes
    size_t next = 0;            ///< where to look for the next one
    TokenId id = 0;
  };

  /// An empty text is ignored; of equal texts the first one counts. A control token is found only when asked for.
  /// `token.id` is its id.
  void add(std::string_view text, const AddedToken& token, bool is_control);

  [[nodiscard]] bool is_empty() const { return tokens_.empty(); }

  /// The next match at or after `from`: the leftmost, the longest one there. What was found but does not count (a
  /// control token without `with_control`, a part of a word) hides what overlaps it, as in the reference. White space
  /// before a match is taken as far as `taken`, the end of what stands before.
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from, size_t taken, bool with_control) const;

 private:
  struct Token {
    AddedToken properties;
    bool is_control = false;
  };
  struct Found {
    size_t n_bytes = 0;
    const Token* token = nullptr;
  };
  static uint64_t edge(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<unsigned char>(byte); }
  [[nodiscard]] std::optional<Found> match_at(std::string_view text, size_t begin) const;

  std::vector<Token> tokens_;
  std::vector<std::optional<uint32_t>> token_of_node_{std::nullopt};  // node 0 is the root
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::array<bool, 256> begins_{};  // by first byte: most places of a text are passed by one look
};

}  // namespace bass
