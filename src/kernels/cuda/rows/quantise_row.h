// Rounding activations to int8 or int16 in groups of 32 (kernels/cpu/activations.h), by the threads of a block.
#pragma once

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/matmul/device_matrix.h"

namespace bass::cuda {

/// The scale and the factor of numbers that are rounded together.
struct GroupScale {
  float inverse;
  float scale;
};
BASS_HD GroupScale group_scale(float largest, int n_planes) {
  const float q_max = n_planes == 1 ? 127.0f : 32512.0f;
  const float inverse = q_max / largest;
  if (!(inverse <= kFloatMax)) return {0.0f, 0.0f};  // zero, or so small that the inverse is infinite
  return {inverse, float_of(bits_of(largest / q_max) & ~3u)};
}

/// Four neighbouring numbers of a row, a lane's part of what a warp reads and writes at once.
struct alignas(16) FourFloats {
  float x[4];
};
/// p[0 .. 4), of which the first n are there; the others are 0. Needs no alignment, and reads at once what has one.
BASS_HD FourFloats load_four(const float* p, int n) {
  if (n >= 4 && reinterpret_cast<uintptr_t>(p) % sizeof(FourFloats) == 0)
    return *reinterpret_cast<const FourFloats*>(p);
  FourFloats four{};
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (i < n) four.x[i] = p[i];
  }
  return four;
}

/// Rounds four numbers of a row, eight lanes a group, and writes q, scale and sums. All lanes of the warp come.
template <class Context>
BASS_HD void quantise_four(Context& context, const FourFloats& four, bool is_there, int row, int column,
                           const DeviceActivations& out) {
  float largest = 0.0f;
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) largest = max_of(largest, fabsf(four.x[i]));
  for (int step = 1; step <= 4; step *= 2) largest = max_of(largest, context.shuffle_xor(largest, step));
  const GroupScale scale = group_scale(largest, out.n_planes);
  uint32_t low = 0, high = 0;
  int32_t sum = 0;
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int32_t q = round_to_int(four.x[i] * scale.inverse);
    const int32_t upper = out.n_planes == 1 ? q : (q + 128) >> 8;
    sum += q;
    high |= (static_cast<uint32_t>(upper) & 255u) << (8 * i);
    low |= (static_cast<uint32_t>(q - upper * 256) & 255u) << (8 * i);
  }
  for (int step = 1; step <= 2; step *= 2) sum += context.shuffle_xor(sum, step);  // of a half group
  if (!is_there) return;
  const int64_t group = int64_t{row} * (out.n_cols / kGroupLen) + column / kGroupLen;
  int8_t* q = out.q + int64_t{row} * out.n_cols + column;
  *reinterpret_cast<uint32_t*>(q) = high;
  if (out.n_planes == 2) *reinterpret_cast<uint32_t*>(q + out.plane_stride) = low;
  if (column % 16 == 0) out.sums[group * 2 + column % kGroupLen / 16] = sum;
  if (column % kGroupLen == 0) out.scale[group] = scale.scale;
}

/// Writes q, scales and sums of a row, whole groups. Every thread of the block calls it after values [n], in shared
/// memory, are complete.
template <class Context>
BASS_HD void quantise_columns(Context& context, const float* values, int row, int n, const DeviceActivations& out) {
  for (int base = 0; base < n; base += 4 * context.n_threads()) {
    const int column = base + 4 * context.thread();
    quantise_four(context, load_four(values + column, n - column), column < n, row, column, out);
  }
}

/// The scale and the factor of a row that becomes a library's bytes (TokenQuants). largest: of its absolute values
BASS_HD GroupScale byte_scale(float largest, LibraryNumbers numbers) {
  const float most = numbers == LibraryNumbers::kFp8 ? kE4m3Max : 127.0f;
  // What is not finite makes the row's results no numbers: its sequence ends with an error.
  if (!(largest <= kFloatMax)) return {0.0f, float_of(0x7FC00000u)};
  const float inverse = most / largest;
  if (!(inverse <= kFloatMax)) return {0.0f, 0.0f};
  return {inverse, largest / most};
}
BASS_HD uint8_t library_byte(float scaled, LibraryNumbers numbers) {
  return numbers == LibraryNumbers::kFp8 ? to_e4m3(scaled) : static_cast<uint8_t>(round_to_int(scaled));
}

/// The larger of two absolute values as bits, whose order is theirs, with infinity and what is no number above all.
BASS_HD uint32_t larger_size(uint32_t bits, float x) {
  const uint32_t other = bits_of(x) & 0x7FFFFFFFu;
  return other > bits ? other : bits;
}

/// The factor of a row that becomes a library's bytes, from what each thread of the block found to be the largest;
/// writes the row's scale. largest_of_warps: a number for each warp in shared memory, to work in.
template <class Context>
BASS_HD float token_factor(Context& context, uint32_t largest, uint32_t* largest_of_warps, int row,
                           const TokenQuants& out) {
  const auto add = [&largest](uint32_t bits) { largest = bits > largest ? bits : largest; };
  for (int half = kWarpLen / 2; half >= 1; half /= 2) add(context.shuffle_xor(largest, half));
  if (context.lane() == 0) largest_of_warps[context.warp()] = largest;
  context.sync();
  for (int warp = 0; warp < context.n_threads() / kWarpLen; ++warp) add(largest_of_warps[warp]);
  const GroupScale scale = byte_scale(float_of(largest), out.numbers);
  if (context.thread() == 0) out.scale[row] = scale.scale;
  return scale.inverse;
}

/// Writes the bytes of four numbers of a row, n of which are there.
BASS_HD void store_bytes(const FourFloats& four, int n, float factor, uint8_t* q, LibraryNumbers numbers) {
  uint32_t word = 0;
  BASS_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint8_t byte = library_byte(four.x[i] * factor, numbers);
    word |= static_cast<uint32_t>(byte) << (8 * i);
  }
  if (n >= 4 && reinterpret_cast<uintptr_t>(q) % 4 == 0) {
    *reinterpret_cast<uint32_t*>(q) = word;
    return;
  }
  for (int i = 0; i < n && i < 4; ++i) q[i] = static_cast<uint8_t>(word >> (8 * i));
}

/// Writes a row's bytes and scale. Every thread of the block calls it after values [n], in shared memory, are complete.
/// largest_of_warps: token_factor's
template <class Context>
BASS_HD void quantise_token(Context& context, const float* values, uint32_t* largest_of_warps, int row, int n,
                            const TokenQuants& out) {
  uint32_t largest = 0;
  for (int i = context.thread(); i < n; i += context.n_threads()) largest = larger_size(largest, values[i]);
  const float factor = token_factor(context, largest, largest_of_warps, row, out);
  for (int column = 4 * context.thread(); column < n; column += 4 * context.n_threads()) {
    store_bytes(load_four(values + column, n - column), n - column, factor, out.q + int64_t{row} * n + column,
                out.numbers);
  }
}

}  // namespace bass::cuda
