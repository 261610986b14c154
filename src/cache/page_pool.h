// Ids of the pages of a ragged KV cache. A page holds the K and V of kPageLen consecutive tokens of one sequence in all
// layers; where it lies in memory is the executor's business.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace bass {

using PageId = int32_t;

/// Counts references of page ids: siblings share the pages of their prompt. Not thread-safe: one thread owns it.
class PagePool {
 public:
  explicit PagePool(int n_pages);

  [[nodiscard]] int n_pages() const { return static_cast<int>(n_refs_.size()); }
  [[nodiscard]] int n_free() const { return static_cast<int>(free_.size()); }
  [[nodiscard]] int n_refs(PageId page) const { return n_refs_[static_cast<size_t>(page)]; }

  /// A free page with one reference, or nothing.
  std::optional<PageId> allocate();
  void add_ref(PageId page);
  /// Drops one reference; the page is free when none is left.
  void release(PageId page);

 private:
  std::vector<int32_t> n_refs_;  // [n_pages]
  std::vector<PageId> free_;     // a stack: pages used last are warm
};

}  // namespace bass
