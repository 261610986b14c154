// Weights and activations of a matrix product, as they lie in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/library_numbers.h"
#include "tensor/dtype.h"
#include "tensor/quant_format.h"

namespace bass::cuda {

/// Output channels of a tile: the rows of a tensor core's tile.
inline constexpr int kChannels = 16;

/// How the scales of a quantised matrix lie.
enum class ScaleKind : int32_t {
  kPlain,     // f16 a group of 32
  kWhole,     // int8 a group of 32, times an f16 for 256 elements
  kWholeHalf  // int8 a half group of 16, times an f16 for 256 elements
};

/// What multiplies few rows of a library's numbers (skinny_product.h).
enum class SkinnyKind : uint8_t {
  kNone,      // the library
  kOneTile,   // SkinnyProduct with one tile of channels a block
  kTwoTiles,  // with two
  kResident   // ResidentProduct
};
/// Numbers of rows, ascending, up to which skinny products come in kinds of their own.
inline constexpr int kSkinnySizes = 3;
inline constexpr int kSkinnyMaxRows[kSkinnySizes] = {8, 16, 32};

/// A weight matrix W [n_out, n_in] in tiles of kChannels output channels; n_out is padded with zero channels. Does not
/// own its memory.
///
/// Floats (bits 0): [n_tiles, n_in, kChannels] in their own type; of a library's product [library_padded(n_out),
/// n_in] in its numbers. Quantised, group by group as a lane of a warp takes them into a tensor-core product (TileS8):
/// lane 4 g + t has the elements 4 t .. and 16 + 4 t .. of the channels g and g + 8.
///   bits 8: [n_tiles, n_groups, 32 lanes, 16] the signed quants of TileS8::a, in order
///   bits 4: [n_tiles, n_groups, 32 lanes, 8] two words; a[0] and a[2] are the low and high nibbles of the first, a[1]
///           and a[3] those of the second, before `offset` is taken off
/// Formats of 2, 3, 5 and 6 bits are kept in 8.
struct DeviceMatrix {
  DType type = DType::kF32;                        // of the numbers: floats only
  int32_t bits = 0;                                // 4, 8; 0: floats
  int32_t offset = 0;                              // of 4 bits: what makes a quant a signed one
  LibraryNumbers library = LibraryNumbers::kNone;  // else multiplied by Device::multiply alone
  ScaleKind scale_kind = ScaleKind::kPlain;
  int32_t has_minima = 0;
  int32_t n_out = 0;
  int32_t n_in = 0;
  int32_t byte_rows = 4;  // up to so many rows are multiplied by ByteProduct, more by TileProduct (quantised only)
  SkinnyKind skinny[kSkinnySizes] = {};  // of a library's numbers: what multiplies up to kSkinnyMaxRows[i] rows
  const std::byte* quants = nullptr;
  const std::byte* scales = nullptr;       // [n_tiles, n_scales, kChannels] f16 or int8; n_scales: of all of n_in
  const std::byte* minima = nullptr;       // the same
  const uint16_t* super_scales = nullptr;  // f16 [n_tiles, n_in / 256, kChannels]
  const uint16_t* super_minima = nullptr;  // the same
  const float* channel_scales = nullptr;   // [n_out] of a library's bytes
  const float* bias = nullptr;             // [n_out], or null

  [[nodiscard]] constexpr int n_tiles() const { return (n_out + kChannels - 1) / kChannels; }
  [[nodiscard]] constexpr bool is_quantised() const { return bits != 0; }
};

/// Rows of activations for a library's product of bytes: each row by one scale, which is its largest absolute value
/// over that of the numbers (127 or 448). A row so small that the inverse is infinite counts as zeros; one with what is
/// not finite has no number as its scale.
struct TokenQuants {
  LibraryNumbers numbers = LibraryNumbers::kNone;
  uint8_t* q = nullptr;  // [library_padded(n_rows), n_cols] int8 or e4m3; rows behind n_rows are multiplied for nothing
  float* scale = nullptr;     // [n_rows]
  std::byte* sums = nullptr;  // room for [library_padded(n_rows), library_padded(n_out)] of any product of theirs
};

/// Rows of activations in the forms that products read. Does not own its memory; forms that are not wanted are null.
/// Quantisation: kernels/cpu/activations.h.
struct DeviceActivations {
  int32_t n_cols = 0;
  int32_t n_planes = 0;      // of q: 0, 1 (int8) or 2 (int16 as 256 q[0] + q[1])
  int64_t plane_stride = 0;  // bytes
  int8_t* q = nullptr;       // [n_planes][n_rows, n_cols]
  float* scale = nullptr;    // [n_rows, n_cols / 32]
  int32_t* sums = nullptr;   // [n_rows, n_cols / 32, 2] of the q of each half group
  float* f32 = nullptr;      // [n_rows, n_cols]
  uint16_t* bf16 = nullptr;  // the same, rounded to the nearest
  TokenQuants token;

  /// The same rows from row `first` on.
  [[nodiscard]] BASS_HD DeviceActivations from_row(int first) const {
    DeviceActivations rest = *this;
    const int64_t n_groups = n_cols / kGroupLen;
    const int64_t n_skipped = int64_t{first} * n_cols;
    if (q != nullptr) {
      rest.q += n_skipped;
      rest.scale += first * n_groups;
      rest.sums += first * n_groups * 2;
    }
    if (f32 != nullptr) rest.f32 += n_skipped;
    if (bf16 != nullptr) rest.bf16 += n_skipped;
    if (token.q != nullptr) {
      rest.token.q += n_skipped;
      rest.token.scale += first;
    }
    return rest;
  }

  BASS_HD void store(int64_t at, float value) const {
    if (f32 != nullptr) f32[at] = value;
    if (bf16 != nullptr) bf16[at] = to_bf16(value);
  }
};

}  // namespace bass::cuda
