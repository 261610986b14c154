// The CPU's functions of vocabulary rows (kernels/cpu/kernels.h, "Vocabulary rows") by a block, with their bits. What
// is exact (maxima, arguments of maxima) is found by all threads in any order.
#pragma once

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/sampling/row_block.h"

namespace bass::cuda {

BASS_HD bool is_finite(float x) { return x - x == 0.0f; }

/// The highest entry of a row, the lowest of equal ones.
struct RowTop {
  float max = -kInf;
  int32_t argmax = 0;
  bool is_usable = false;  // no entry is a NaN or +inf, and some are finite
};

/// Where there is a place for it, the row times `factor` is left in `scaled` (which may be the row). [n]
template <class Context>
BASS_HD RowTop row_top(RowBlock<Context>& block, const float* row, int n, float factor = 1.0f,
                       float* scaled = nullptr) {
  struct Found {
    Leader leader;
    int32_t n_nans = 0;
  };
  Found mine;
  mine.leader.score = -kInf;
  constexpr int kInFlight = 16;
  block.template each<kInFlight>(
      n, [=](int i) { return row[i]; },
      [&](int i, float x) {
        mine.n_nans += x != x ? 1 : 0;
        if (x > mine.leader.score) mine.leader = {x, i};  // a thread's entries ascend
        if (scaled != nullptr) scaled[i] = x * factor;
      });
  const Found found = block.reduce(mine, [](Found a, const Found& b) {
    a.leader.offer(b.leader.score, b.leader.entry);
    a.n_nans += b.n_nans;
    return a;
  });
  RowTop top;
  top.is_usable = found.leader.entry >= 0 && found.n_nans == 0 && found.leader.score < kInf;
  if (found.leader.entry >= 0) {
    top.max = found.leader.score;
    top.argmax = found.leader.entry;
    return top;
  }
  uint32_t first = static_cast<uint32_t>(n);  // of a row without numbers
  block.each(
      n, [=](int i) { return row[i]; },
      [&](int i, float x) {
        if (x == -kInf && static_cast<uint32_t>(i) < first) first = static_cast<uint32_t>(i);
      });
  first = block.least(first);
  if (first < static_cast<uint32_t>(n)) top.argmax = static_cast<int32_t>(first);
  return top;
}

/// log(sum(exp(row))) of a usable row: a finite number.
template <class Context>
BASS_HD float log_sum_exp(RowBlock<Context>& block, const float* row, int n, float max) {
  const float sum = block.sum_in_lanes(
      n, -kInf, [=](int i) { return row[i]; }, [=](int, float x) { return exp_of_low(x - max); });
  return max + log_f32(sum);
}

template <class Context>
BASS_HD cpu::RowStats row_stats(RowBlock<Context>& block, const float* row, int n) {
  const RowTop top = row_top(block, row, n);
  return {top.max, top.argmax, top.is_usable ? log_sum_exp(block, row, n, top.max) : __builtin_nanf("")};
}

BASS_HD bool keeps(const cpu::KeptSet& kept, float z, int32_t entry) {
  return z > kept.cut_value || (z == kept.cut_value && entry <= kept.cut_id);
}
BASS_HD float kept_or_nothing(const cpu::KeptSet& kept, float z, int32_t entry) {
  return keeps(kept, z, entry) ? z : -kInf;
}

template <class Context>
BASS_HD float kept_mass(RowBlock<Context>& block, const float* z, int n, float max, const cpu::KeptSet& kept) {
  return block.sum_in_lanes(
      n, -kInf, [=](int i) { return z[i]; },
      [=](int i, float x) { return exp_of_low(kept_or_nothing(kept, x, i) - max); });
}

// ---------------------------------------------------------------------------------------------------------------------
// Draws. Most entries cannot win whatever their noise is, and most of the others not with the cheap upper bound of it
// that their random bits give (noise_impl.h), so few logarithms are taken.

/// The random bits of four entries from `first` on. ids: the entries' tokens [n]; null: entry i is token i.
BASS_HD void draw_bits(const int32_t* ids, int first, int n, const RandomStream& stream, int32_t (&bits)[kQuadLen]) {
  if (ids == nullptr) {
    const lane::NoiseBlock words = lane::philox_words(stream, {first / kQuadLen});
    BASS_UNROLL
    for (int k = 0; k < kQuadLen; ++k) bits[k] = words.bits[k].v;
    return;
  }
  BASS_UNROLL
  for (int k = 0; k < kQuadLen; ++k) bits[k] = lane::noise_bits_of(stream, {ids[first + k < n ? first + k : first]}).v;
}

/// Entries of a row from `first` on, of which n exist; nothing past the end.
BASS_HD Quad read_quad(const float* row, int first, int n) {
  if (first + kQuadLen <= n && reinterpret_cast<uintptr_t>(row + first) % sizeof(Quad) == 0) {
    return *reinterpret_cast<const Quad*>(row + first);
  }
  Quad quad;
  BASS_UNROLL
  for (int k = 0; k < kQuadLen; ++k) quad.x[k] = first + k < n ? row[first + k] : -kInf;
  return quad;
}

/// The argmax of score(i, bits of entry i) over the entries of z whose score is above `lowest`; -1 if there is none.
/// With Gumbel noise G the logarithm of an entry's score, or the score itself, is at most level(i, z[i]) + G, and -inf
/// is never drawn; bound(score) is the level + G that a candidate needs to reach a score. ids: as above
template <class Context, class Level, class Bound, class Score>
BASS_HD int32_t noisy_argmax(RowBlock<Context>& block, const float* z, int n, const int32_t* ids,
                             const RandomStream& stream, float lowest, Level level, Bound bound, Score score) {
  Leader best;
  for (int begin = 0; begin < n; begin += kQuadLen * kRowBlockThreads) {
    const int first = begin + kQuadLen * block.thread();
    const float needed = best.entry < 0 ? -kInf : bound(best.score);
    Quad levels = read_quad(z, first, n);
    bool may_win = false;
    BASS_UNROLL
    for (int k = 0; k < kQuadLen; ++k) {
      levels.x[k] = level(first + k, levels.x[k]);
      may_win = may_win || (levels.x[k] > -kInf && levels.x[k] + lane::kMaxGumbel >= needed);
    }
    if (may_win) {
      int32_t bits[kQuadLen];
      draw_bits(ids, first, n, stream, bits);
      uint32_t left = 0;  // bit k: entry k may still win
      BASS_UNROLL
      for (int k = 0; k < kQuadLen; ++k) {
        const float highest = levels.x[k] + lane::gumbel_upper_bound({bits[k]}).v;
        left |= (levels.x[k] > -kInf && highest >= needed ? 1u : 0u) << k;
      }
      for (int k = 0; left != 0; ++k, left >>= 1) {
        if ((left & 1u) != 0) {
          const float found = score(first + k, bits[0]);
          if (found > lowest) best.offer(found, first + k);
        }
        BASS_UNROLL
        for (int next = 1; next < kQuadLen; ++next) bits[next - 1] = bits[next];  // bits[k] would be memory
      }
    }
    if (begin == 0) best = block.lead(best);  // what has to be beaten, for all threads
  }
  return block.lead(best).entry;
}

/// The argmax over kept entries, without `left_out`, of z + Gumbel(stream, token). ids: as above
template <class Context>
BASS_HD int32_t gumbel_argmax(RowBlock<Context>& block, const float* z, const int32_t* ids, int n,
                              const cpu::KeptSet& kept, const RandomStream& stream, int32_t left_out = -1) {
  return noisy_argmax(
      block, z, n, ids, stream, -kInf,
      [=](int i, float x) { return i == left_out ? -kInf : kept_or_nothing(kept, x, i); },
      [](float score) { return score; }, [=](int i, int32_t bits) { return z[i] + lane::gumbel_of({bits}).v; });
}

/// p of a row's entry, of which z is known.
BASS_HD float row_probability(const cpu::ProbabilityRow& row, int i, float z) {
  return exp_of_low(kept_or_nothing(row.kept, z, i) - row.log_norm);
}
/// z of an entry; nothing past the row's end.
BASS_HD float row_entry(const cpu::ProbabilityRow& row, int i) { return i < row.n ? row.z[i] : -kInf; }

/// The argmax of (factor p - q)+ / E, whose logarithm is at most log(factor p) + G. kSlack: for the roundings on both
/// sides, of numbers below 200.
template <class Context>
BASS_HD int32_t residual_argmax(RowBlock<Context>& block, const cpu::ProbabilityRow& p, float factor,
                                const cpu::ProbabilityRow& q, const RandomStream& stream) {
  constexpr float kSlack = 1e-3f, kSmallestNormal = 0x1p-126f;
  const float log_factor = log_f32(max_of(factor, kSmallestNormal)) + kSlack;
  return noisy_argmax(
      block, p.z, p.n, nullptr, stream, 0.0f,
      [=](int i, float x) { return kept_or_nothing(p.kept, x, i) - p.log_norm + log_factor; },
      [](float score) { return log_f32(score); },
      [=](int i, int32_t bits) {
        const float mass = fmaf(factor, row_probability(p, i, p.z[i]), -row_probability(q, i, row_entry(q, i)));
        return mass > 0.0f ? mass / lane::exponential_of({bits}).v : 0.0f;
      });
}

template <class Context>
BASS_HD float overlap(RowBlock<Context>& block, const cpu::ProbabilityRow& p, float factor,
                      const cpu::ProbabilityRow& q, const int32_t* ids) {
  struct Pair {
    float p;
    float q;
    int32_t token;
  };
  const int n = ids == nullptr && p.n < q.n ? p.n : q.n;
  return block.sum_in_lanes(
      n, Pair{-kInf, -kInf, 0},
      [=](int i) {
        const int32_t token = ids == nullptr ? i : ids[i];
        return Pair{row_entry(p, token), q.z[i], token};
      },
      [=](int i, const Pair& z) {
        return min_of(factor * row_probability(p, z.token, z.p), row_probability(q, i, z.q));
      });
}

}  // namespace bass::cuda
