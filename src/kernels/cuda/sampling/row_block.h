// Vocabulary rows by one block each: the CPU's functions (kernels/cpu/kernels.h, "Vocabulary rows") with their bits.
//
// What is exact (maxima, arguments of maxima, counts) is found by all threads in any order. Sums have the CPU's order:
// 16 lanes, entry i in lane i % 16, ascending, then a fixed tree. The terms are computed by all warps but the first, a
// tile at a time, while the first one's 16 lanes add up the tile in front: a chain of n / 16 additions, 7 us for 49152
// entries, beside which the exponentials cost nothing.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/arithmetic.h"

namespace bass::cuda {

inline constexpr int kRowBlockThreads = 512;
inline constexpr int kRowBlockWarps = kRowBlockThreads / kWarpLen;
/// Terms that are computed before they are added up.
inline constexpr int kTermTile = 4096;
static_assert(kTermTile % kLanes == 0);

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
    terms_ = context.template shared<float>(2 * kTermTile);
    words_ = context.template shared<uint64_t>(kRowBlockWarps + 1);
  }
  static void count(SharedBytes& bytes) { bytes.add<float>(2 * kTermTile).add<uint64_t>(kRowBlockWarps + 1); }

  [[nodiscard]] BASS_HD Context& context() { return context_; }
  [[nodiscard]] BASS_HD int thread() const { return context_.thread(); }
  BASS_HD void sync() { context_.sync(); }

  /// The result of joining all threads' values, in any order.
  template <class T, class Join>
  BASS_HD T reduce(T value, Join join) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    for (int step = kWarpLen / 2; step >= 1; step /= 2) {
      uint64_t word = 0;
      memcpy(&word, &value, sizeof(T));
      word = context_.shuffle_xor(word, step);
      T other;
      memcpy(static_cast<void*>(&other), &word, sizeof(T));
      value = join(value, other);
    }
    sync();  // an earlier reduction's words have been read
    if (context_.lane() == 0) memcpy(&words_[context_.warp()], &value, sizeof(T));
    sync();
    memcpy(static_cast<void*>(&value), &words_[0], sizeof(T));
    for (int warp = 1; warp < kRowBlockWarps; ++warp) {
      T other;
      memcpy(static_cast<void*>(&other), &words_[warp], sizeof(T));
      value = join(value, other);
    }
    return value;
  }
  BASS_HD Leader lead(Leader mine) {
    return reduce(mine, [](Leader a, Leader b) {
      a.offer(b.score, b.entry);
      return a;
    });
  }
  BASS_HD bool any(bool mine) {
    return reduce(mine ? 1 : 0, [](int a, int b) { return a | b; }) != 0;
  }

  /// The sum of term(i), i < n, in 16 lanes and the fixed tree.
  template <class Term>
  BASS_HD float sum_in_lanes(int n, Term term) {
    const int worker = thread() - kWarpLen;
    float lane_sum = 0;
    int turn = 0;
    for (int base = 0; base < n; base += kTermTile, turn ^= 1) {
      const int len = n - base < kTermTile ? n - base : kTermTile;
      float* terms = terms_ + turn * kTermTile;
      for (int i = worker; i < len && worker >= 0; i += kRowBlockThreads - kWarpLen) terms[i] = term(base + i);
      sync();
      for (int i = thread(); i < len && thread() < kLanes; i += kLanes) lane_sum = lane_sum + terms[i];
    }
    sync();  // the next sum may write where this one reads
    float sum = 0;
    if (context_.warp() == 0) sum = sum_16_lanes(context_, lane_sum);
    if (thread() == 0) memcpy(&words_[kRowBlockWarps], &sum, sizeof(sum));
    sync();
    memcpy(&sum, &words_[kRowBlockWarps], sizeof(sum));
    return sum;
  }

 private:
  Context& context_;
  float* terms_;     // [2, kTermTile]
  uint64_t* words_;  // [kRowBlockWarps + 1]
};

/// In the place of a context where only sizes are asked for.
struct NoContext;

BASS_HD bool keeps(const cpu::KeptSet& kept, float z, int32_t entry) {
  return z > kept.cut_value || (z == kept.cut_value && entry <= kept.cut_id);
}
BASS_HD float kept_or_nothing(const cpu::KeptSet& kept, float z, int32_t entry) {
  return keeps(kept, z, entry) ? z : -kInf;
}

template <class Context>
BASS_HD cpu::RowStats row_stats(RowBlock<Context>& block, const float* row, int n) {
  float highest = -kInf;
  bool has_nan = false;
  for (int i = block.thread(); i < n; i += kRowBlockThreads) {
    highest = max_of(row[i], highest);
    has_nan = has_nan || row[i] != row[i];
  }
  cpu::RowStats stats;
  stats.max = block.reduce(highest, [](float a, float b) { return max_of(a, b); });
  const bool is_unusable = block.any(has_nan) || stats.max == kInf || stats.max == -kInf;
  uint32_t first = 0xFFFFFFFFu;
  for (int i = block.thread(); i < n && first == 0xFFFFFFFFu; i += kRowBlockThreads) {
    if (row[i] == stats.max) first = static_cast<uint32_t>(i);
  }
  first = block.reduce(first, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
  stats.argmax = first == 0xFFFFFFFFu ? 0 : static_cast<int32_t>(first);
  stats.log_sum_exp = __builtin_nanf("");
  if (is_unusable) return stats;
  const float max = stats.max;
  const float sum = block.sum_in_lanes(n, [=](int i) { return exp_f32(row[i] - max); });
  stats.log_sum_exp = stats.max + log_f32(sum);
  return stats;
}

template <class Context>
BASS_HD float kept_mass(RowBlock<Context>& block, const float* z, int n, float max, const cpu::KeptSet& kept) {
  return block.sum_in_lanes(n, [=](int i) { return exp_f32(kept_or_nothing(kept, z[i], i) - max); });
}

/// The argmax over kept entries, without `left_out`, of z + Gumbel(stream, token). ids: the entries' tokens; null:
/// entry i is token i.
template <class Context>
BASS_HD int32_t gumbel_argmax(RowBlock<Context>& block, const float* z, const int32_t* ids, int n,
                              const cpu::KeptSet& kept, const RandomStream& stream, int32_t left_out = -1) {
  Leader mine;
  for (int base = 4 * block.thread(); base < n; base += 4 * kRowBlockThreads) {
    lane::NoiseBlock words{};
    if (ids == nullptr) words = lane::philox_words(stream, {base / 4});
    BASS_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int32_t i = base + k;
      if (i >= n || i == left_out || !(kept_or_nothing(kept, z[i], i) > -kInf)) continue;
      const lane::I32x16 bits = ids == nullptr ? words.bits[k] : lane::noise_bits_of(stream, {ids[i]});
      mine.offer(z[i] + lane::gumbel_of(bits).v, i);
    }
  }
  return block.lead(mine).entry;
}

/// p_i of a row; 0 past its end.
BASS_HD float row_probability(const cpu::ProbabilityRow& row, int i) {
  return exp_f32((i < row.n ? kept_or_nothing(row.kept, row.z[i], i) : -kInf) - row.log_norm);
}

template <class Context>
BASS_HD int32_t residual_argmax(RowBlock<Context>& block, const cpu::ProbabilityRow& p, float factor,
                                const cpu::ProbabilityRow& q, const RandomStream& stream) {
  Leader mine;
  for (int base = 4 * block.thread(); base < p.n; base += 4 * kRowBlockThreads) {
    const lane::NoiseBlock words = lane::philox_words(stream, {base / 4});
    BASS_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int32_t i = base + k;
      if (i >= p.n) continue;
      const float mass = fmaf(factor, row_probability(p, i), -row_probability(q, i));
      if (!(mass > 0.0f)) continue;
      const float score = mass / lane::exponential_of(words.bits[k]).v;
      if (score > 0.0f) mine.offer(score, i);
    }
  }
  return block.lead(mine).entry;
}

template <class Context>
BASS_HD float overlap(RowBlock<Context>& block, const cpu::ProbabilityRow& p, float factor,
                      const cpu::ProbabilityRow& q, const int32_t* ids) {
  const int n = ids == nullptr && p.n < q.n ? p.n : q.n;
  return block.sum_in_lanes(n, [=](int i) {
    const int t = ids == nullptr ? i : ids[i];
    return min_of(factor * row_probability(p, t), row_probability(q, i));
  });
}

}  // namespace bass::cuda
