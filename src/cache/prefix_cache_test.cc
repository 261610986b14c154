// The tree of known texts against a naive list of them, under random operations of texts that run, end and are
// forgotten.
#include "cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "cache/page_table.h"

namespace bass {
namespace {

constexpr int kPrefixPageLen = 2;
using NodeId = PrefixCache::NodeId;
using Text = std::vector<TokenId>;

std::span<const TokenId> page_of(const Text& text, int idx) {
  return std::span(text).subspan(static_cast<size_t>(idx) * kPrefixPageLen, kPrefixPageLen);
}

/// Two pools and a cache of both.
struct Caches {
  explicit Caches(int n_pages, int max_idle)
      : main(n_pages), draft(n_pages), prefixes(&main, &draft, kPrefixPageLen, max_idle) {}
  PagePool main;
  PagePool draft;
  PrefixCache prefixes;

  /// Adds a text's pages behind what is known of it, holds the last, and gives its own references back.
  NodeId run(const Text& text, bool has_draft = false) {
    NodeId node = PrefixCache::kRoot;
    for (int i = 0; (i + 1) * kPrefixPageLen <= static_cast<int>(text.size()); ++i) {
      NodeId next = prefixes.find(node, page_of(text, i));
      if (next == PrefixCache::kNone) {
        const PageId page = *main.allocate();
        const PageId draft_page = has_draft ? *draft.allocate() : PrefixCache::kNoPage;
        next = prefixes.add(node, page_of(text, i), page, draft_page);
        main.release(page);
        if (has_draft) draft.release(draft_page);
      }
      prefixes.move_hold(node, next);
      node = next;
    }
    return node;
  }
  /// Pages of the text that are known.
  int n_known(const Text& text) const {
    NodeId node = PrefixCache::kRoot;
    for (int i = 0;; ++i) {
      if ((i + 1) * kPrefixPageLen > static_cast<int>(text.size())) return i;
      node = prefixes.find(node, page_of(text, i));
      if (node == PrefixCache::kNone) return i;
    }
  }
};

TEST(PrefixCache, FindsWhatHasTheSameTokensInFrontOfItOnly) {
  Caches caches(10, 10);
  caches.prefixes.release(caches.run({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(caches.n_known({1, 2, 3, 4, 5, 6}), 3);
  EXPECT_EQ(caches.n_known({1, 2, 3, 4, 5, 7}), 2);
  EXPECT_EQ(caches.n_known({3, 4, 5, 6}), 0) << "these tokens have others in front of them there";
  EXPECT_EQ(caches.n_known({1, 2, 5, 6}), 1);
}

TEST(PrefixCache, ForgetsWhatWasHeldLeastLatelyFromItsEndOn) {
  Caches caches(20, 20);
  const Text old = {1, 2, 3, 4}, young = {1, 2, 5, 6}, other = {7, 8, 9, 10};
  for (const Text& text : {old, other, young}) caches.prefixes.release(caches.run(text));
  EXPECT_EQ(caches.prefixes.n_idle(), 5);
  ASSERT_TRUE(caches.prefixes.evict());
  EXPECT_EQ(caches.n_known(old), 1) << "its first page begins the young text too";
  ASSERT_TRUE(caches.prefixes.evict());
  EXPECT_EQ(caches.n_known(other), 1);
  ASSERT_TRUE(caches.prefixes.evict());
  EXPECT_EQ(caches.n_known(other), 0) << "the way to what was forgotten is as old";
  EXPECT_EQ(caches.n_known(young), 2);
  while (caches.prefixes.evict()) {
  }
  EXPECT_EQ(caches.main.n_free(), caches.main.n_pages());
}

TEST(PrefixCache, KeepsAWayThatOthersHaveGoneSince) {
  Caches caches(20, 20);
  caches.prefixes.release(caches.run({1, 2, 3, 4}));
  caches.prefixes.release(caches.run({7, 8, 9, 10}));
  caches.prefixes.release(caches.run({1, 2}));
  ASSERT_TRUE(caches.prefixes.evict());
  ASSERT_TRUE(caches.prefixes.evict());
  EXPECT_EQ(caches.n_known({1, 2}), 1);
  EXPECT_EQ(caches.n_known({7, 8, 9, 10}), 1);
}

TEST(PrefixCache, KeepsSoManyIdlePagesAndNoneThatIsHeld) {
  Caches caches(20, 3);
  const NodeId held = caches.run({1, 2, 3, 4, 5, 6, 7, 8});
  caches.prefixes.release(caches.run({11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(caches.prefixes.n_idle(), 3);
  EXPECT_EQ(caches.n_known({11, 12, 13, 14, 15, 16, 17, 18}), 3);
  while (caches.prefixes.evict()) {
  }
  EXPECT_EQ(caches.prefixes.n_nodes(), 4);
  caches.prefixes.release(held);
  EXPECT_EQ(caches.prefixes.n_idle(), 3);
}

TEST(PrefixCache, MarksEachNodeOnce) {
  Caches caches(20, 20);
  const NodeId first = caches.run({1, 2, 3, 4, 5, 6});
  const NodeId second = caches.run({1, 2, 3, 4, 7, 8});
  EXPECT_EQ(caches.prefixes.mark(first, 1), 3);
  EXPECT_EQ(caches.prefixes.mark(second, 1), 1);
  EXPECT_EQ(caches.prefixes.mark(first, 1), 0);
  EXPECT_EQ(caches.prefixes.mark(second, 2), 3);
  EXPECT_EQ(caches.prefixes.mark(PrefixCache::kRoot, 3), 0);
}

TEST(PrefixCache, GivesDraftPagesThatNobodyUsesBackThoughTheirNodesAreHeld) {
  Caches caches(20, 20);
  const NodeId node = caches.run({1, 2, 3, 4}, /*has_draft=*/true);
  PageTable table(&caches.draft, kPrefixPageLen);
  table.append_shared(caches.prefixes.draft_page(caches.prefixes.parent(node)));
  EXPECT_FALSE(caches.prefixes.evict());
  EXPECT_TRUE(caches.prefixes.evict_draft_page());
  EXPECT_EQ(caches.prefixes.draft_page(node), PrefixCache::kNoPage);
  EXPECT_FALSE(caches.prefixes.evict_draft_page()) << "a table has the other";
}

TEST(PrefixCache, DraftPagesOfIdleTextsMayGoAlone) {
  Caches caches(20, 20);
  const NodeId node = caches.run({1, 2, 3, 4, 5, 6}, /*has_draft=*/true);
  caches.prefixes.release(node);
  const int n_free = caches.draft.n_free();
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(caches.prefixes.evict_draft_page());
    EXPECT_EQ(caches.draft.n_free(), n_free + i);
  }
  EXPECT_FALSE(caches.prefixes.evict_draft_page());
  EXPECT_EQ(caches.prefixes.n_idle(), 3) << "the main model's pages stay";
}

TEST(PrefixCache, IsWhatANaiveListOfTextsIsUnderRandomOperations) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
    Caches caches(40, 12);
    std::vector<std::pair<Text, NodeId>> running;
    int n_known_pages = 0;
    for (int step = 0; step < 3000; ++step) {
      if (running.size() < 4 && below(2) == 0) {
        Text text;
        for (int i = below(6) * kPrefixPageLen + 1; i > 0; --i) text.push_back(below(2));
        n_known_pages += caches.n_known(text);
        const int n_pages = static_cast<int>(text.size()) / kPrefixPageLen;
        while (caches.main.n_free() < n_pages) ASSERT_TRUE(caches.prefixes.evict());
        running.emplace_back(text, caches.run(text, below(2) == 0));
      } else if (!running.empty()) {
        const auto at = running.begin() + below(static_cast<int>(running.size()));
        caches.prefixes.release(at->second);
        running.erase(at);
      }
      std::map<Text, int> held;  // beginnings of running texts
      for (const auto& [text, node] : running) {
        const int n_pages = static_cast<int>(text.size()) / kPrefixPageLen;
        ASSERT_EQ(caches.prefixes.depth(node), n_pages);
        ASSERT_EQ(caches.n_known(text), n_pages) << "seed " << seed;
        for (int i = 1; i <= n_pages; ++i) ++held[Text(text.begin(), text.begin() + i * kPrefixPageLen)];
      }
      ASSERT_LE(caches.prefixes.n_idle(), 12);
      ASSERT_EQ(caches.prefixes.n_nodes() - caches.prefixes.n_idle(), static_cast<int>(held.size()));
      ASSERT_EQ(caches.main.n_pages() - caches.main.n_free(), caches.prefixes.n_nodes());
    }
    EXPECT_GT(n_known_pages, 1000) << "the test is too easy";
    for (const auto& [text, node] : running) caches.prefixes.release(node);
    while (caches.prefixes.evict()) {
    }
    EXPECT_EQ(caches.main.n_free(), caches.main.n_pages());
    EXPECT_EQ(caches.draft.n_free(), caches.draft.n_pages());
  }
}

}  // namespace
}  // namespace bass
