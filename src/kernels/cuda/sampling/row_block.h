// What the 512 threads of a block do together for a vocabulary row: walk over it, join their results, and add up.
//
// Sums have the CPU's order: 16 lanes, entry i in lane i % 16, ascending, then a fixed tree. Twelve warps compute the
// terms, a tile at a time, while the first warp adds up the tile in front: a chain of n / 16 additions of 4 cycles
// each, 7 us for 49152 entries, beside which the exponentials cost nothing. Nothing may hold that chain up: a lane's
// terms lie in shared memory by fours and are in registers some additions before they are needed, and the first warp
// has its scheduler to itself, as the other warps of that one (a multiprocessor has four, and warps go round) wait
// meanwhile. So that the twelve do not wait for global memory, a tile's entries are asked for a tile ahead.
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

/// A tile of terms: so many quads of each thread that computes some.
inline constexpr int kSchedulers = 4;
inline constexpr int kWorkers = kRowBlockThreads / kSchedulers * (kSchedulers - 1);
inline constexpr int kWorkerQuads = 2;
inline constexpr int kTileQuads = kWorkerQuads * kWorkers;
inline constexpr int kTermTile = kQuadLen * kTileQuads;
/// Quads of a lane that are added up while the next ones are on their way to registers: 24 additions, 96 cycles.
inline constexpr int kQuadsAhead = 6;
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
  static void count(SharedBytes& bytes) { bytes.add<Quad>(2 * kTileQuads).add<uint64_t>(kMaxWords * kRowBlockWarps); }

  [[nodiscard]] BASS_HD Context& context() { return context_; }
  [[nodiscard]] BASS_HD int thread() const { return context_.thread(); }
  BASS_HD void sync() { context_.sync(); }

  /// use(i, load(i)) for each i below n, by one of the threads. A thread has kInFlight loads on their way, so `use`
  /// must not write what `load` reads of another entry.
  template <int kInFlight = 8, class Load, class Use>
  BASS_HD void each(int n, Load load, Use use) {
    constexpr int kLast = (kInFlight - 1) * kRowBlockThreads;
    decltype(load(0)) loaded[kInFlight];
    int begin = thread();
    for (; begin + kLast < n; begin += kInFlight * kRowBlockThreads) {
      BASS_UNROLL
      for (int k = 0; k < kInFlight; ++k) loaded[k] = load(begin + k * kRowBlockThreads);
      BASS_UNROLL
      for (int k = 0; k < kInFlight; ++k) use(begin + k * kRowBlockThreads, loaded[k]);
    }
    if (begin >= n) return;
    BASS_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      const int i = begin + k * kRowBlockThreads;
      loaded[k] = load(i < n ? i : begin);  // without branches, which would take one load after the other
    }
    BASS_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      if (begin + k * kRowBlockThreads < n) use(begin + k * kRowBlockThreads, loaded[k]);
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
  template <class T>
  BASS_HD T least(T value) {
    return reduce(value, [](T a, T b) { return a < b ? a : b; });
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
    const bool works = context_.warp() % kSchedulers != 0;
    const bool adds = context_.warp() == 0;
    Loaded loaded[kWorkerQuads][kQuadLen];
    if (works) load_terms(0, n, nothing, load, loaded);
    float lane_sum = 0;
    int turn = 0;
    for (int base = 0; base < n; base += kTermTile, turn ^= 1) {
      Quad* tile = quads_ + turn * kTileQuads;
      if (works) {
        write_terms(base, loaded, term, tile);
        load_terms(base + kTermTile, n, nothing, load, loaded);
      }
      sync();
      if (adds) lane_sum = add_quads(tile, n - base, lane_sum);
    }
    if (adds) lane_sum = sum_16_lanes(context_, lane_sum);
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

  /// A quad of a thread that computes terms, and the first of its entries; those of 16 quads, one a lane, are 64 that
  /// follow each other.
  [[nodiscard]] BASS_HD int place_of_quad(int quad) const {
    const auto worker = static_cast<unsigned>(thread() - (context_.warp() / kSchedulers + 1) * kWarpLen);
    return static_cast<int>(worker) + quad * kWorkers;
  }
  [[nodiscard]] BASS_HD int entry_of_quad(int quad) const {
    const auto place = static_cast<unsigned>(place_of_quad(quad));
    return static_cast<int>(place / kLanes * (kLanes * kQuadLen) + place % kLanes);
  }

  template <class Loaded, class Load>
  BASS_HD void load_terms(int base, int n, Loaded nothing, Load load, Loaded (&loaded)[kWorkerQuads][kQuadLen]) const {
    const bool is_whole = base + kTermTile <= n;
    BASS_UNROLL
    for (int quad = 0; quad < kWorkerQuads; ++quad) {
      const int first = base + entry_of_quad(quad);
      if (is_whole) {
        BASS_UNROLL
        for (int k = 0; k < kQuadLen; ++k) loaded[quad][k] = load(first + k * kLanes);
        continue;
      }
      BASS_UNROLL
      for (int k = 0; k < kQuadLen; ++k) loaded[quad][k] = first + k * kLanes < n ? load(first + k * kLanes) : nothing;
    }
  }

  template <class Loaded, class Term>
  BASS_HD void write_terms(int base, const Loaded (&loaded)[kWorkerQuads][kQuadLen], Term term, Quad* tile) const {
    BASS_UNROLL
    for (int quad = 0; quad < kWorkerQuads; ++quad) {
      const int first = base + entry_of_quad(quad);
      Quad terms;
      BASS_UNROLL
      for (int k = 0; k < kQuadLen; ++k) terms.x[k] = term(first + k * kLanes, loaded[quad][k]);
      tile[place_of_quad(quad)] = terms;
    }
  }

  /// sum + the terms of the thread's lane, in order; both halves of the warp do the same. n: entries from the tile's
  /// first on
  BASS_HD float add_quads(const Quad* tile, int n, float sum) const {
    constexpr int kEntries = kLanes * kQuadLen * kQuadsAhead;
    const int last = ceil_div(n < kTermTile ? n : kTermTile, kEntries) - 1;
    Quad even[kQuadsAhead], odd[kQuadsAhead];
    read_quads(tile, 0, even);
    for (int turn = 0;; turn += 2) {
      read_quads(tile, turn < last ? turn + 1 : last, odd);
      sum = add_in_order(even, sum);
      if (turn >= last) return sum;
      read_quads(tile, turn + 1 < last ? turn + 2 : last, even);
      sum = add_in_order(odd, sum);
      if (turn + 1 >= last) return sum;
    }
  }
  BASS_HD void read_quads(const Quad* tile, int turn, Quad (&quads)[kQuadsAhead]) const {
    const Quad* from = tile + turn * (kLanes * kQuadsAhead) + thread() % kLanes;
    BASS_UNROLL
    for (int i = 0; i < kQuadsAhead; ++i) quads[i] = from[i * kLanes];
  }
  BASS_HD static float add_in_order(const Quad (&quads)[kQuadsAhead], float sum) {
    BASS_UNROLL
    for (int i = 0; i < kQuadsAhead; ++i) {
      BASS_UNROLL
      for (int k = 0; k < kQuadLen; ++k) sum = sum + quads[i].x[k];
    }
    return sum;
  }

  Context& context_;
  Quad* quads_;      // [2, kTileQuads]
  uint64_t* words_;  // [kRowBlockWarps, kMaxWords]
};

/// In the place of a context where only sizes are asked for.
struct NoContext;

}  // namespace bass::cuda
