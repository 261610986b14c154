// Pages of texts that were read, found by the tokens in them: a text that begins like another one need not be read
// again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bass/types.h"
#include "cache/page_pool.h"

namespace bass {

/// A tree of full pages. A node is a page of tokens behind the pages of its parent, so a way from a root is the
/// beginning of a text; its page of the main model's cache holds what that model has made of them, and so perhaps one
/// of the draft model's. What a page holds depends on the tokens up to its end, whoever read them and how (row
/// invariance), so texts may share it. Full pages are never written to again. Where something else decides too, texts
/// begin at different roots and share nothing.
///
/// A text that runs *holds* the last node that it has gone through, and so the whole way to it. What nobody holds is
/// *idle*: of that, so many pages are kept as was said, those that were held last. Nothing is allocated behind the
/// constructor. Not thread-safe: the owner of the pools owns it, and they must outlive its use.
class PrefixCache {
 public:
  using NodeId = int32_t;
  static constexpr NodeId kRoot = -1;  // as every negative number but the next one is
  static constexpr NodeId kNone = INT32_MIN;
  static constexpr PageId kNoPage = -1;
  static constexpr bool is_root(NodeId id) { return id < 0; }

  /// draft: the draft model's pages, or null. max_idle: pages, >= 0
  PrefixCache(PagePool* main, PagePool* draft, int page_len, int max_idle);

  [[nodiscard]] int n_nodes() const { return n_nodes_; }
  [[nodiscard]] int n_idle() const { return n_nodes_ - n_in_use_; }
  [[nodiscard]] NodeId parent(NodeId id) const { return node(id).parent; }
  /// Pages of the way to it, its own among them; 0 of the root.
  [[nodiscard]] int depth(NodeId id) const { return is_root(id) ? 0 : node(id).depth; }
  [[nodiscard]] PageId main_page(NodeId id) const { return node(id).main; }
  /// kNoPage: the draft model has not read these tokens.
  [[nodiscard]] PageId draft_page(NodeId id) const { return node(id).draft; }

  /// The node of these tokens [page_len] behind those of `parent`; kNone: there is none.
  [[nodiscard]] NodeId find(NodeId parent, std::span<const TokenId> tokens) const;
  /// Adds the node that `find` does not find, with references of its own to its pages. `parent` is held. No other node
  /// has the page.
  NodeId add(NodeId parent, std::span<const TokenId> tokens, PageId main, PageId draft);
  /// The draft model has read a node's tokens now.
  void set_draft_page(NodeId id, PageId draft);

  /// A root needs neither.
  void hold(NodeId id);
  void release(NodeId id);
  /// Holds a child of `from`, which is held, in place of it.
  void move_hold(NodeId from, NodeId to);

  /// Marks the way to a node. Returns how many of its nodes did not have this mark, which is above 0, yet.
  int mark(NodeId id, int64_t mark);

  /// Forgets the idle end that was held least lately, whose pages are free then. False: nothing is idle.
  bool evict();
  /// Frees a page of the draft model that nobody but this cache has, if there is one: each in its turn.
  bool evict_draft_page();

 private:
  struct Node {
    NodeId parent = kNone;  // kNone: not in use
    PageId main = kNoPage;
    PageId draft = kNoPage;
    int32_t depth = 0;
    int32_t n_children = 0;
    int32_t n_holds = 0;                  // of it and of all behind it
    NodeId next_in_bucket = kNone;        // or the next unused node
    NodeId newer = kNone, older = kNone;  // among idle ends
    uint64_t hash = 0;
    int64_t released = 0;  // when it was let go of last
    int64_t mark = 0;
  };

  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  [[nodiscard]] Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  [[nodiscard]] std::span<const TokenId> tokens_of(NodeId id) const {
    return std::span(tokens_).subspan(static_cast<size_t>(id) * static_cast<size_t>(page_len_),
                                      static_cast<size_t>(page_len_));
  }
  [[nodiscard]] NodeId* bucket(uint64_t hash) { return &buckets_[hash & (buckets_.size() - 1)]; }
  [[nodiscard]] bool is_idle_end(NodeId id) const { return node(id).n_holds == 0 && node(id).n_children == 0; }
  void list(NodeId id);
  void unlist(NodeId id);
  void remove(NodeId id);

  PagePool* main_pool_;
  PagePool* draft_pool_;
  int page_len_;
  int max_idle_;
  int n_nodes_ = 0;
  int n_in_use_ = 0;  // nodes that are held
  int64_t n_releases_ = 0;
  size_t next_draft_ = 0;  // where evict_draft_page goes on
  NodeId unused_ = kNone;
  NodeId newest_ = kNone, oldest_ = kNone;  // idle ends
  std::vector<Node> nodes_;                 // [n_pages]: each has a page of its own
  std::vector<TokenId> tokens_;             // [n_pages, page_len]
  std::vector<NodeId> buckets_;             // [a power of two]
};

}  // namespace bass
