#include "cache/page_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bass {

PageTable::PageTable(PageTable&& other) noexcept { *this = std::move(other); }

PageTable& PageTable::operator=(PageTable&& other) noexcept {
  if (this == &other) return *this;
  clear();
  pool_ = other.pool_;
  page_len_ = other.page_len_;
  len_ = std::exchange(other.len_, 0);
  pages_ = std::exchange(other.pages_, {});
  return *this;
}

bool PageTable::reserve(int end, std::vector<PageCopy>* copies) {
  if (end <= len_) return true;
  // Only the page of position len() can be both shared and about to be written: later pages are never shared, because
  // fork() shares valid tokens only and drops what lies behind them.
  const auto last = static_cast<size_t>(len_ / page_len_);
  const bool needs_copy = last < pages_.size() && pool_->n_refs(pages_[last]) > 1;
  const int n_missing = n_pages_for(end) - static_cast<int>(pages_.size());
  if (pool_->n_free() < (needs_copy ? 1 : 0) + (n_missing > 0 ? n_missing : 0)) return false;
  // Room first: an allocation that fails must not lose a page.
  const size_t n_pages = pages_.size() + static_cast<size_t>(std::max(n_missing, 0));
  if (pages_.capacity() < n_pages) pages_.reserve(2 * n_pages);
  if (needs_copy) {
    if (len_ % page_len_ > 0) copies->push_back({pages_[last], 0, len_ % page_len_});
    const PageId own = *pool_->allocate();
    if (len_ % page_len_ > 0) copies->back().to = own;
    pool_->release(pages_[last]);
    pages_[last] = own;
  }
  for (int i = 0; i < n_missing; ++i) pages_.push_back(*pool_->allocate());
  return true;
}

void PageTable::set_len(int new_len) {
  BASS_CHECK(new_len >= 0 && n_pages_for(new_len) <= static_cast<int>(pages_.size()));
  len_ = new_len;
}

void PageTable::truncate(int new_len) {
  if (new_len < len_) len_ = new_len;
  while (static_cast<int>(pages_.size()) > n_pages_for(len_)) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

PageTable PageTable::fork(int fork_len) const {
  BASS_CHECK(fork_len <= len_);
  PageTable table(pool_, page_len_);
  table.len_ = fork_len;
  table.pages_.assign(pages_.begin(), pages_.begin() + n_pages_for(fork_len));
  for (const PageId page : table.pages_) pool_->add_ref(page);
  return table;
}

void PageTable::append_shared(PageId page) {
  BASS_CHECK(len_ == static_cast<int>(pages_.size()) * page_len_);
  pages_.push_back(page);
  pool_->add_ref(page);
  len_ += page_len_;
}

void PageTable::replace(int idx, PageId page) {
  BASS_CHECK((idx + 1) * page_len_ <= len_);
  pool_->add_ref(page);
  pool_->release(std::exchange(pages_[static_cast<size_t>(idx)], page));
}

void PageTable::clear() {
  for (const PageId page : pages_) pool_->release(page);
  pages_.clear();
  len_ = 0;
}

}  // namespace bass
