// What a device's library multiplies (kernels/cuda/device.h, LibraryProduct).
#pragma once

#include <cstddef>
#include <cstdint>

namespace bass::cuda {

enum class LibraryNumbers : int32_t {
  kNone,  // our own kernels multiply
  kBf16,  // bfloat16, sums in float32
  kInt8,  // int8 with a scale for each channel of weights and each row of activations; sums in int32 are exact
  kFp8    // e4m3 with the same scales; sums in float32
};

/// One byte a number, and scales that the product leaves to its caller.
constexpr bool has_byte_numbers(LibraryNumbers numbers) {
  return numbers == LibraryNumbers::kInt8 || numbers == LibraryNumbers::kFp8;
}
constexpr size_t library_number_bytes(LibraryNumbers numbers) { return has_byte_numbers(numbers) ? 1 : 2; }

/// Products of bytes have multiples of this of channels, of rows and of numbers of a row: cuBLASLt refuses FP8
/// otherwise.
inline constexpr int kLibraryAlignment = 16;
constexpr int library_padded(int n, LibraryNumbers numbers) {
  return has_byte_numbers(numbers) ? (n + kLibraryAlignment - 1) / kLibraryAlignment * kLibraryAlignment : n;
}

}  // namespace bass::cuda
