#include "cache/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/mix_bits.h"

namespace bass {
namespace {

uint64_t hash_of(PrefixCache::NodeId parent, std::span<const TokenId> tokens) {
  uint64_t hash = mix_bits(static_cast<uint32_t>(parent));
  for (const TokenId token : tokens) hash = mix_bits(hash + 0x9E3779B97F4A7C15u + static_cast<uint32_t>(token));
  return hash;
}

}  // namespace

PrefixCache::PrefixCache(PagePool* main, PagePool* draft, int page_len, int max_idle)
    : main_pool_(main),
      draft_pool_(draft),
      page_len_(page_len),
      max_idle_(max_idle),
      nodes_(static_cast<size_t>(main->n_pages())),
      tokens_(nodes_.size() * static_cast<size_t>(page_len)),
      buckets_(std::bit_ceil(2 * nodes_.size() + 1), kNone) {
  for (auto id = static_cast<NodeId>(nodes_.size()) - 1; id >= 0; --id) {
    node(id).next_in_bucket = unused_;
    unused_ = id;
  }
}

PrefixCache::NodeId PrefixCache::find(NodeId parent, std::span<const TokenId> tokens) const {
  const uint64_t hash = hash_of(parent, tokens);
  NodeId id = buckets_[hash & (buckets_.size() - 1)];
  while (id != kNone &&
         !(node(id).hash == hash && node(id).parent == parent && std::ranges::equal(tokens_of(id), tokens))) {
    id = node(id).next_in_bucket;
  }
  return id;
}

PrefixCache::NodeId PrefixCache::add(NodeId parent, std::span<const TokenId> tokens, PageId main, PageId draft) {
  BASS_CHECK(unused_ != kNone && static_cast<int>(tokens.size()) == page_len_);
  BASS_CHECK(is_root(parent) || node(parent).n_holds > 0);
  const NodeId id = unused_;
  unused_ = node(id).next_in_bucket;
  const uint64_t hash = hash_of(parent, tokens);
  NodeId* first = bucket(hash);
  node(id) = {.parent = parent,
              .main = main,
              .depth = depth(parent) + 1,
              .next_in_bucket = *first,
              .hash = hash,
              .released = n_releases_};
  *first = id;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<ptrdiff_t>(id) * page_len_);
  main_pool_->add_ref(main);
  if (draft != kNoPage) set_draft_page(id, draft);
  if (!is_root(parent)) ++node(parent).n_children;
  ++n_nodes_;
  list(id);
  return id;
}

void PrefixCache::set_draft_page(NodeId id, PageId draft) {
  BASS_CHECK(node(id).draft == kNoPage);
  draft_pool_->add_ref(draft);
  node(id).draft = draft;
}

void PrefixCache::hold(NodeId id) {
  if (!is_root(id) && is_idle_end(id)) unlist(id);
  for (; !is_root(id); id = node(id).parent) n_in_use_ += node(id).n_holds++ == 0 ? 1 : 0;
}

void PrefixCache::release(NodeId id) {
  const NodeId last = id;
  ++n_releases_;
  for (; !is_root(id); id = node(id).parent) {
    n_in_use_ -= --node(id).n_holds == 0 ? 1 : 0;
    node(id).released = n_releases_;
  }
  if (!is_root(last) && is_idle_end(last)) list(last);
  while (n_idle() > max_idle_) BASS_CHECK(evict());
}

void PrefixCache::move_hold(NodeId from, NodeId to) {
  BASS_CHECK(node(to).parent == from);
  if (is_idle_end(to)) unlist(to);
  n_in_use_ += node(to).n_holds++ == 0 ? 1 : 0;
}

// Behind a node that has the mark, all have.
int PrefixCache::mark(NodeId id, int64_t mark) {
  int n_new = 0;
  for (; !is_root(id) && node(id).mark != mark; id = node(id).parent, ++n_new) node(id).mark = mark;
  return n_new;
}

bool PrefixCache::evict() {
  if (oldest_ == kNone) return false;
  const NodeId parent = node(oldest_).parent;
  remove(oldest_);
  if (!is_root(parent) && is_idle_end(parent)) list(parent);
  return true;
}

bool PrefixCache::evict_draft_page() {
  if (draft_pool_ == nullptr) return false;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& at = nodes_[next_draft_];
    next_draft_ = (next_draft_ + 1) % nodes_.size();
    if (at.parent == kNone || at.draft == kNoPage || draft_pool_->n_refs(at.draft) > 1) continue;
    draft_pool_->release(at.draft);
    at.draft = kNoPage;
    return true;
  }
  return false;
}

// By age. What is let go of is the newest; the way to an end that was forgotten is as old as that, unless others have
// gone a part of it since.
void PrefixCache::list(NodeId id) {
  Node& at = node(id);
  at.newer = kNone;
  at.older = newest_;
  if (newest_ != kNone && node(newest_).released > at.released) {
    for (at.newer = oldest_; node(at.newer).released < at.released;) at.newer = node(at.newer).newer;
    at.older = node(at.newer).older;
  }
  (at.newer == kNone ? newest_ : node(at.newer).older) = id;
  (at.older == kNone ? oldest_ : node(at.older).newer) = id;
}

void PrefixCache::unlist(NodeId id) {
  const Node& at = node(id);
  (at.newer == kNone ? newest_ : node(at.newer).older) = at.older;
  (at.older == kNone ? oldest_ : node(at.older).newer) = at.newer;
}

void PrefixCache::remove(NodeId id) {
  unlist(id);
  Node& at = node(id);
  NodeId* link = bucket(at.hash);
  while (*link != id) link = &node(*link).next_in_bucket;
  *link = at.next_in_bucket;
  if (!is_root(at.parent)) --node(at.parent).n_children;
  main_pool_->release(at.main);
  if (at.draft != kNoPage) draft_pool_->release(at.draft);
  at = {.next_in_bucket = unused_};
  unused_ = id;
  --n_nodes_;
}

}  // namespace bass
