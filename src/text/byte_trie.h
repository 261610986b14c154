// A set of texts, walked byte by byte.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace bass {

/// Which of many texts begin at a place of a text. Thread-safe after construction.
class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = 0xFFFFFFFFu;

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, int32_t>>{}) {}
  /// Values are not negative; of equal texts the first one counts. Time and memory linear in the bytes of the texts.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> texts);

  /// The node behind `node` on this byte, or kNone.
  [[nodiscard]] Node next(Node node, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    if (node == kRoot) return root_[label];
    const Range& range = nodes_[node];
    for (uint32_t i = range.first_edge; i < range.last_edge; ++i) {
      if (labels_[i] == label) return range.first_child + (i - range.first_edge);
      if (labels_[i] > label) break;
    }
    return kNone;
  }
  /// The value of the text that ends here, or -1.
  [[nodiscard]] int32_t value(Node node) const { return nodes_[node].value; }

  /// The longest text at the beginning of `text`: its length and value; length 0 if there is none.
  [[nodiscard]] std::pair<size_t, int32_t> longest(std::string_view text) const;

  [[nodiscard]] bool is_empty() const { return nodes_.size() == 1; }

 private:
  struct Range {
    uint32_t first_edge = 0, last_edge = 0;  ///< of labels_; the children are numbered as the edges
    Node first_child = 0;
    int32_t value = -1;
  };

  std::vector<Range> nodes_;
  std::vector<unsigned char> labels_;
  Node root_[256];  // the root may have many children and is asked most often
};

}  // namespace bass
