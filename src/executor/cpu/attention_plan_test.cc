// Whatever the layout, every row sees its chunks once each, in ascending order, in its own pages.
#include "executor/cpu/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace bass::cpu {
namespace {

constexpr size_t kPageBytes = 64;
// Never read. NOLINTNEXTLINE(performance-no-int-to-ptr)
const std::byte* const kPageBase = reinterpret_cast<const std::byte*>(kPageBytes);

struct Sequence {
  int start;
  int n_tokens;
  bool is_decode;
  std::vector<PageId> pages;
};

/// Pages first, first + 1, ... for so many positions, behind `shared` pages of another sequence.
std::vector<PageId> pages_for(int n_positions, PageId first, std::vector<PageId> shared = {}) {
  const auto n_pages = static_cast<size_t>((n_positions + kKvPageLen - 1) / kKvPageLen);
  while (shared.size() < n_pages) shared.push_back(first++);
  return shared;
}

using Chain = std::vector<std::pair<int, const std::byte*>>;  // chunks and their pages, in the order of the merges

/// Carries a plan out with names of chunks in place of numbers.
class Simulation {
 public:
  Simulation(AttentionKind kind, std::vector<Sequence> sequences, const KvShape& shape, int n_threads, int window = 0)
      : shape_(shape), plan_(shape, n_threads, window), sequences_(std::move(sequences)) {
    int n_rows = 0;
    for (const Sequence& sequence : sequences_) {
      segments_.push_back({n_rows, sequence.n_tokens, sequence.start, sequence.is_decode, sequence.pages});
      n_rows += sequence.n_tokens;
    }
    n_rows_ = n_rows;
    size_t max_pages = 0;
    for (const Sequence& sequence : sequences_) max_pages = std::max(max_pages, sequence.pages.size());
    const int n_padding = kind == AttentionKind::kPad ? 40 * static_cast<int>(sequences_.size()) : 0;
    plan_.reserve(static_cast<size_t>(n_rows + n_padding), sequences_.size(), max_pages);
    const std::vector<size_t> capacities = capacities_of(plan_);
    plan_.build(kind, segments_, kPageBase, kPageBytes);
    EXPECT_EQ(capacities, capacities_of(plan_)) << "a step allocated";
    for (const PlannedUnit& unit : plan_.early.units) {
      EXPECT_LE(unit.rows_begin + static_cast<size_t>(unit.n_tokens), plan_.rows.size());
      run(unit);
    }
    states_of_first_stage_ = states_;
    for (const PlannedUnit& unit : plan_.late.units) run(unit);
    for (const PlannedFinish& finish : plan_.finishes) run(finish);
  }

  void expect_right() const {
    EXPECT_EQ(results_.size(), static_cast<size_t>(n_rows_ * shape_.n_kv_heads));
    for (const ForwardSegment& segment : segments_) {
      for (int t = 0; t < segment.n_tokens; ++t) {
        Chain expected;
        const int first = plan_.first_seen(segment.start + t) / kKvPageLen;
        for (int c = first; c <= (segment.start + t) / kKvPageLen; ++c) expected.push_back({c, page(segment, c)});
        for (int head = 0; head < shape_.n_kv_heads; ++head) {
          const auto found = results_.find({segment.row_begin + t, head});
          ASSERT_NE(found, results_.end()) << "row " << segment.row_begin + t;
          const Chain& chain = found->second;
          ASSERT_FALSE(chain.empty());
          const int n_before = first - chain.front().first;  // chunks that it does not see
          ASSERT_GE(n_before, 0);
          ASSERT_GE(chain.size(), expected.size() + static_cast<size_t>(n_before));
          const auto begin = chain.begin() + n_before;
          EXPECT_EQ(Chain(begin, begin + static_cast<ptrdiff_t>(expected.size())), expected)
              << "row " << segment.row_begin + t << ", KV head " << head;
          for (size_t i = 1; i < chain.size(); ++i) EXPECT_EQ(chain[i].first, chain[i - 1].first + 1);
        }
      }
    }
  }

  [[nodiscard]] const AttentionPlan& plan() const { return plan_; }
  /// Chunks that are read, over all units.
  [[nodiscard]] int n_chunks_read() const { return n_chunks_read_; }

 private:
  static std::vector<size_t> capacities_of(const AttentionPlan& plan) {
    return {plan.early.units.capacity(), plan.late.units.capacity(), plan.finishes.capacity(), plan.rows.capacity(),
            plan.page_pointers.capacity()};
  }
  static const std::byte* page(const ForwardSegment& segment, int chunk) {
    return kPageBase + static_cast<size_t>(segment.pages[static_cast<size_t>(chunk)]) * kPageBytes;
  }

  void run(const PlannedUnit& unit) {
    n_chunks_read_ += unit.end_chunk - unit.first_chunk;
    EXPECT_LE(unit.n_tokens + unit.n_padding_tokens, std::max(1, kMaxAttentionRows / shape_.group_size()));
    for (int t = 0; t < unit.n_tokens; ++t) {
      for (int h = 0; h < shape_.group_size(); ++h) {
        const ptrdiff_t i = t * shape_.group_size() + h;
        Chain chain;
        if (unit.before != PlannedUnit::kNoState) {
          EXPECT_TRUE(gone_on_from_.insert(unit.before + i).second) << "two units may merge into one state";
          chain = chain_of(unit.before + i, unit.rest + i, unit.n_rest, unit.chunk_stride);
        }
        for (int c = unit.first_chunk; c < unit.end_chunk; ++c) {
          const std::pair entry(c, plan_.page_pointers[unit.pages_begin + static_cast<size_t>(c)]);
          chain.push_back(entry);
          if (unit.chunk_states == PlannedUnit::kNoState) continue;
          put(unit.chunk_states + (c - unit.first_chunk) * unit.chunk_stride + i, {entry});
        }
        if (unit.state != PlannedUnit::kNoState) put(unit.state + i, chain);
        if (unit.state == PlannedUnit::kNoState && unit.chunk_states == PlannedUnit::kNoState) {
          finish(plan_.rows[unit.rows_begin + static_cast<size_t>(t)], unit.kv_head, h, chain);
        }
      }
    }
  }

  void run(const PlannedFinish& planned) {
    for (int head = 0; head < shape_.group_size(); ++head) {
      finish(plan_.rows[planned.row_idx], planned.kv_head, head,
             chain_of(planned.first + head, planned.rest + head, planned.n_rest, planned.chunk_stride));
    }
  }

  /// What the first stage has left in a state, and in those of n_rest chunks behind it.
  [[nodiscard]] Chain chain_of(ptrdiff_t state, ptrdiff_t rest, int n_rest, ptrdiff_t stride) const {
    Chain chain = states_of_first_stage_.at(state);
    for (int c = 0; c < n_rest; ++c) {
      const Chain& chunk = states_of_first_stage_.at(rest + c * stride);
      chain.insert(chain.end(), chunk.begin(), chunk.end());
    }
    return chain;
  }

  void put(ptrdiff_t state, const Chain& chain) {
    EXPECT_LT(static_cast<size_t>(state), AttentionPlan::max_states(static_cast<size_t>(n_rows_), shape_));
    EXPECT_TRUE(states_.emplace(state, chain).second) << "state " << state << " is written twice";
  }

  void finish(int row, int kv_head, int head, const Chain& chain) {
    if (head == 0) {
      EXPECT_TRUE(results_.emplace(std::pair(row, kv_head), chain).second) << "row " << row << " is written twice";
    } else {
      EXPECT_EQ(results_.at({row, kv_head}), chain);
    }
  }

  KvShape shape_;
  AttentionPlan plan_;
  std::vector<Sequence> sequences_;  // whose pages the segments see
  std::vector<ForwardSegment> segments_;
  int n_rows_ = 0;
  int n_chunks_read_ = 0;
  std::map<ptrdiff_t, Chain> states_;
  std::map<ptrdiff_t, Chain> states_of_first_stage_;
  std::set<ptrdiff_t> gone_on_from_;
  std::map<std::pair<int, int>, Chain> results_;
};

int n_chunks(const PlannedUnit& unit) { return unit.end_chunk - unit.first_chunk; }

/// Chunks x (rows, and what reading them costs), of the busiest thread over the mean, if each takes the costliest unit
/// left.
double unevenness(const Simulation& simulation, const KvShape& shape, int n_threads) {
  std::vector<int> costs;
  for (const PlannedUnit& unit : simulation.plan().early.units)
    costs.push_back(n_chunks(unit) * (16 + unit.n_tokens * shape.group_size()));
  std::sort(costs.rbegin(), costs.rend());
  std::vector<int> loads(static_cast<size_t>(n_threads));
  for (const int cost : costs) *std::min_element(loads.begin(), loads.end()) += cost;
  return double{1} * n_threads * *std::max_element(loads.begin(), loads.end()) /
         std::accumulate(loads.begin(), loads.end(), 0);
}

KvShape shape_of(int n_heads, int n_kv_heads) { return {n_heads, n_kv_heads, 64, 0}; }

/// Siblings of two prompts among others: ragged, verifying, with partial pages, beside a prompt's chunk.
std::vector<Sequence> mixed_batch() {
  const std::vector<PageId> prompt = pages_for(70, 10);        // two whole pages and a partial one
  const std::vector<PageId> other_prompt = pages_for(96, 20);  // three whole pages
  const std::vector<PageId> whole(prompt.begin(), prompt.begin() + 2);
  return {{75, 4, true, pages_for(79, 100, whole)},
          {500, 1, true, pages_for(501, 200)},
          {0, 1, true, pages_for(1, 250)},
          {96, 1, true, pages_for(97, 300, other_prompt)},
          {70, 1, true, pages_for(71, 400, whole)},
          {64, 50, false, pages_for(114, 500)},
          {90, 33, true, pages_for(123, 600, whole)},
          {130, 7, true, pages_for(137, 700, other_prompt)},
          {31, 2, true, pages_for(33, 800)},
          {101, 2, true, pages_for(103, 900, {other_prompt.begin(), other_prompt.begin() + 1})}};
}

/// Samples of a prompt of n_prompt positions, which verify 1, 2, ... tokens.
std::vector<Sequence> samples_of(int n_prompt, int n_samples, int max_tokens) {
  const std::vector<PageId> prompt = pages_for(n_prompt, 0);
  std::vector<Sequence> samples;
  for (int i = 0; i < n_samples; ++i) {
    const int start = n_prompt + 5 * i;
    const int n_tokens = 1 + i % max_tokens;
    samples.push_back({start, n_tokens, true, pages_for(start + n_tokens, 1000 + 100 * i, prompt)});
  }
  return samples;
}

TEST(AttentionPlan, EveryRowSeesItsChunksInOrder) {
  for (const AttentionKind kind :
       {AttentionKind::kPad, AttentionKind::kSplit, AttentionKind::kSplitGrouped, AttentionKind::kFused}) {
    for (const KvShape& shape : {shape_of(9, 3), shape_of(1, 1), shape_of(32, 8), shape_of(64, 2)}) {
      for (const int n_threads : {1, 2, 8, 100}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + ": " + std::to_string(shape.n_heads) + " heads, " +
                     std::to_string(n_threads) + " threads");
        Simulation(kind, mixed_batch(), shape, n_threads).expect_right();
        Simulation(kind, {{4000, 3, true, pages_for(4003, 0)}}, shape, n_threads).expect_right();
        // The longest draft takes several units, and the last segment is the shortest.
        Simulation(kind, {{40, 110, true, pages_for(150, 0)}, {70, 1, true, pages_for(71, 20)}}, shape, n_threads)
            .expect_right();
        Simulation(kind, {}, shape, n_threads).expect_right();
      }
    }
  }
}

// Of windows, chunks in front of them are not read, be they shared or not.
TEST(AttentionPlan, EveryRowSeesTheChunksOfItsWindow) {
  for (const AttentionKind kind : {AttentionKind::kPad, AttentionKind::kSplit, AttentionKind::kFused}) {
    for (const int n_threads : {1, 2, 8, 100}) {
      for (const int window : {40, 1000}) {
        SCOPED_TRACE(std::to_string(n_threads) + " threads, a window of " + std::to_string(window));
        Simulation(kind, mixed_batch(), shape_of(9, 3), n_threads, window).expect_right();
        Simulation(kind, {{4000, 3, true, pages_for(4003, 0)}}, shape_of(9, 3), n_threads, window).expect_right();
        const Simulation samples(kind, samples_of(2048, 6, 3), shape_of(9, 3), n_threads, window);
        samples.expect_right();
        const auto is_early = [](const PlannedUnit& unit) { return unit.first_chunk < (2048 - 1000) / kKvPageLen; };
        const std::vector<PlannedUnit>& units = samples.plan().early.units;
        EXPECT_TRUE(std::none_of(units.begin(), units.end(), is_early));
      }
    }
  }
}

TEST(AttentionPlan, ReadsAPromptOnceForAllItsSamples) {
  std::vector<Sequence> samples;
  const std::vector<PageId> prompt = pages_for(320, 0);
  for (int i = 0; i < 30; ++i) samples.push_back({325 + i % 7, 1, true, pages_for(340, 100 + 10 * i, prompt)});
  const KvShape shape = shape_of(3, 3);
  const Simulation fused(AttentionKind::kFused, samples, shape, 1);
  fused.expect_right();
  EXPECT_EQ(fused.n_chunks_read(), (10 + 30) * shape.n_kv_heads);
  EXPECT_EQ(Simulation(AttentionKind::kSplit, samples, shape, 1).n_chunks_read(), 30 * 11 * shape.n_kv_heads);
}

/// A text behind n_shared positions of `begin`, all of one length.
Sequence behind(const std::vector<PageId>& begin, size_t n_shared_pages, int id) {
  const std::vector<PageId> shared(begin.begin(), begin.begin() + static_cast<ptrdiff_t>(n_shared_pages));
  return {640, 1, true, pages_for(641, 1000 * id, shared)};
}

// Texts that begin alike, some for longer than others: a chunk can be read for one group only, and that one is chosen
// which saves most.
TEST(AttentionPlan, DividesTextsThatBeginAlikeWhereThatSavesMost) {
  const KvShape shape = shape_of(1, 1);
  const std::vector<PageId> system = pages_for(640, 0);
  const std::vector<PageId> first = pages_for(640, 100, {system.begin(), system.begin() + 2});
  const std::vector<PageId> second = pages_for(640, 200, {system.begin(), system.begin() + 2});
  // Four samples of one text and three of another, which share two pages; both beside a text that shares one.
  std::vector<Sequence> batch;
  for (int i = 0; i < 4; ++i) batch.push_back(behind(first, 19, 1 + i));
  for (int i = 0; i < 3; ++i) batch.insert(batch.begin() + 2 * i, behind(second, 17, 11 + i));
  batch.push_back(behind(system, 1, 21));
  const Simulation divided(AttentionKind::kFused, batch, shape, 1);
  divided.expect_right();
  EXPECT_EQ(divided.n_chunks_read(), (19 + 4 * 2) + (17 + 3 * 4) + 21);
  // Many texts that share most of what they have, two of them a page more.
  batch.clear();
  for (int i = 0; i < 6; ++i) batch.push_back(behind(first, i % 3 == 0 ? 16 : 15, 1 + i));
  const Simulation together(AttentionKind::kFused, batch, shape, 1);
  together.expect_right();
  EXPECT_EQ(together.n_chunks_read(), 15 + 6 * 6);
}

// Of many texts each of which goes on behind a page more of one document: as good as any division, and soon found.
TEST(AttentionPlan, DividesManyTextsThatBeginAlike) {
  const KvShape shape = shape_of(1, 1);
  for (const int n : {2, 5, 19}) {
    std::vector<Sequence> batch;
    const std::vector<PageId> document = pages_for(640, 0);
    for (int i = 0; i < n; ++i) batch.push_back(behind(document, static_cast<size_t>(1 + i), 1 + i));
    const Simulation simulation(AttentionKind::kFused, batch, shape, 1);
    simulation.expect_right();
    int n_saved = 0;  // by the texts from i on together, which share 1 + i pages
    for (int i = 0; i < n; ++i) n_saved = std::max(n_saved, (n - i - 1) * (1 + i));
    EXPECT_EQ(simulation.n_chunks_read(), 21 * n - n_saved);
  }
}

// What is shared has to be worth that each member's own chunks stay whole.
TEST(AttentionPlan, ALongTextIsCutThoughItSharesItsFirstPage) {
  const std::vector<PageId> document = pages_for(640, 0);
  std::vector<Sequence> batch = {{16000, 1, true, pages_for(16001, 1000, {document.begin(), document.begin() + 1})}};
  batch.push_back(behind(document, 1, 30));
  const Simulation simulation(AttentionKind::kFused, batch, shape_of(32, 8), 16);
  simulation.expect_right();
  EXPECT_TRUE(simulation.plan().late.units.empty());
  EXPECT_LT(unevenness(simulation, shape_of(32, 8), 16), 1.3);
}

// Of a window, members whose windows begin behind what is shared do not save its reading.
TEST(AttentionPlan, WhatAWindowLeavesOutIsNotSaved) {
  const std::vector<PageId> document = pages_for(6000, 0);
  std::vector<Sequence> batch;
  for (int i = 0; i < 3; ++i) batch.push_back({6000, 1, true, pages_for(6001, 1000 * (1 + i), document)});
  batch.push_back({1100, 1, true, pages_for(1101, 9000, {document.begin(), document.begin() + 32})});
  const Simulation simulation(AttentionKind::kFused, batch, shape_of(1, 1), 1, /*window=*/512);
  simulation.expect_right();
  // 187 whole pages of 6000 positions, of which the last 16 are in the window, and a partial page each; 17 of 1101.
  EXPECT_EQ(simulation.n_chunks_read(), 16 + 3 * 1 + 17);
}

// A page in which some row is, or that a row does not see whole, is no shared chunk.
TEST(AttentionPlan, SharesOnlyWholeChunksThatAllSee) {
  const std::vector<PageId> prompt = pages_for(64, 0);
  const std::vector<Sequence> forks = {{40, 1, true, prompt}, {64, 1, true, pages_for(65, 9, prompt)}};
  const Simulation fused(AttentionKind::kFused, forks, shape_of(1, 1), 1);
  fused.expect_right();
  ASSERT_EQ(fused.plan().early.units.size(), 1u);
  EXPECT_EQ(fused.plan().early.units[0].end_chunk, 1);
  const std::vector<Sequence> strangers = {{64, 1, true, pages_for(65, 0)}, {64, 1, true, pages_for(65, 20)}};
  EXPECT_TRUE(Simulation(AttentionKind::kFused, strangers, shape_of(1, 1), 1).plan().late.units.empty());
}

TEST(AttentionPlan, CutsWhatThreadsWouldWaitFor) {
  std::vector<Sequence> batch = {{8000, 1, true, pages_for(8001, 0)}};
  for (int i = 0; i < 6; ++i) batch.push_back({60 + i, 1, true, pages_for(100, 1000 + 10 * i)});
  for (const int n_threads : {1, 2, 4, 32}) {
    const Simulation fused(AttentionKind::kFused, batch, shape_of(9, 3), n_threads);
    fused.expect_right();
    EXPECT_LE(unevenness(fused, shape_of(9, 3), n_threads), 1.15) << n_threads;
  }
  EXPECT_TRUE(Simulation(AttentionKind::kSplit, batch, shape_of(9, 3), 4).plan().finishes.empty());
}

// A few samples are one unit a KV head, whatever the number of threads.
TEST(AttentionPlan, CutsSharedChunksThatThreadsWouldWaitFor) {
  for (const auto& [n_samples, max_tokens] : {std::pair(2, 1), {8, 1}, {8, 4}, {30, 9}}) {
    for (const KvShape& shape : {shape_of(9, 3), shape_of(8, 8), shape_of(8, 1)}) {
      for (const int n_threads : {1, 2, 16, 64}) {
        SCOPED_TRACE(std::to_string(n_samples) + " samples, " + std::to_string(shape.n_kv_heads) + " KV heads, " +
                     std::to_string(n_threads) + " threads");
        const Simulation fused(AttentionKind::kFused, samples_of(2048, n_samples, max_tokens), shape, n_threads);
        fused.expect_right();
        int n_longest = 0;
        for (const PlannedUnit& unit : fused.plan().early.units) n_longest = std::max(n_longest, n_chunks(unit));
        // 16 runs of a unit are the most.
        const double least = std::max(1.0, n_threads / (16.0 * shape.n_kv_heads));
        EXPECT_LE(unevenness(fused, shape, n_threads), 1.3 * least) << n_longest;
        EXPECT_TRUE(n_threads > 1 || n_longest == 64) << "cut for nothing";
      }
    }
  }
}

// Other work keeps the threads busy: the prompt stays whole. What has no room for its states does too.
TEST(AttentionPlan, LeavesSharedChunksWhole) {
  std::vector<Sequence> batch = samples_of(320, 4, 1);
  for (int i = 0; i < 40; ++i) batch.push_back({600, 1, true, pages_for(601, 5000 + 50 * i)});
  const auto has_rest = [](const PlannedUnit& unit) { return unit.n_rest > 0; };
  const Simulation busy(AttentionKind::kFused, batch, shape_of(9, 3), 8);
  busy.expect_right();
  EXPECT_TRUE(std::none_of(busy.plan().late.units.begin(), busy.plan().late.units.end(), has_rest));
  const KvShape wide{512, 1, 128, 0};
  const auto long_samples = samples_of(120'000, 2, 1);
  const Simulation too_long(AttentionKind::kFused, long_samples, wide, 64);
  too_long.expect_right();
  EXPECT_TRUE(std::none_of(too_long.plan().late.units.begin(), too_long.plan().late.units.end(), has_rest));
}

TEST(AttentionPlan, SharesAreEvenAndBeginWithTheLongest) {
  std::vector<Sequence> batch;
  for (int i = 0; i < 32; ++i) batch.push_back({90 + 40 * (i % 5), 1, true, pages_for(300, 10 * i)});
  for (const int n_threads : {1, 2, 7, 200}) {
    const Simulation fused(AttentionKind::kFused, batch, shape_of(9, 3), n_threads);
    const AttentionPlan::Stage& stage = fused.plan().early;
    EXPECT_EQ(stage.share(0).begin, 0);
    EXPECT_EQ(stage.share(n_threads - 1).end, static_cast<int>(stage.units.size()));
    for (int t = 0; t < n_threads; ++t) {
      const WorkRange share = stage.share(t);
      EXPECT_EQ(share.begin, t == 0 ? 0 : stage.share(t - 1).end);
      int n_share_chunks = 0;
      for (int i = share.begin; i < share.end; ++i) {
        const PlannedUnit& unit = stage.units[static_cast<size_t>(i)];
        EXPECT_EQ(unit.thread, t);
        if (i > share.begin) {
          EXPECT_LE(n_chunks(unit), n_chunks(stage.units[static_cast<size_t>(i) - 1]));
        }
        n_share_chunks += n_chunks(unit);
      }
      const int n_even = fused.n_chunks_read() / n_threads;
      EXPECT_LE(std::abs(n_share_chunks - n_even), 8) << t << " of " << n_threads;  // the longest unit has 8
    }
  }
}

// What is fetched in front of attention is what a thread's share reads, each place once, and nothing of prompts.
TEST(AttentionPlan, KnowsWhatEachShareReads) {
  const std::vector<Sequence> batch = {{70, 1, true, pages_for(71, 0)},     // three chunks
                                       {32, 3, true, pages_for(35, 10)},    // two
                                       {0, 64, false, pages_for(64, 20)}};  // a prompt
  KvShape shape = shape_of(9, 3);
  shape.layer_bytes = 3 * shape.head_bytes();
  for (const int n_threads : {1, 2}) {
    const Simulation fused(AttentionKind::kFused, batch, shape, n_threads);
    std::vector<const std::byte*> found;
    for (int t = 0; t < n_threads; ++t) {
      FetchQueue queue = fused.plan().cached_heads(t);
      EXPECT_EQ(queue.n_bytes_left(), queue.n_blocks * static_cast<ptrdiff_t>(shape.head_bytes()));
      while (const std::byte* head = queue.take(queue.block_bytes)) found.push_back(head);
      EXPECT_EQ(queue.n_bytes_left(), 0);
    }
    std::vector<const std::byte*> expected;
    for (const int page : {0, 1, 2, 10, 11}) {
      for (size_t head = 0; head < 3; ++head) {
        expected.push_back(kPageBase + static_cast<size_t>(page) * kPageBytes + head * shape.head_bytes());
      }
    }
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected);
  }
}

// Long contexts are fetched as far as caches hold them.
TEST(AttentionPlan, FetchesNoMoreThanCachesHold) {
  const Simulation fused(AttentionKind::kFused, {{8000, 1, true, pages_for(8001, 0)}}, shape_of(9, 3), 1);
  const FetchQueue queue = fused.plan().cached_heads(0);
  EXPECT_GT(queue.n_bytes_left(), 1 << 20);
  EXPECT_LE(queue.n_bytes_left(), 2 << 20);
}

TEST(AttentionPlan, LeavesUnitsWholeThatKeepAllThreadsBusy) {
  const std::vector<Sequence> batch = {{8000, 1, true, pages_for(8001, 0)}};
  EXPECT_TRUE(Simulation(AttentionKind::kFused, batch, shape_of(8, 2), 2).plan().finishes.empty());
  EXPECT_FALSE(Simulation(AttentionKind::kFused, batch, shape_of(9, 3), 2).plan().finishes.empty());
}

}  // namespace
}  // namespace bass::cpu
