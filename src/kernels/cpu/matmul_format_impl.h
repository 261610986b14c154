// How the matrix products read a tile of packed weights: a "source" gives, for one group after another, the quants of
// 16 channels as vectors of unsigned bytes, and the channels' scales and minima. Include after a simd_*.h.
#pragma once

#include "kernels/cpu/activations.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kGroupQuads = kGroupLen / 4;
inline constexpr size_t kQuadBytes = 64;  // 4 elements of 16 channels
inline constexpr size_t kPrefetchDistance = 8192;

/// What a sum over unsigned quants lacks of the signed one of the format: nothing (the quants are meant unsigned), or
/// the offset that packing added, times the sum of the activations.
enum class QuantOffset { kNone, k8, k128 };

/// What a format's quants mean. kNibbles: all are below 16.
template <bool kNibblesValue, QuantOffset kOffsetValue, bool kHasMinimumValue>
struct QuantTraits {
  static constexpr bool kNibbles = kNibblesValue;
  static constexpr QuantOffset kOffset = kOffsetValue;
  static constexpr bool kHasMinimum = kHasMinimumValue;
};

template <DType kType>
struct FormatTraits;
template <>
struct FormatTraits<DType::kQ8_0> : QuantTraits<false, QuantOffset::k128, false> {};
template <>
struct FormatTraits<DType::kQ4_0> : QuantTraits<true, QuantOffset::k8, false> {};
template <>
struct FormatTraits<DType::kQ4_1> : QuantTraits<true, QuantOffset::kNone, true> {};

/// A tile as pack.h lays it out.
template <DType kType>
class PackedSource {
 public:
  using Traits = FormatTraits<kType>;

  PackedSource(const std::byte* tile, int n_groups)
      : quants_(tile),
        scales_(reinterpret_cast<const uint16_t*>(tile + static_cast<size_t>(n_groups) * kGroupBytes)),
        minima_(scales_ + static_cast<size_t>(n_groups) * kTileLen) {}

  /// Elements 4i .. 4i + 3 of group g.
  template <int kQuad>
  BASS_SIMD_INLINE I32x16 quad(int g) const {
    const std::byte* group = quants_ + static_cast<size_t>(g) * kGroupBytes;
    if constexpr (!Traits::kNibbles) {
      return load_i32(group + kQuad * kQuadBytes);
    } else {
      const I32x16 low_nibbles = broadcast_i32(0x0F0F0F0F);
      const I32x16 packed = load_i32(group + kQuad % (kGroupQuads / 2) * kQuadBytes);
      return bit_and(kQuad < kGroupQuads / 2 ? packed : shift_right_logical<4>(packed), low_nibbles);
    }
  }
  BASS_SIMD_INLINE F32x16 scale(int g) const { return load_f16(scales_ + static_cast<ptrdiff_t>(g) * kTileLen); }
  BASS_SIMD_INLINE F32x16 minimum(int g) const { return load_f16(minima_ + static_cast<ptrdiff_t>(g) * kTileLen); }

  /// Asks for what lies kPrefetchDistance bytes later (tiles follow one another), so that reading memory and computing
  /// overlap: the hardware's own prefetch stops at each page.
  BASS_SIMD_INLINE void prefetch_ahead(int g) const {
    const std::byte* ahead = quants_ + kPrefetchDistance + static_cast<size_t>(g) * kLoadedBytes;
    for (size_t line = 0; line < kLoadedBytes; line += 64) prefetch(ahead + line);
  }

 private:
  static constexpr size_t kGroupBytes = packed_group_bytes(kType);
  static constexpr size_t kLoadedBytes = kGroupBytes + kTileLen * (Traits::kHasMinimum ? 4 : 2);  // with its scales

  const std::byte* quants_;
  const uint16_t* scales_;
  const uint16_t* minima_;
};

/// Groups of a tile with a byte a quant and fp32 scales, as the first block of rows leaves them for the others.
struct alignas(64) UnpackedGroup {
  std::byte quads[kGroupQuads * kQuadBytes];
  float scale[kTileLen];
  float minimum[kTileLen];
};

/// Reads unpacked groups, of which the first is group `first_group` of the tile.
template <class TraitsOfFormat>
class UnpackedSource {
 public:
  using Traits = TraitsOfFormat;

  UnpackedSource(const UnpackedGroup* groups, int first_group) : groups_(groups), first_group_(first_group) {}

  template <int kQuad>
  BASS_SIMD_INLINE I32x16 quad(int g) const {
    return load_i32(groups_[g - first_group_].quads + kQuad * kQuadBytes);
  }
  BASS_SIMD_INLINE F32x16 scale(int g) const { return load(groups_[g - first_group_].scale); }
  BASS_SIMD_INLINE F32x16 minimum(int g) const { return load(groups_[g - first_group_].minimum); }
  BASS_SIMD_INLINE void prefetch_ahead(int /*g*/) const {}

 private:
  const UnpackedGroup* groups_;
  int first_group_;
};

/// Reads another source and leaves what it has read as unpacked groups.
template <class Source>
class UnpackingSource {
 public:
  using Traits = typename Source::Traits;

  UnpackingSource(const Source& source, UnpackedGroup* groups, int first_group)
      : source_(source), groups_(groups), first_group_(first_group) {}

  template <int kQuad>
  BASS_SIMD_INLINE I32x16 quad(int g) const {
    const I32x16 quants = source_.template quad<kQuad>(g);
    store_i32(groups_[g - first_group_].quads + kQuad * kQuadBytes, quants);
    return quants;
  }
  BASS_SIMD_INLINE F32x16 scale(int g) const {
    const F32x16 scale = source_.scale(g);
    store(groups_[g - first_group_].scale, scale);
    return scale;
  }
  BASS_SIMD_INLINE F32x16 minimum(int g) const {
    const F32x16 minimum = source_.minimum(g);
    store(groups_[g - first_group_].minimum, minimum);
    return minimum;
  }
  BASS_SIMD_INLINE void prefetch_ahead(int g) const { source_.prefetch_ahead(g); }

 private:
  Source source_;
  UnpackedGroup* groups_;
  int first_group_;
};

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
