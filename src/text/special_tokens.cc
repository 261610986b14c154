#include "text/special_tokens.h"

namespace bass {

void SpecialTokens::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [found, is_new] = edges_.emplace(edge(node, byte), static_cast<uint32_t>(token_of_node_.size()));
    if (is_new) token_of_node_.emplace_back(std::nullopt);
    node = found->second;
  }
  if (!token_of_node_[node].has_value()) token_of_node_[node] = id;
}

std::optional<SpecialTokens::Match> SpecialTokens::match_at(std::string_view text, size_t begin) const {
  std::optional<Match> longest;
  uint32_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const auto next = edges_.find(edge(node, text[at]));
    if (next == edges_.end()) break;
    node = next->second;
    if (token_of_node_[node].has_value()) longest = Match{begin, at + 1 - begin, *token_of_node_[node]};
  }
  return longest;
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from) const {
  if (edges_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (std::optional<Match> match = match_at(text, begin); match.has_value()) return match;
  }
  return std::nullopt;
}

}  // namespace bass
