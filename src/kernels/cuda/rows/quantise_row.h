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

/// Writes q, scales and sums of the columns [begin, end) of a row, whole groups. Every thread of the block calls it
/// after `values` is complete. values: [end - begin] in shared memory. inverses: [(end - begin) / 32] of it, to work
/// in.
template <class Context>
BASS_HD void quantise_columns(Context& context, const float* values, float* inverses, int row, int begin, int end,
                              const DeviceActivations& out) {
  const int n_groups = (end - begin) / kGroupLen;
  const int64_t first_group = int64_t{row} * (out.n_cols / kGroupLen) + begin / kGroupLen;
  for (int g = context.thread(); g < n_groups; g += context.n_threads()) {
    // Threads begin at different elements, so that they do not read the same bank of shared memory at once.
    float largest = 0.0f;
    for (int i = 0; i < kGroupLen; ++i) {
      largest = max_of(largest, fabsf(values[g * kGroupLen + (i + g) % kGroupLen]));
    }
    const GroupScale scale = group_scale(largest, out.n_planes);
    int32_t sums[2] = {};
    for (int i = 0; i < kGroupLen; ++i) {
      const int at = (i + g) % kGroupLen;
      sums[at / 16] += round_to_int(values[g * kGroupLen + at] * scale.inverse);
    }
    inverses[g] = scale.inverse;
    out.scale[first_group + g] = scale.scale;
    out.sums[(first_group + g) * 2] = sums[0];
    out.sums[(first_group + g) * 2 + 1] = sums[1];
  }
  context.sync();
  int8_t* row_q = out.q + int64_t{row} * out.n_cols + begin;
  for (int word = context.thread(); word < (end - begin) / 4; word += context.n_threads()) {
    const float inverse = inverses[word * 4 / kGroupLen];
    uint32_t low = 0;
    uint32_t high = 0;
    for (int i = 0; i < 4; ++i) {
      const int32_t q = round_to_int(values[word * 4 + i] * inverse);
      const int32_t upper = out.n_planes == 1 ? q : (q + 128) >> 8;
      high |= (static_cast<uint32_t>(upper) & 255u) << (8 * i);
      low |= (static_cast<uint32_t>(q - upper * 256) & 255u) << (8 * i);
    }
    reinterpret_cast<uint32_t*>(row_q)[word] = high;
    if (out.n_planes == 2) reinterpret_cast<uint32_t*>(row_q + out.plane_stride)[word] = low;
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

/// Writes a row's bytes and scale. Every thread of the block calls it after values [n] are complete. largest_of_warps:
/// a number for each warp in shared memory, to work in.
template <class Context>
BASS_HD void quantise_token(Context& context, const float* values, uint32_t* largest_of_warps, int row, int n,
                            const TokenQuants& out) {
  // As bits, whose order is that of the absolute values, with infinity and what is no number above all.
  uint32_t largest_bits = 0;
  const auto add = [&largest_bits](uint32_t bits) { largest_bits = bits > largest_bits ? bits : largest_bits; };
  for (int i = context.thread(); i < n; i += context.n_threads()) add(bits_of(values[i]) & 0x7FFFFFFFu);
  for (int half = kWarpLen / 2; half >= 1; half /= 2) add(context.shuffle_xor(largest_bits, half));
  if (context.lane() == 0) largest_of_warps[context.warp()] = largest_bits;
  context.sync();
  for (int warp = 0; warp < context.n_threads() / kWarpLen; ++warp) add(largest_of_warps[warp]);
  const GroupScale scale = byte_scale(float_of(largest_bits), out.numbers);
  if (context.thread() == 0) out.scale[row] = scale.scale;
  uint8_t* q = out.q + int64_t{row} * n;
  for (int i = context.thread(); i < n; i += context.n_threads()) {
    q[i] = library_byte(values[i] * scale.inverse, out.numbers);
  }
}

/// Room for quantise_columns of n columns.
inline SharedBytes& add_quantise_room(SharedBytes& bytes, int n) {
  return bytes.add<float>(n).add<float>(n / kGroupLen);
}

}  // namespace bass::cuda
