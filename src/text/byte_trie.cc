#include "text/byte_trie.h"

#include <algorithm>
#include <queue>
#include <string>

namespace bass {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::erase_if(texts, [](const auto& text) { return text.first.empty(); });
  std::ranges::stable_sort(texts, {}, &std::pair<std::string_view, int32_t>::first);
  const auto is_same = [](const auto& a, const auto& b) { return a.first == b.first; };
  texts.erase(std::unique(texts.begin(), texts.end(), is_same), texts.end());

  // Breadth first, so that a node's children have consecutive numbers. A node stands for the texts [begin, end), which
  // share their first `depth` bytes.
  struct Open {
    size_t begin, end, depth;
  };
  std::queue<Open> open;
  nodes_.emplace_back();
  open.push({0, texts.size(), 0});
  for (Node node = 0; !open.empty(); ++node) {
    auto [begin, end, depth] = open.front();
    open.pop();
    if (begin < end && texts[begin].first.size() == depth) nodes_[node].value = texts[begin++].second;
    nodes_[node].first_edge = static_cast<uint32_t>(labels_.size());
    nodes_[node].first_child = static_cast<Node>(nodes_.size());
    while (begin < end) {
      const char label = texts[begin].first[depth];
      size_t last = begin;
      while (last < end && texts[last].first[depth] == label) ++last;
      labels_.push_back(static_cast<unsigned char>(label));
      nodes_.emplace_back();
      open.push({begin, last, depth + 1});
      begin = last;
    }
    nodes_[node].last_edge = static_cast<uint32_t>(labels_.size());
  }
  std::ranges::fill(root_, kNone);
  for (uint32_t i = nodes_[kRoot].first_edge; i < nodes_[kRoot].last_edge; ++i) {
    root_[labels_[i]] = nodes_[kRoot].first_child + i;
  }
}

std::pair<size_t, int32_t> ByteTrie::longest(std::string_view text) const {
  std::pair<size_t, int32_t> found{0, -1};
  Node node = kRoot;
  for (size_t i = 0; i < text.size(); ++i) {
    node = next(node, text[i]);
    if (node == kNone) break;
    if (value(node) >= 0) found = {i + 1, value(node)};
  }
  return found;
}

}  // namespace bass
