// What the 512 threads of a block do together for a vocabulary row: walk over it, join their results, and add up.
//
// Sums have the CPU's order: 16 lanes, entry i in lane i % 16, ascending, then a fixed tree. The terms are computed by
// all warps but the first, a tile at a time, while the first one adds up the tile in front: a chain of n / 16 additions
// of 4 cycles each, 7 us for 49152 entries, beside which the exponentials cost nothing. So that the chain never waits
// for shared memory, a lane's terms lie in it by fours and are in registers some additions before they are needed; and
// so that no warp waits for global memory, a tile's entries are asked for a tile ahead.
#pragma once

#include "kernels/cuda/arithmetic.h"

namespace bass::cuda {

inline constexpr int kRowBlockThreads = 512;
inline constexpr int kRowBlockWarps = kRowBlockThreads / kWarpLen;

/// Terms of one lane that follow each other, moved at once.
inline constexpr int kQuadLen = 4;
struct alignas(16) Quad {
  float x[kQuadLen];
};

/// A tile of terms: this many quads of each thread but the first warp's; they hold kTermTile terms.
inline constexpr int kWorkers = kRowBlockThreads - kWarpLen;
inline constexpr int kWorkerQuads = 2;
inline constexpr int kTileQuads = kWorkerQuads * kWorkers;
inline constexpr int kTermTile = kQuadLen * kTileQuads;
/// Quads of a lane that are in registers while others are on their way there.
inline constexpr int kQuadsAhead = 4;
static_assert(kWorkers % kLanes == 0 && kTileQuads % (kLanes * kQuadsAhead) == 0);

/// Which of two candidates of an argmax leads: the higher score, of equal ones the lower entry. entry -1: nobody.
struct Leader {
  float score = 0;
  int32_t entry = -1;

  BASS_HD void offer(float other_score, int32_t other_entry) {
    if (other_entry < 0) return;
    const bool is_better = entry < 0 || other_score > score || (other_score == score && other_entry < entry);
    if (!is_better) return;
    score = other_score;
    entry = other_entry;
  }
};

/// A block's shared memory and its collective functions: all threads call them, with the same arguments, and get the
/// same result.
template <class Context>
class RowBlock {
 public:
  BASS_HD explicit RowBlock(Context& context) : context_(context) {
    quads_ = context.template shared<Quad>(2 * kTileQuads);
    words_ = context.template shared<uint64_t>(kMaxWords * kRowBlockWarps);
  }
  static void count(SharedBytes& bytes) {
    bytes.add<Quad>(2 * kTileQuads).add<uint64_t>(kMaxWords * kRowBlockWarps);
  }

  [[nodiscard]] BASS_HD Context& context() { return context_; }
  [[nodiscard]] BASS_HD int thread() const { return context_.thread(); }
  BASS_HD void sync() { context_.sync(); }

  /// use(i, load(i)) for each i below n, by one of the threads. A thread has several loads in flight, so `use` must
  /// not write what `load` reads of another entry.
  template <class Load, class Use>
  BASS_HD void each(int n, Load load, Use use) {
    constexpr int kInFlight = 8;
    for (int begin = thread(); begin < n; begin += kInFlight * kRowBlockThreads) {
      decltype(load(0)) loaded[kInFlight];
      BASS_UNROLL
      for (int k = 0; k < kInFlight; ++k) {
        if (begin + k * kRowBlockThreads < n) loaded[k] = load(begin + k * kRowBlockThreads);
      }
      BASS_UNROLL
      for (int k = 0; k < kInFlight; ++k) {
        if (begin + k * kRowBlockThreads < n) use(begin + k * kRowBlockThreads, loaded[k]);
      }
    }
  }

  /// The result of joining all threads' values, in any order.
  template <class T, class Join>
  BASS_HD T reduce(T value, Join join) {
    constexpr int kWords = static_cast<int>((sizeof(T) + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    static_assert(kWords <= kMaxWords);
    value = reduce_lanes<kWords, kWarpLen>(value, join);
    sync();  // an earlier reduction's words have been read
    if (context_.lane() == 0) memcpy(&words_[context_.warp() * kWords], &value, sizeof(T));
    sync();
    memcpy(static_cast<void*>(&value), &words_[context_.lane() % kRowBlockWarps * kWords], sizeof(T));
    return reduce_lanes<kWords, kRowBlockWarps>(value, join);
  }
  BASS_HD Leader lead(Leader mine) {
    return reduce(mine, [](Leader a, Leader b) {
      a.offer(b.score, b.entry);
      return a;
    });
  }

  /// The sum of term(i, load(i)), i < n, in 16 lanes and the fixed tree. No term is negative. What `load` would give
  /// past the end is `nothing`, whose term is 0.
  template <class Loaded, class Load, class Term>
  BASS_HD float sum_in_lanes(int n, Loaded nothing, Load load, Term term) {
    const int worker = thread() - kWarpLen;  // of the first warp: below 0
    Loaded loaded[kWorkerQuads][kQuadLen];
    if (worker >= 0) load_terms(0, n, nothing, load, loaded);
    float lane_sum = 0;
    int turn = 0;
    for (int base = 0; base < n; base += kTermTile, turn ^= 1) {
      Quad* tile = quads_ + turn * kTileQuads;
      if (worker >= 0) {
        write_terms(base, loaded, term, tile);
        load_terms(base + kTermTile, n, nothing, load, loaded);
      }
      sync();
      if (worker < 0) lane_sum = add_quads(tile, n - base, lane_sum);
    }
    if (worker < 0) lane_sum = sum_16_lanes(context_, lane_sum);
    return broadcast(lane_sum);
  }

 private:
  static constexpr int kMaxWords = 2;  // of a value that is reduced

  template <int kWords, int kLen, class T, class Join>
  BASS_HD T reduce_lanes(T value, Join join) {
    for (int step = kLen / 2; step >= 1; step /= 2) {
      uint64_t words[kWords] = {};
      memcpy(words, &value, sizeof(T));
      BASS_UNROLL
      for (int i = 0; i < kWords; ++i) words[i] = context_.shuffle_xor(words[i], step);
      T other;
      memcpy(static_cast<void*>(&other), words, sizeof(T));
      value = join(value, other);
    }
    return value;
  }

  /// The first thread's value.
  BASS_HD float broadcast(float value) {
    sync();  // an earlier reduction's words have been read, and the terms
    if (thread() == 0) memcpy(&words_[0], &value, sizeof(value));
    sync();
    memcpy(&value, &words_[0], sizeof(value));
    return value;
  }

  /// Entry k of a worker's quad: 16 quads, one a lane, hold 64 entries.
  [[nodiscard]] BASS_HD int entry_of_quad(int quad, int k) const {
    const int place = thread() - kWarpLen + quad * kWorkers;
    return place / kLanes * (kLanes * kQuadLen) + k * kLanes + place % kLanes;
  }

  template <class Loaded, class Load>
  BASS_HD void load_terms(int base, int n, Loaded nothing, Load load, Loaded (&loaded)[kWorkerQuads][kQuadLen]) {
    BASS_UNROLL
    for (int quad = 0; quad < kWorkerQuads; ++quad) {
      BASS_UNROLL
      for (int k = 0; k < kQuadLen; ++k) {
        const int i = base + entry_of_quad(quad, k);
        loaded[quad][k] = nothing;
        if (i < n) loaded[quad][k] = load(i);
      }
    }
  }

  template <class Loaded, class Term>
  BASS_HD void write_terms(int base, const Loaded (&loaded)[kWorkerQuads][kQuadLen], Term term, Quad* tile) {
    BASS_UNROLL
    for (int quad = 0; quad < kWorkerQuads; ++quad) {
      Quad terms;
      BASS_UNROLL
      for (int k = 0; k < kQuadLen; ++k) terms.x[k] = term(base + entry_of_quad(quad, k), loaded[quad][k]);
      tile[thread() - kWarpLen + quad * kWorkers] = terms;
    }
  }

  /// sum + the terms of the thread's lane, in order; both halves of the warp do the same. n: entries from the tile's
  /// first on
  BASS_HD float add_quads(const Quad* tile, int n, float sum) const {
    constexpr int kEntries = kLanes * kQuadLen * kQuadsAhead;
    const int n_turns = ceil_div(n < kTermTile ? n : kTermTile, kEntries);
    const Quad* next = tile + thread() % kLanes;
    Quad ahead[kQuadsAhead];
    read_quads(next, ahead);
    for (int turn = 1; turn <= n_turns; ++turn) {
      Quad now[kQuadsAhead];
      BASS_UNROLL
      for (int i = 0; i < kQuadsAhead; ++i) now[i] = ahead[i];
      next += kLanes * kQuadsAhead;
      if (turn < n_turns) read_quads(next, ahead);
      BASS_UNROLL
      for (int i = 0; i < kQuadsAhead; ++i) {
        BASS_UNROLL
        for (int k = 0; k < kQuadLen; ++k) sum = sum + now[i].x[k];
      }
    }
    return sum;
  }
  BASS_HD static void read_quads(const Quad* from, Quad (&quads)[kQuadsAhead]) {
    BASS_UNROLL
    for (int i = 0; i < kQuadsAhead; ++i) quads[i] = from[i * kLanes];
  }

  Context& context_;
  Quad* quads_;      // [2, kTileQuads]
  uint64_t* words_;  // [kRowBlockWarps, kMaxWords]
};

/// In the place of a context where only sizes are asked for.
struct NoContext;

}  // namespace bass::cuda
