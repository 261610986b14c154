// Products of few rows with a library's numbers (library_numbers.h), by kernels of our own: reading the weights once is
// all that such a product takes, and a library's kernels, made for many rows, do not always read them as fast as the
// memory can give them.
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

constexpr bool fits_skinny_product(LibraryNumbers numbers, int n_in) {
  return numbers != LibraryNumbers::kNone &&
         static_cast<int>(library_number_bytes(numbers)) * n_in % kSkinnyStepBytes == 0;
}

/// A block computes kTiles tiles of kChannels channels for kRowTiles tiles of rows; its warps share the steps through
/// n_in among themselves (warp w has the steps w, w + kWarps, ...), each with loads of kAhead steps under way, and their
/// sums are added in the order of the warps. Weights and activations are as the library has them, [n_out, n_in] and
/// [n_rows, n_in]: a product of tiles may take k in any order as long as both sides agree on it, so a lane takes 16
/// neighbouring bytes of a row, of which words 2 i and 2 i + 1 are its part of the step's i-th product of tiles.
/// A result depends on its row and channel alone: neither on how many rows there are nor on kTiles. Sums of int8 are
/// exact, those in float32 in the order of the tensor cores.
template <LibraryNumbers kNumbers, int kRowTiles, int kTiles>
struct SkinnyProduct {
  static constexpr bool kCooperates = true;
  static constexpr bool kStartsEarly = true;
  static constexpr int kWarps = 8;
  static constexpr int kMaxThreads = kWarps * kWarpLen;
  static constexpr int kMinBlocks = kRowTiles * kTiles <= 2 ? 2 : 1;
  static constexpr int kAhead = kRowTiles <= 2 ? 4 : 2;
  static constexpr int kBlockChannels = kTiles * kChannels;
  static constexpr int kBlockRows = kRowTiles * kSkinnyRows;
  static constexpr int kSumStride = kBlockChannels + 4;  // so that a warp's stores lie in different banks
  using Sum = std::conditional_t<kNumbers == LibraryNumbers::kInt8, int32_t, float>;

  ProductArguments a;

  [[nodiscard]] LaunchShape shape() const {
    return {{ceil_div(a.w.n_out, kBlockChannels), ceil_div(a.n_rows, kBlockRows), 1},
            kMaxThreads,
            SharedBytes().add<Sum>(kWarps * kBlockRows * kSumStride).bytes()};
  }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    Sum* shared_sums = context.template shared<Sum>(kWarps * kBlockRows * kSumStride);
    const Place place = place_of(context);
    Sum sums[kTiles][kRowTiles][4] = {};
    SkinnyWords weights[kAhead][kTiles][2];
    BASS_UNROLL
    for (int i = 0; i < kAhead; ++i) load_weights(place, context.warp() + i * kWarps, weights[i]);
    context.wait_for_input();  // of which the weights are no part
    for (int base = context.warp(); base < place.n_steps; base += kAhead * kWarps) {
      BASS_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const int step = base + i * kWarps;
        if (step >= place.n_steps) break;  // the same for the whole warp
        add_step(context, place, step, weights[i], sums);
        load_weights(place, step + kAhead * kWarps, weights[i]);
      }
    }
    lay_sums(context, sums, shared_sums + context.warp() * kBlockRows * kSumStride);
    context.sync();
    for (int i = context.thread(); i < kBlockRows * kBlockChannels; i += kMaxThreads) {
      store(shared_sums, i / kBlockChannels, i % kBlockChannels, context.block());
    }
  }

 private:
  static constexpr int64_t kNumberBytes = static_cast<int64_t>(library_number_bytes(kNumbers));

  /// Where a lane reads: of channel g + 8 half of each tile, and of row g of each tile of rows.
  struct Place {
    const std::byte* channels[kTiles][2];
    const std::byte* rows[kRowTiles];
    int n_steps;
  };

  template <class Context>
  BASS_HD Place place_of(const Context& context) const {
    const auto* w = a.w.quants;
    const auto* x = kNumbers == LibraryNumbers::kBf16 ? reinterpret_cast<const std::byte*>(a.x.bf16)
                                                      : reinterpret_cast<const std::byte*>(a.x.token.q);
    const int64_t row_bytes = a.w.n_in * kNumberBytes;
    const int group = context.lane() / 4;
    const int64_t in_step = context.lane() % 4 * static_cast<int64_t>(sizeof(SkinnyWords));
    Place place;
    place.n_steps = static_cast<int>(row_bytes / kSkinnyStepBytes);
    // What is behind the last channel, or row, is another one's result, which nobody stores.
    BASS_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int channel = context.block().x * kBlockChannels + i * 8 + group;
      place.channels[i / 2][i % 2] = w + (channel < a.w.n_out ? channel : a.w.n_out - 1) * row_bytes + in_step;
    }
    BASS_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      const int row = context.block().y * kBlockRows + i * kSkinnyRows + group;
      place.rows[i] = x + (row < a.n_rows ? row : a.n_rows - 1) * row_bytes + in_step;
    }
    return place;
  }

  BASS_HD void load_weights(const Place& place, int step, SkinnyWords (&weights)[kTiles][2]) const {
    if (step >= place.n_steps) return;
    BASS_UNROLL
    for (int i = 0; i < 2 * kTiles; ++i) {
      weights[i / 2][i % 2] =
          *reinterpret_cast<const SkinnyWords*>(place.channels[i / 2][i % 2] + int64_t{step} * kSkinnyStepBytes);
    }
  }

  template <class Context>
  BASS_HD void add_step(Context& context, const Place& place, int step, const SkinnyWords (&weights)[kTiles][2],
                        Sum (&sums)[kTiles][kRowTiles][4]) const {
    SkinnyWords rows[kRowTiles];
    BASS_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      rows[r] = *reinterpret_cast<const SkinnyWords*>(place.rows[r] + int64_t{step} * kSkinnyStepBytes);
    }
    BASS_UNROLL
    for (int i = 0; i < 4; i += 2) {
      BASS_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        const SkinnyWords &upper = weights[tile][0], &lower = weights[tile][1];
        BASS_UNROLL
        for (int r = 0; r < kRowTiles; ++r) {
          multiply(context,
                   {{static_cast<int32_t>(upper.word[i]), static_cast<int32_t>(lower.word[i]),
                     static_cast<int32_t>(upper.word[i + 1]), static_cast<int32_t>(lower.word[i + 1])},
                    {static_cast<int32_t>(rows[r].word[i]), static_cast<int32_t>(rows[r].word[i + 1])}},
                   sums[tile][r]);
        }
      }
    }
  }

  template <class Context>
  BASS_HD void multiply(Context& context, const TileS8& tile, Sum (&sums)[4]) const {
    if constexpr (kNumbers == LibraryNumbers::kInt8) {
      context.multiply_s8(tile, sums);
    } else if constexpr (kNumbers == LibraryNumbers::kFp8) {
      context.multiply_e4m3(tile, sums);
    } else {
      context.multiply_bf16(tile, sums);
    }
  }

  // place: this warp's [kBlockRows, kSumStride]
  template <class Context>
  BASS_HD void lay_sums(const Context& context, const Sum (&sums)[kTiles][kRowTiles][4], Sum* place) const {
    const int group = context.lane() / 4;
    const int t = context.lane() % 4;
    BASS_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      BASS_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        BASS_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = r * kSkinnyRows + 2 * t + i % 2;
          place[row * kSumStride + tile * kChannels + i / 2 * 8 + group] = sums[tile][r][i];
        }
      }
    }
  }

  BASS_HD void store(const Sum* shared_sums, int row_idx, int channel_idx, const Index3& block) const {
    const int row = block.y * kBlockRows + row_idx;
    const int channel = block.x * kBlockChannels + channel_idx;
    if (row >= a.n_rows || channel >= a.w.n_out) return;
    const Sum* at = shared_sums + row_idx * kSumStride + channel_idx;
    Sum sum = 0;
    BASS_UNROLL
    for (int warp = 0; warp < kWarps; ++warp) sum += at[warp * kBlockRows * kSumStride];
    if constexpr (kNumbers == LibraryNumbers::kBf16) {
      store_product(a, row, channel, sum);
    } else {
      store_scaled(a, row, channel, static_cast<float>(sum));
    }
  }
};

#define BASS_SKINNY_KERNEL(prefix, numbers, row_tiles, tiles)                               \
  struct prefix##x##row_tiles##x##tiles                                                     \
      : SkinnyProduct<LibraryNumbers::numbers, row_tiles, tiles> {                          \
    static constexpr const char* kName = "skinny_" #numbers "_" #row_tiles "_" #tiles;      \
  };
#define BASS_SKINNY_KERNELS_OF(prefix, numbers)                                             \
  BASS_SKINNY_KERNEL(prefix, numbers, 1, 1)                                                 \
  BASS_SKINNY_KERNEL(prefix, numbers, 1, 2)                                                 \
  BASS_SKINNY_KERNEL(prefix, numbers, 2, 1)                                                 \
  BASS_SKINNY_KERNEL(prefix, numbers, 2, 2)                                                 \
  BASS_SKINNY_KERNEL(prefix, numbers, 4, 1)                                                 \
  BASS_SKINNY_KERNEL(prefix, numbers, 4, 2)                                                 \
  BASS_SKINNY_KERNEL(prefix, numbers, 8, 1)                                                 \
  struct prefix { /* by tiles of rows and of channels */                                    \
    using x1x1 = prefix##x1x1;                                                              \
    using x1x2 = prefix##x1x2;                                                              \
    using x2x1 = prefix##x2x1;                                                              \
    using x2x2 = prefix##x2x2;                                                              \
    using x4x1 = prefix##x4x1;                                                              \
    using x4x2 = prefix##x4x2;                                                              \
    using x8x1 = prefix##x8x1;                                                              \
  };
BASS_SKINNY_KERNELS_OF(SkinnyBf16, kBf16)
BASS_SKINNY_KERNELS_OF(SkinnyInt8, kInt8)
BASS_SKINNY_KERNELS_OF(SkinnyFp8, kFp8)
#undef BASS_SKINNY_KERNELS_OF
#undef BASS_SKINNY_KERNEL

}  // namespace bass::cuda
