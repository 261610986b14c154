// A cache of floats as the host writes and reads it, for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/step_rows.h"
#include "tensor/dtype.h"

namespace bass::cuda::testing {

inline uint16_t to_bits(KvNumbers numbers, float x) { return numbers == KvNumbers::kF16 ? f32_to_f16(x) : to_bf16(x); }
inline float from_bits(KvNumbers numbers, uint16_t bits) {
  return numbers == KvNumbers::kF16 ? f16_to_f32(bits) : from_bf16(bits);
}

/// Of position t of a page and one dimension, in a KV head's part of the page, in numbers.
inline size_t float_place(int head_dim, int t, int dim, bool is_v) {
  return static_cast<size_t>(is_v ? head_dim * kPageLen + t / 2 * head_dim * 2 + 2 * dim + t % 2
                                  : (dim / 2 * kPageLen + t) * 2 + dim % 2);
}

/// k, v: [head_dim]; place: the KV head's part of a page
inline void write_floats(KvNumbers numbers, int head_dim, const float* k, const float* v, int t, std::byte* place) {
  auto* cached = reinterpret_cast<uint16_t*>(place);
  for (int dim = 0; dim < head_dim; ++dim) {
    cached[float_place(head_dim, t, dim, false)] = to_bits(numbers, k[dim]);
    cached[float_place(head_dim, t, dim, true)] = to_bits(numbers, v[dim]);
  }
}

}  // namespace bass::cuda::testing
