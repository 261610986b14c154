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
    bool has_nan = false;
  };
  Found mine;
  mine.leader.score = -kInf;
  block.each(
      n, [=](int i) { return row[i]; },
      [&](int i, float x) {
        mine.has_nan = mine.has_nan || x != x;
        if (x > mine.leader.score) mine.leader = {x, i};  // a thread's entries ascend
        if (scaled != nullptr) scaled[i] = x * factor;
      });
  const Found found = block.reduce(mine, [](Found a, const Found& b) {
    a.leader.offer(b.leader.score, b.leader.entry);
    a.has_nan = a.has_nan || b.has_nan;
    return a;
  });
  RowTop top;
  top.is_usable = found.leader.entry >= 0 && !found.has_nan && found.leader.score < kInf;
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
  first = block.reduce(first, [](uint32_t a, uint32_t b) { return a < b ? a : b; });
  if (first < static_cast<uint32_t>(n)) top.argmax = static_cast<int32_t>(first);
  return top;
}

/// log(sum(exp(row))) of a usable row: a finite number.
template <class Context>
BASS_HD float log_sum_exp(RowBlock<Context>& block, const float* row, int n, float max) {
  const float sum = block.sum_in_lanes(
      n, -kInf, [=](int i) { return row[i]; }, [=](int, float x) { return exp_f32(x - max); });
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
      [=](int i, float x) { return exp_f32(kept_or_nothing(kept, x, i) - max); });
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

/// p of a row's entry, of which z is known.
BASS_HD float row_probability(const cpu::ProbabilityRow& row, int i, float z) {
  return exp_f32(kept_or_nothing(row.kept, z, i) - row.log_norm);
}
/// z of an entry; nothing past the row's end.
BASS_HD float row_entry(const cpu::ProbabilityRow& row, int i) { return i < row.n ? row.z[i] : -kInf; }

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
      const float mass =
          fmaf(factor, row_probability(p, i, p.z[i]), -row_probability(q, i, row_entry(q, i)));
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
