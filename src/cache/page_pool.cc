#include "cache/page_pool.h"

#include "base/check.h"

namespace bass {

PagePool::PagePool(int n_pages) : n_refs_(static_cast<size_t>(n_pages), 0) {
  free_.reserve(n_refs_.size());
  for (PageId page = n_pages - 1; page >= 0; --page) free_.push_back(page);
}

std::optional<PageId> PagePool::allocate() {
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  n_refs_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::add_ref(PageId page) {
  BASS_CHECK(n_refs(page) > 0);
  ++n_refs_[static_cast<size_t>(page)];
}

void PagePool::release(PageId page) {
  BASS_CHECK(n_refs(page) > 0);
  if (--n_refs_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

}  // namespace bass
