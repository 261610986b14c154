// What our kernels for few rows of a library's numbers have in common (skinny_product.h).
#pragma once

#include <type_traits>

#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// Of a row of numbers, what a lane takes at once.
struct alignas(16) SkinnyWords {
  uint32_t word[4];
};

/// Rows that skinny products take, in tiles of so many: the columns of a tensor core's tile.
inline constexpr int kSkinnyRows = 8;
/// Bytes of a row that the four lanes of a channel take in a step. n_in must have whole ones.
inline constexpr int kSkinnyStepBytes = 64;
/// Warps of a block, which share the steps through n_in among themselves: warp w has the steps w, w + kSkinnyWarps, ...
inline constexpr int kSkinnyWarps = 16;

constexpr int skinny_steps(LibraryNumbers numbers, int n_in) {
  return static_cast<int>(library_number_bytes(numbers)) * n_in / kSkinnyStepBytes;
}
constexpr bool fits_skinny_product(LibraryNumbers numbers, int n_in) {
  return numbers != LibraryNumbers::kNone &&
         static_cast<int>(library_number_bytes(numbers)) * n_in % kSkinnyStepBytes == 0;
}

/// What skinny products of some kind of numbers have in common. Weights and activations are as the library has them,
/// [n_out, n_in] and [n_rows, n_in]: a product of tiles may take k in any order as long as both sides agree on it, so a
/// lane takes 16 neighbouring bytes of a row, of which words 2 i and 2 i + 1 are its part of the step's i-th product of
/// tiles. A warp adds up its steps in ascending order, and the warps' sums are added in theirs. So a result depends on
/// its row and channel alone, and not on the kernel. Sums of int8 are exact, those in float32 in the order of the
/// tensor cores.
template <LibraryNumbers kNumbers, int kRowTiles>
struct SkinnyPart {
  static constexpr int64_t kNumberBytes = static_cast<int64_t>(library_number_bytes(kNumbers));
  static constexpr int kBlockRows = kRowTiles * kSkinnyRows;
  using Sum = std::conditional_t<kNumbers == LibraryNumbers::kInt8, int32_t, float>;
  using TileSums = Sum[kRowTiles][4];  // a lane's of a tile of channels

  /// Where a lane's words of a row of weights, or of activations, begin. What is behind the last channel, or row, is
  /// another one's result, which nobody stores.
  BASS_HD static const std::byte* channel_words(const ProductArguments& a, int channel, int lane) {
    return a.w.quants + (channel < a.w.n_out ? channel : a.w.n_out - 1) * (a.w.n_in * kNumberBytes) + in_step(lane);
  }
  BASS_HD static const std::byte* row_words(const ProductArguments& a, int row, int lane) {
    const auto* x = kNumbers == LibraryNumbers::kBf16 ? reinterpret_cast<const std::byte*>(a.x.bf16)
                                                      : reinterpret_cast<const std::byte*>(a.x.token.q);
    return x + (row < a.n_rows ? row : a.n_rows - 1) * (a.w.n_in * kNumberBytes) + in_step(lane);
  }
  BASS_HD static const SkinnyWords* at(const std::byte* words, int step) {
    return reinterpret_cast<const SkinnyWords*>(words + int64_t{step} * kSkinnyStepBytes);
  }

  /// A step's products. weights: of the channels lane / 4 and 8 more; rows: of row lane / 4 of each tile
  template <class Context>
  BASS_HD static void add_step(Context& context, const SkinnyWords (&weights)[2], const SkinnyWords (&rows)[kRowTiles],
                               TileSums& sums) {
    const auto word = [](const SkinnyWords& words, int i) { return static_cast<int32_t>(words.word[i]); };
    BASS_UNROLL
    for (int i = 0; i < 4; i += 2) {
      BASS_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        const TileS8 tile{{word(weights[0], i), word(weights[1], i), word(weights[0], i + 1), word(weights[1], i + 1)},
                          {word(rows[r], i), word(rows[r], i + 1)}};
        if constexpr (kNumbers == LibraryNumbers::kInt8) {
          context.multiply_s8(tile, sums[r]);
        } else if constexpr (kNumbers == LibraryNumbers::kFp8) {
          context.multiply_e4m3(tile, sums[r]);
        } else {
          context.multiply_bf16(tile, sums[r]);
        }
      }
    }
  }

  /// place: this warp's sums in shared memory, [kBlockRows, stride], at a tile's first channel
  BASS_HD static void lay_sums(int lane, const TileSums& sums, Sum* place, int stride) {
    BASS_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      BASS_UNROLL
      for (int i = 0; i < 4; ++i) {
        place[(r * kSkinnyRows + lane % 4 * 2 + i % 2) * stride + i / 2 * 8 + lane / 4] = sums[r][i];
      }
    }
  }

  /// at: warp 0's sum of a row and channel in shared memory
  BASS_HD static void store(const ProductArguments& a, const Sum* at, int warp_stride, int row, int channel) {
    if (row >= a.n_rows || channel >= a.w.n_out) return;
    Sum sum = 0;
    BASS_UNROLL
    for (int warp = 0; warp < kSkinnyWarps; ++warp) sum += at[warp * warp_stride];
    if constexpr (kNumbers == LibraryNumbers::kBf16) {
      store_product(a, row, channel, sum);
    } else {
      store_scaled(a, row, channel, static_cast<float>(sum));
    }
  }

 private:
  BASS_HD static int64_t in_step(int lane) { return lane % 4 * static_cast<int64_t>(sizeof(SkinnyWords)); }
};

}  // namespace bass::cuda
