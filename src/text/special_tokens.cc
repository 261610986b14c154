#include "text/special_tokens.h"

#include <algorithm>

#include "text/code_points.h"
#include "text/utf8.h"

namespace bass {

void SpecialTokens::add(std::string_view text, const AddedToken& token, bool is_control) {
  if (text.empty()) return;
  begins_[static_cast<unsigned char>(text.front())] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [found, is_new] = edges_.emplace(edge(node, byte), static_cast<uint32_t>(token_of_node_.size()));
    if (is_new) token_of_node_.emplace_back(std::nullopt);
    node = found->second;
  }
  if (token_of_node_[node].has_value()) return;
  token_of_node_[node] = static_cast<uint32_t>(tokens_.size());
  tokens_.push_back({token, is_control});
}

std::optional<SpecialTokens::Found> SpecialTokens::match_at(std::string_view text, size_t begin) const {
  std::optional<Found> longest;
  uint32_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const auto next = edges_.find(edge(node, text[at]));
    if (next == edges_.end()) break;
    node = next->second;
    if (token_of_node_[node].has_value()) longest = Found{at + 1 - begin, &tokens_[*token_of_node_[node]]};
  }
  return longest;
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from, size_t taken,
                                                        bool with_control) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    const std::optional<Found> found = match_at(text, begin);
    if (!found.has_value()) continue;
    const AddedToken& token = found->token->properties;
    Match match{begin, begin + found->n_bytes, begin + found->n_bytes, token.id};
    const bool touches_word = token.is_single_word && (ends_with_word_char(text.substr(0, match.begin)) ||
                                                       begins_with_word_char(text.substr(match.end)));
    if ((found->token->is_control && !with_control) || touches_word) {
      begin = match.next - 1;
      continue;
    }
    if (token.strips_left) match.begin = std::max(taken, begin - n_trailing_space_bytes(text.substr(0, begin)));
    if (token.strips_right) match.end += n_leading_space_bytes(text.substr(match.end));
    return match;
  }
  return std::nullopt;
}

}  // namespace bass
