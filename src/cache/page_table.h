// The pages of one sequence: append, truncate, fork (copy on write).
#pragma once

#include <span>
#include <vector>

#include "cache/page_pool.h"

namespace bass {

/// The executor copies page `from` to page `to` (`n_tokens` of it are in use) before the step that follows.
struct PageCopy {
  PageId from = 0;
  PageId to = 0;
  int n_tokens = 0;
};

/// Owns one reference to each of its pages. Pages in front of len() may be shared with forks; a shared page is copied
/// before this sequence writes into it. The pool must outlive the table.
class PageTable {
 public:
  PageTable() = default;
  PageTable(PagePool* pool, int page_len) : pool_(pool), page_len_(page_len) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  ~PageTable() { clear(); }

  [[nodiscard]] int len() const { return len_; }  // tokens whose K and V are valid
  [[nodiscard]] std::span<const PageId> pages() const { return pages_; }

  /// Makes the positions [len(), end) writable: adds pages, and replaces a shared last page by a copy of its own
  /// (appended to `copies`). False, with nothing changed, when the pool has too few pages.
  [[nodiscard]] bool reserve(int end, std::vector<PageCopy>* copies);

  /// Room for the ids of the pages of `max_len` tokens: growing up to that allocates nothing.
  void reserve_ids(int max_len) { pages_.reserve(static_cast<size_t>(n_pages_for(max_len))); }

  /// The first `new_len` tokens are valid now; at most what is reserved.
  void set_len(int new_len);

  /// After a step: the first `new_len` reserved tokens are valid, what was reserved behind them is given back.
  void commit(int new_len) {
    set_len(new_len);
    truncate(new_len);
  }

  /// Forgets the tokens from `new_len` on and gives back the pages behind them. This is how rejected drafts go.
  void truncate(int new_len);

  /// A table that shares the first `fork_len` (at most len()) tokens.
  [[nodiscard]] PageTable fork(int fork_len) const;

  /// The next page of tokens, which lies in `page` already and is shared from now on. len() is a multiple of the page's
  /// length, and nothing is reserved behind it.
  void append_shared(PageId page);

  /// Full page `idx` holds what `page` holds, and becomes it.
  void replace(int idx, PageId page);

  void clear();

 private:
  [[nodiscard]] int n_pages_for(int n_tokens) const { return (n_tokens + page_len_ - 1) / page_len_; }

  PagePool* pool_ = nullptr;
  int page_len_ = 1;
  int len_ = 0;
  std::vector<PageId> pages_;
};

}  // namespace bass
