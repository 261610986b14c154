// Vocabulary rows: statistics, truncated mass, and the draws by Gumbel noise. Include after a simd_*.h and math_impl.h.
//
// One body for all instruction sets: lanes are tokens in ascending order, so every table gives the same bits.
// Tokens with a NaN or -inf logit are never drawn.
#pragma once

#include <algorithm>

#include "base/philox.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/noise_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {

/// Tokens that share one vectorised evaluation of Philox: 16 counters of 4 words.
inline constexpr int kNoiseBlockLen = 64;
inline constexpr float kInf = __builtin_inff();

/// A row's vector at `begin`: past the end of the row there is `fill`.
BASS_SIMD_INLINE F32x16 load_row(const float* row, int begin, int n, float fill) {
  return n - begin >= kLanes ? load(row + begin)
         : n > begin         ? load_partial(row + begin, n - begin, fill)
                             : broadcast(fill);
}

BASS_SIMD_INLINE I32x16 ids_from(int begin) { return add(broadcast_i32(begin), iota_i32()); }

BASS_SIMD_INLINE Mask16 kept_lanes(F32x16 z, int begin, KeptSet kept) {
  const F32x16 cut = broadcast(kept.cut_value);
  const Mask16 is_past_cut_id = gt(ids_from(begin), broadcast_i32(kept.cut_id));
  return mask_or(gt(z, cut), mask_and(eq(z, cut), mask_not(is_past_cut_id)));
}

/// The vector at `begin` with -inf for tokens that are not kept.
BASS_SIMD_INLINE F32x16 load_kept(const float* z, int begin, int n, KeptSet kept) {
  const F32x16 row = load_row(z, begin, n, -kInf);
  return select(kept_lanes(row, begin, kept), row, broadcast(-kInf));
}

// ---------------------------------------------------------------------------------------------------------------------
// Random numbers

/// The 4 x 4 matrix whose rows are a, b, c, d transposed, within every 128-bit quarter; Half is one AVX2 register.
template <class Half>
BASS_SIMD_INLINE void transpose_registers(Half& a, Half& b, Half& c, Half& d) {
  const Half ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
  const Half cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
  a = _mm256_unpacklo_epi64(ab_low, cd_low);
  b = _mm256_unpackhi_epi64(ab_low, cd_low);
  c = _mm256_unpacklo_epi64(ab_high, cd_high);
  d = _mm256_unpackhi_epi64(ab_high, cd_high);
}

/// The same for x[0] .. x[3]. A template, so that the instructions that this instruction set lacks are never looked up.
template <class Vector>
BASS_SIMD_INLINE void transpose_quarters(Vector (&x)[4]) {
  if constexpr (sizeof(Mask16) == 2) {  // AVX-512
    const auto ab_low = _mm512_unpacklo_epi32(x[0].v, x[1].v), ab_high = _mm512_unpackhi_epi32(x[0].v, x[1].v);
    const auto cd_low = _mm512_unpacklo_epi32(x[2].v, x[3].v), cd_high = _mm512_unpackhi_epi32(x[2].v, x[3].v);
    x[0].v = _mm512_unpacklo_epi64(ab_low, cd_low);
    x[1].v = _mm512_unpackhi_epi64(ab_low, cd_low);
    x[2].v = _mm512_unpacklo_epi64(ab_high, cd_high);
    x[3].v = _mm512_unpackhi_epi64(ab_high, cd_high);
  } else if constexpr (requires(Vector v) { v.lo; }) {  // AVX2
    transpose_registers(x[0].lo, x[1].lo, x[2].lo, x[3].lo);
    transpose_registers(x[0].hi, x[1].hi, x[2].hi, x[3].hi);
  } else {
    const Vector in[4] = {x[0], x[1], x[2], x[3]};
    for (int i = 0; i < kLanes; ++i) {
      for (int row = 0; row < 4; ++row) x[row].v[i] = in[i % 4].v[i / 4 * 4 + row];
    }
  }
}

/// The random bits of tokens begin .. begin + 63 (begin a multiple of 64), as RandomStream::bits gives them.
BASS_SIMD_INLINE NoiseBlock noise_bits(const RandomStream& stream, int begin) {
  // Lane 4 q + i evaluates counter 4 i + q of the block, so that transposing quarters puts the tokens into order.
  alignas(64) static constexpr int32_t kCounterOfLane[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  NoiseBlock block = philox_words(stream, add(broadcast_i32(begin / 4), load_i32(kCounterOfLane)));
  transpose_quarters(block.bits);
  return block;
}

// ---------------------------------------------------------------------------------------------------------------------
// The running maximum of a draw. Vectors come in ascending order of ids, so a tie never replaces an earlier token.

struct Winner {
  float score;
  TokenId id = -1;

  BASS_SIMD_INLINE void offer(F32x16 scores, int begin) {
    const float highest = reduce_max(scores);
    if (!(highest > score)) return;
    score = highest;
    id = begin + __builtin_ctz(mask_bits(eq(scores, broadcast(highest))));
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// The functions of the table (kernels.h)

inline RowStats row_stats(const float* logits, int n) {
  F32x16 highest = broadcast(-kInf);
  Mask16 is_nan = first_lanes(0);
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 x = load_row(logits, i, n, -kInf);
    highest = max(x, highest);  // keeps `highest` where x is NaN
    is_nan = mask_or(is_nan, mask_not(eq(x, x)));
  }
  RowStats stats{reduce_max(highest), 0, __builtin_nanf("")};
  for (int i = 0; i < n; i += kLanes) {
    const uint32_t hits = mask_bits(eq(load_row(logits, i, n, __builtin_nanf("")), broadcast(stats.max)));
    if (hits == 0) continue;
    stats.argmax = i + __builtin_ctz(hits);
    break;
  }
  if (any(is_nan) || stats.max == kInf || stats.max == -kInf) return stats;
  F32x16 sum = zero_f32();
  const F32x16 offset = broadcast(stats.max);
  for (int i = 0; i < n; i += kLanes) sum = add(sum, exp_f32(sub(load_row(logits, i, n, -kInf), offset)));
  stats.log_sum_exp = stats.max + log_scalar(reduce_add(sum));
  return stats;
}

inline void scale(const float* x, float factor, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 scaled = mul(load_row(x, i, n, 0.0f), broadcast(factor));
    if (n - i >= kLanes) {
      store(out + i, scaled);
    } else {
      store_partial(out + i, n - i, scaled);
    }
  }
}

inline float kept_mass(const float* z, int n, float max_z, KeptSet kept) {
  F32x16 sum = zero_f32();
  for (int i = 0; i < n; i += kLanes) sum = add(sum, exp_f32(sub(load_kept(z, i, n, kept), broadcast(max_z))));
  return reduce_add(sum);
}

/// Whether a row's vector at its largest noise may take the lead.
BASS_SIMD_INLINE Mask16 may_win(F32x16 row, const Winner& winner) {
  const Mask16 reaches = ge(add(row, broadcast(kMaxGumbel)), broadcast(winner.score));
  return mask_and(reaches, gt(row, broadcast(-kInf)));
}

BASS_SIMD_INLINE void offer_with_noise(F32x16 row, I32x16 bits, int begin, Winner* winner) {
  const Mask16 reaches = ge(add(row, gumbel_upper_bound(bits)), broadcast(winner->score));
  if (!any(mask_and(reaches, gt(row, broadcast(-kInf))))) return;
  winner->offer(select(reaches, add(row, gumbel_of(bits)), broadcast(-kInf)), begin);
}

inline TokenId gumbel_argmax(const float* z, int n, KeptSet kept, const RandomStream& stream) {
  Winner winner{-kInf};
  for (int begin = 0; begin < n; begin += kNoiseBlockLen) {
    F32x16 rows[4];
    Mask16 some_may_win = first_lanes(0);
    for (int v = 0; v < 4; ++v) {
      rows[v] = load_kept(z, begin + v * kLanes, n, kept);
      some_may_win = mask_or(some_may_win, may_win(rows[v], winner));
    }
    if (!any(some_may_win)) continue;
    const NoiseBlock noise = noise_bits(stream, begin);
    for (int v = 0; v < 4; ++v) offer_with_noise(rows[v], noise.bits[v], begin + v * kLanes, &winner);
  }
  return winner.id;
}

inline int32_t gumbel_argmax_of(const float* z, const TokenId* ids, int n, KeptSet kept, const RandomStream& stream) {
  Winner winner{-kInf};
  for (int begin = 0; begin < n; begin += kLanes) {
    const F32x16 row = load_kept(z, begin, n, kept);
    if (!any(may_win(row, winner))) continue;
    int32_t last[kLanes] = {};
    if (n - begin < kLanes) std::copy(ids + begin, ids + n, last);
    const I32x16 tokens = load_i32(n - begin < kLanes ? last : ids + begin);
    offer_with_noise(row, noise_bits_of(stream, tokens), begin, &winner);
  }
  return winner.id;
}

/// factor p - q of the tokens from `begin` on; 0 past the end of the row. With factor 1 these are the bits of p - q.
BASS_SIMD_INLINE F32x16 residual_at(const ProbabilityRow& p, F32x16 factor, const ProbabilityRow& q, int begin) {
  const F32x16 p_i = exp_f32(sub(load_kept(p.z, begin, p.n, p.kept), broadcast(p.log_norm)));
  const F32x16 q_i = exp_f32(sub(load_kept(q.z, begin, q.n, q.kept), broadcast(q.log_norm)));
  return fma(factor, p_i, neg(q_i));
}

/// log((factor p - q)+) + G is largest where (factor p - q)+ / E is: that saves two logarithms a token.
inline TokenId residual_argmax(const ProbabilityRow& p, float factor, const ProbabilityRow& q,
                               const RandomStream& stream) {
  Winner winner{0.0f};
  for (int begin = 0; begin < p.n; begin += kNoiseBlockLen) {
    F32x16 mass[4];
    Mask16 has_mass = first_lanes(0);
    for (int v = 0; v < 4; ++v) {
      mass[v] = residual_at(p, broadcast(factor), q, begin + v * kLanes);
      has_mass = mask_or(has_mass, gt(mass[v], zero_f32()));
    }
    if (!any(has_mass)) continue;
    const NoiseBlock noise = noise_bits(stream, begin);
    for (int v = 0; v < 4; ++v) {
      const F32x16 needed =
          mul(broadcast(winner.score), mul(exponential_lower_bound(noise.bits[v]), broadcast(0.9999f)));
      const Mask16 may_win = mask_and(gt(mass[v], zero_f32()), ge(mass[v], needed));
      if (!any(may_win)) continue;
      const F32x16 scores = div(mass[v], exponential_of(noise.bits[v]));
      winner.offer(select(may_win, scores, zero_f32()), begin + v * kLanes);
    }
  }
  return winner.id;
}

/// z of the tokens ids[0 .. n), n <= kLanes; -inf for those that are not kept, and in the other lanes.
BASS_SIMD_INLINE F32x16 gather_kept(const ProbabilityRow& row, const TokenId* ids, int n) {
  alignas(64) float z[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const TokenId id = ids[std::min(lane, n - 1)];
    z[lane] = lane < n && row.kept.contains(row.z[id], id) ? row.z[id] : -kInf;
  }
  return load(z);
}

inline float overlap(const ProbabilityRow& p, float factor, const ProbabilityRow& q, const TokenId* ids) {
  F32x16 sum = zero_f32();
  const int n = ids == nullptr ? std::min(p.n, q.n) : q.n;
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 z = ids == nullptr ? load_kept(p.z, i, n, p.kept) : gather_kept(p, ids + i, std::min(n - i, kLanes));
    const F32x16 p_i = mul(broadcast(factor), exp_f32(sub(z, broadcast(p.log_norm))));
    sum = add(sum, min(p_i, exp_f32(sub(load_kept(q.z, i, n, q.kept), broadcast(q.log_norm)))));
  }
  return reduce_add(sum);
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
