// The operations between the matrix products: normalisation, activation, rotation, KV write.
// Include after a simd_*.h and math_impl.h.
#pragma once

#include "base/prefetch.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/kv_head_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

// A vector at i of an array of n; lanes past the end read 0 and are not written.
BASS_SIMD_INLINE F32x16 load_at(const float* p, int i, int n) {
  return i + kLanes <= n ? load(p + i) : load_partial(p + i, n - i, 0.0f);
}
BASS_SIMD_INLINE void store_at(float* p, int i, int n, F32x16 x) {
  if (i + kLanes <= n) {
    store(p + i, x);
  } else {
    store_partial(p + i, n - i, x);
  }
}

}  // namespace detail

inline void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  F32x16 squares = zero_f32();
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 v = detail::load_at(x, i, n);
    squares = fma(v, v, squares);
  }
  const float mean = reduce_add(squares) / static_cast<float>(n);
  const F32x16 factor = broadcast(1.0f / __builtin_sqrtf(mean + eps));
  for (int i = 0; i < n; i += kLanes) {
    detail::store_at(out, i, n, mul(mul(detail::load_at(x, i, n), factor), detail::load_at(weight, i, n)));
  }
}

inline void layer_norm(const float* x, const float* weight, const float* bias, int n, float eps, float* out) {
  F32x16 sums = zero_f32();
  for (int i = 0; i < n; i += kLanes) sums = add(sums, detail::load_at(x, i, n));
  const F32x16 mean = broadcast(reduce_add(sums) / static_cast<float>(n));
  F32x16 squares = zero_f32();
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 v = select(first_lanes(n - i), sub(detail::load_at(x, i, n), mean), zero_f32());
    squares = fma(v, v, squares);
  }
  const float variance = reduce_add(squares) / static_cast<float>(n);
  const F32x16 factor = broadcast(1.0f / __builtin_sqrtf(variance + eps));
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 scaled = mul(sub(detail::load_at(x, i, n), mean), factor);
    detail::store_at(out, i, n, fma(scaled, detail::load_at(weight, i, n), detail::load_at(bias, i, n)));
  }
}

namespace detail {

/// product f(gate), product being gate or gate * up.
template <Activation kKind>
BASS_SIMD_INLINE F32x16 activated(F32x16 gate, F32x16 product) {
  const F32x16 one = broadcast(1.0f);
  if constexpr (kKind == Activation::kSilu) return div(product, add(one, exp_f32(neg(gate))));
  if constexpr (kKind == Activation::kGeluTanh) {
    const F32x16 inner = fma(mul(gate, gate), broadcast(kGeluCubic), broadcast(kGeluLinear));
    return div(product, add(one, exp_f32(neg(mul(gate, inner)))));
  }
  if constexpr (kKind == Activation::kGelu) {
    const F32x16 tail = normal_tail(abs(gate));
    return select(gt(gate, zero_f32()), fma(neg(product), tail, product), mul(product, tail));
  }
  return select(ge(zero_f32(), gate), zero_f32(), product);  // of a NaN: a NaN
}

}  // namespace detail

template <Activation kKind>
inline void activate(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 g = detail::load_at(gate, i, n);
    const F32x16 product = up == nullptr ? g : mul(detail::load_at(up, i, n), g);
    detail::store_at(out, i, n, detail::activated<kKind>(g, product));
  }
}

inline void soft_cap(float* x, int n, float cap) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(x, i, n, soft_cap_f32(detail::load_at(x, i, n), cap));
}

inline void rope(float* head, int rope_dim, const float* cos_pairs, const float* sin_pairs) {
  for (int i = 0; i < rope_dim; i += kLanes) {
    const F32x16 x = detail::load_at(head, i, rope_dim);
    const F32x16 straight = mul(x, detail::load_at(cos_pairs, i, rope_dim));
    detail::store_at(head, i, rope_dim, fma(swap_pairs(x), detail::load_at(sin_pairs, i, rope_dim), straight));
  }
}

namespace detail {

template <class Int>
inline void ask_for_kv(int head_dim, int token_in_page, std::byte* page_head) {
  constexpr int kLineLen = 64 / static_cast<int>(sizeof(Int));
  const KvHead<std::byte, Int> head(page_head, head_dim);
  const Int* column = head.v + static_cast<ptrdiff_t>(token_in_page / 2) * head_dim * 2;
  for (int i = 0; i < head_dim / 2; ++i) prefetch_to_write(head.k + (i * kKvPageLen + token_in_page) * 2);
  for (int i = 0; i < 2 * head_dim; i += kLineLen) prefetch_to_write(column + i);
  prefetch_to_write(head.k_scale + token_in_page);
  prefetch_to_write(head.v_scale + token_in_page);
}

template <class Int>
inline void write_kv(const float* k, const float* v, int head_dim, int token_in_page, std::byte* page_head) {
  constexpr bool kIsInt8 = sizeof(Int) == 1;
  const KvHead<std::byte, Int> head(page_head, head_dim);
  int16_t row[kMaxHeadDim];
  head.k_scale[token_in_page] =
      kIsInt8 ? quantise_by_maximum(k, head_dim, kInt8Steps, row) : quantise_by_norm(k, head_dim, row);
  for (int d = 0; d < head_dim; d += 2) {
    const Int pair[2] = {static_cast<Int>(row[d]), static_cast<Int>(row[d + 1])};
    __builtin_memcpy(head.k + static_cast<ptrdiff_t>(d / 2 * kKvPageLen + token_in_page) * 2, pair, sizeof(pair));
  }
  head.v_scale[token_in_page] = quantise_by_maximum(v, head_dim, kIsInt8 ? kInt8Steps : kInt16Steps, row);
  Int* column = head.v + static_cast<ptrdiff_t>(token_in_page / 2) * head_dim * 2 + token_in_page % 2;
  for (int d = 0; d < head_dim; ++d) column[2 * d] = static_cast<Int>(row[d]);
}

}  // namespace detail

inline void ask_for_kv(const KvShape& shape, int token_in_page, std::byte* page_head) {
  if (shape.number_bytes == 1) {
    detail::ask_for_kv<int8_t>(shape.head_dim, token_in_page, page_head);
  } else {
    detail::ask_for_kv<int16_t>(shape.head_dim, token_in_page, page_head);
  }
}

inline void write_kv(const KvShape& shape, const float* k, const float* v, int token_in_page, std::byte* page_head) {
  if (shape.number_bytes == 1) {
    detail::write_kv<int8_t>(k, v, shape.head_dim, token_in_page, page_head);
  } else {
    detail::write_kv<int16_t>(k, v, shape.head_dim, token_in_page, page_head);
  }
}

inline void exp2_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(out, i, n, exp2_f32(detail::load_at(x, i, n)));
}

inline void exp_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(out, i, n, exp_f32(detail::load_at(x, i, n)));
}

inline void log_row(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) detail::store_at(out, i, n, log_f32(detail::load_at(x, i, n)));
}

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
